"""XSP's analyses of kernels (8 to 15), each against a table made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.analysis.ceilings import Ceilings
from inferbench_tasks.analysis.stack.base import ANALYSES, Analysis, Subject
from inferbench_tasks.analysis.stack.document import analysed, stacks, write
from inferbench_tasks.analysis.stack.kernels import Kernels, kernels_of
from inferbench_tasks.analysis.stack.work import Work, total
from inferbench_tasks.tracing.profiled import with_library, without_deeper
from inferbench_tasks.tracing.spans import INSTRUMENTED, Span
from tests.unit.analysis.stack.spans import layer, profile, sentence_of

US = 1_000
#: 100 GFLOP/s and 10 GB/s: from 10 FLOP/byte on a kernel is bound by arithmetic.
CEILINGS = {"gflops": 100.0, "gb_s": 10.0, "array_bytes": 0, "cache_bytes": None}
#: name, type, start and end in us, attributes, and what is inside
Made = tuple[str, str, float, float, dict[str, Any], Sequence[Any]]


def onednn(kind: str, start: float, end: float, flops: int, moved: int | None, **more: Any) -> Made:
    """A primitive."""
    about = {"library": "oneDNN", "flops": flops} | ({} if moved is None else {"bytes": moved}) | more
    return "jit", kind, start, end, about, ()


def aten(name: str, start: float, end: float, *inside: Made, **more: Any) -> Made:
    """An operator."""
    return f"aten::{name}", name, start, end, {"library": "ATen"} | more, inside


#: A convolution of 60 us (reorder 10, convolution 40, memory 2: 8 around them) and a product of 20 us of its own.
LAYERS: list[tuple[str, str, Made]] = [
    (
        "conv",
        "conv2d",
        aten(
            "conv2d", 0, 60,
            aten(
                "mkldnn_convolution", 1, 59,
                onednn("reorder", 2, 12, 0, 50_000),
                aten("empty", 13, 15),
                onednn("convolution", 16, 56, 2_000_000, 100_000, data_type="f32"),
            ),
        ),
    ),
    ("fc", "linear", aten("linear", 60, 85, aten("t", 61, 66),
                          aten("addmm", 66, 84, flops=90_000, bytes=90_000, data_type="f32"))),
    ("odd", "custom", aten("custom_op", 85, 95)),
]  # fmt: skip


def run(trace: str, round_: int, layers: Sequence[tuple[str, str, Made]], us: float = 100) -> Iterator[Span]:
    """One request with the instruments of the library level."""
    about = {"round": round_, INSTRUMENTED: "library"}
    yield Span(trace, 0, -1, "application", "request", 0, round(us * US), "", about)
    yield Span(trace, 1, 0, "framework", "session.run", 0, round(us * US))
    numbers = iter(range(2, 1000))

    def within(parent: int, made: Made) -> Iterator[Span]:
        name, type_, start, end, attributes, inside = made
        number = next(numbers)
        length = round((end - start) * US)
        yield Span(trace, number, parent, "library", name, round(start * US), length, type_, attributes)
        for each in inside:
            yield from within(number, each)

    for name, type_, made in layers:
        number = next(numbers)
        length = round((made[3] - made[2]) * US)
        yield Span(trace, number, 1, "layer", name, round(made[2] * US), length, type_)
        yield from within(number, made)


def kernels(
    layers: Sequence[tuple[str, str, Made]] = LAYERS,
    ceilings: dict[str, Any] | None = CEILINGS,
    threads: int | None = 1,
) -> Kernels:
    """Those of one run."""
    found = kernels_of(run("a", 0, layers), ceilings, threads)
    assert found is not None
    return found


SUBJECT = replace(Subject(profile([[layer("conv", "conv2d", 50)]])), kernels=kernels())


def test_shared_objects_that_were_sampled_are_called_no_kernels() -> None:
    """What a node has of them by its samples is its time; the sentences say what that is, those of kernels do not. What
    needs FLOPs or oneDNN's primitives is missing."""
    about = {"library": "runtime.so", "samples": 3, "samples_of_layer": 4}
    found = kernels([("conv", "Conv", ("runtime.so", "sampled", 0, 45, about, ()))])
    (only,) = found.kernels
    assert (only.name, only.library, only.flops, only.bytes) == ("runtime.so", "runtime.so", None, None)
    assert only.ms == pytest.approx(0.045)
    subject = replace(SUBJECT, kernels=found)
    for name in ("kernels", "kernels_by_name", "kernels_by_layer", "kernels_by_model"):
        assert sentence_of(ANALYSES.load(name)(), subject).endswith(
            "sampled in, by their share of the samples."
        )
        assert "sampled" not in sentence_of(ANALYSES.load(name)(), SUBJECT)
    assert all(
        ANALYSES.load(name)().missing(subject)
        for name in ("kernel_roofline", "kernel_metrics", "kernel_share")
    )


def test_each_table_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentence and figure of an analysis are of the very rows that are its table."""
    made: list[str] = []
    for name in ANALYSES:
        kind = ANALYSES.load(name)

        def counted(self: Analysis, subject: Subject, rows: Any = kind.rows, name: str = name) -> Any:
            made.append(name)
            return rows(self, subject)

        monkeypatch.setattr(kind, "rows", counted)
    document = analysed(SUBJECT)
    assert sorted(made) == sorted(each["name"] for each in document["analyses"] if not each["missing"])
    assert {"kernels", "kernel_metrics", "kernels_by_layer", "layer_roofline"} <= set(made)


def test_kernels_stand_with_their_layers() -> None:
    """Each kernel once, a layer without any too, both in their order."""
    found = SUBJECT.kernels
    assert found is not None
    grouped = found.by_layer()
    assert [layer for layer, _ in grouped] == list(found.layers)
    assert sorted((k for _, inside in grouped for k in inside), key=lambda k: k.order) == list(found.kernels)
    assert all(kernel.layer == layer.order for layer, inside in grouped for kernel in inside)


def table(name: str) -> list[dict[str, Any]]:
    """The rows of an analysis."""
    return ANALYSES.load(name)().rows(SUBJECT)


def words(name: str) -> str:
    """Its sentence."""
    return sentence_of(ANALYSES.load(name)(), SUBJECT)


def test_8_kernels_have_the_time_that_is_their_own() -> None:
    """What is around oneDNN's primitives is no kernel; of other operators what is not inside them."""
    rows = table("kernels")
    assert [(row["kernel"], round(row["ms"] * 1000, 6)) for row in rows] == [
        ("reorder jit", 10), ("aten::empty", 2), ("convolution jit", 40), ("aten::linear", 2), ("aten::t", 5),
        ("aten::addmm", 18), ("aten::custom_op", 10),
    ]  # fmt: skip
    assert [row["layer"] for row in rows] == ["conv"] * 3 + ["fc"] * 3 + ["odd"]
    convolution = rows[2]
    assert (convolution["flop_per_byte"], convolution["bound"]) == (20, "arithmetic")
    assert (convolution["gflop_per_s"], convolution["gb_per_s"]) == pytest.approx((50, 2.5))
    assert (
        words("kernels")
        == "3 of 7 kernels (oneDNN, ATen) take 68% of a run's 0.1 ms; all kernels 87.0% of it."
    )


def test_operators_side_by_side_leave_what_none_of_them_covers() -> None:
    """Two of 6 us each, from 2 to 8 and from 4 to 10 of 10 us: 2 us are left, and not 10 - 12 = -2."""
    wide = aten("cat", 0, 10, aten("mul", 2, 8), aten("add", 4, 10))
    rows = ANALYSES.load("kernels")().rows(replace(SUBJECT, kernels=kernels([("both", "custom", wide)])))
    assert {row["kernel"]: row["ms"] * 1000 for row in rows} == pytest.approx(
        {"aten::cat": 2, "aten::mul": 6, "aten::add": 6}
    )


def test_what_is_not_known_of_a_kernel_is_no_figure() -> None:
    """Operators that only look at memory do nothing; an operator that nobody knows has neither FLOPs nor bytes."""
    rows = {row["kernel"]: row for row in table("kernels")}
    assert (rows["aten::t"]["flops"], rows["aten::t"]["bytes"]) == (0, 0)
    assert (rows["aten::linear"]["flops"], rows["aten::linear"]["bytes"]) == (0, None)
    unknown = rows["aten::custom_op"]
    assert {unknown[name] for name in ("flops", "bytes", "flop_per_byte", "gflop_per_s", "bound")} == {None}


def test_9_kernels_below_the_roof() -> None:
    """Of both products one is bound by memory: 18 of 58 us; 50 of 100 GFLOP/s is a half, 5 of 1 x 10 too."""
    rows = table("kernel_roofline")
    assert [(row["kernel"], row["bound"]) for row in rows] == [
        ("convolution jit", "arithmetic"),
        ("aten::addmm", "memory"),
    ]
    assert [row["of_roof_ratio"] for row in rows] == pytest.approx([0.5, 5 / 10])
    assert words("kernel_roofline") == (
        "1 of 2 kernels that multiply matrices are bound by memory, 31% of their time; the longest, convolution jit, "
        "is bound by arithmetic and attains 50% of its roof."
    )


def test_10_kernels_by_name() -> None:
    """Two of one name are one row; what is not known of one of them is not known of the row."""
    twice = [*LAYERS, ("again", "conv2d", aten("conv2d", 95, 99, onednn("convolution", 95, 99, 1, None)))]
    rows = ANALYSES.load("kernels_by_name")().rows(replace(SUBJECT, kernels=kernels(twice)))
    first = rows[0]
    assert (first["kernel"], first["count"], first["flops"], first["bytes"]) == (
        "convolution jit", 2, 2_000_001, None,
    )  # fmt: skip
    assert first["ms"] == pytest.approx(0.044) and first["share_ratio"] == pytest.approx(44 / 91)
    assert words("kernels_by_name").startswith(
        "convolution jit (oneDNN) takes 46% of the kernels' time, in 1 of 7"
    )


def test_11_kernels_by_layer() -> None:
    """52, 25 and 10 us."""
    rows = table("kernels_by_layer")
    assert [(row["kernels"], row["longest"]) for row in rows] == [
        (3, "convolution jit"), (3, "aten::addmm"), (1, "aten::custom_op"),
    ]  # fmt: skip
    assert [row["ms"] for row in rows] == pytest.approx([0.052, 0.025, 0.010])
    assert words("kernels_by_layer").startswith("The kernels of conv (3) take most, 60%")


def test_12_flops_and_bytes_by_layer() -> None:
    """Of the second layer 23 of 25 us are counted; of the third nothing is known."""
    rows = table("kernel_metrics")
    assert [(row["flops"], row["bytes"]) for row in rows] == [
        (2_000_000, 150_000), (90_000, 90_000), (None, None),
    ]  # fmt: skip
    assert [row["counted_ratio"] for row in rows] == pytest.approx([1, 23 / 25, 0])
    assert words("kernel_metrics") == (
        "conv calculates most, 96% of 0.00209 GFLOP, at 38.5 GFLOP/s; FLOPs and bytes are known of 86% of the kernels' "
        "time."
    )


def test_13_kernels_against_what_is_around_them() -> None:
    """Of 60 us 50 are primitives, 2 an operator of its own, 8 around them; of other layers nobody tells."""
    (row,) = table("kernel_share")
    assert [row[name] for name in ("ms", "primitives_ms", "operators_ms", "other_ms")] == pytest.approx(
        [0.060, 0.050, 0.002, 0.008]
    )
    assert words("kernel_share").startswith(
        "In 1 of 3 layers oneDNN's primitives take 83.3% of the layers' time"
    )


def test_14_layers_below_the_roof() -> None:
    """13.3 FLOP/byte with the reordering are still bound by arithmetic; the layer without FLOPs has no place."""
    rows = table("layer_roofline")
    assert [(row["layer"], row["bound"]) for row in rows] == [("conv", "arithmetic"), ("fc", "memory")]


def test_15_the_model_as_one() -> None:
    """All, and by library; what both are known of is 75 of 87 us."""
    whole, own, other = table("kernels_by_model")
    assert (whole["kernels"], whole["flops"]) == (7, 2_090_000)
    assert whole["counted_ratio"] == pytest.approx(75 / 87)
    assert (own["library"], own["kernels"], own["ms"]) == ("oneDNN", 2, pytest.approx(0.05))
    assert (other["library"], other["flops"]) == ("ATen", 90_000)
    assert "bound by memory together" in words("kernels_by_model")


def test_what_is_missing_is_named() -> None:
    """No trace of that level, no FLOPs, no ceilings, no primitives of oneDNN: no table."""

    def missing(name: str, found: Kernels | None) -> str:
        return ANALYSES.load(name)().missing(replace(SUBJECT, kernels=found)) or ""

    names = [name for name in ANALYSES if "kernel" in name or name == "layer_roofline"]
    assert len(names) == 8
    assert all("trace: {deepest: library}" in missing(name, None) for name in names)
    alone = kernels([("n", "MVN", ("jit_avx512", "MVN", 0, 9, {"library": "OpenVINO"}, ()))])
    for name in ("kernel_roofline", "kernel_metrics", "layer_roofline"):
        assert "FLOPs and bytes of kernels" in missing(name, alone)
    assert "primitives of oneDNN" in missing("kernel_share", alone)
    assert not missing("kernels", alone)
    for ceilings, why in (({"problem": "no memory for it"}, "no memory for it"), (None, "not measured")):
        assert why in missing("layer_roofline", kernels(ceilings=ceilings))
    assert not missing("kernel_metrics", kernels(ceilings=None))
    nothing = replace(kernels(), kernels=(), lacking="9 of 9 sampled runs lost samples.")
    assert all(missing(name, nothing).endswith("9 of 9 sampled runs lost samples") for name in names)


def test_what_is_missing_of_the_kernels_is_said_with_the_table() -> None:
    """A share of fewer runs than were traced does not pass for one of all."""
    lossy = replace(SUBJECT, kernels=replace(kernels(), lacking="2 of 9 sampled runs lost samples."))
    analysis = ANALYSES.load("kernels")()
    assert analysis.sentence(lossy, analysis.rows(lossy)).endswith("2 of 9 sampled runs lost samples.")


def test_rounds_and_their_middle_runs_count() -> None:
    """Of four runs the middle two by length; the mean of two rounds."""
    spans = [
        span
        for round_, lengths in enumerate(([10, 20, 30, 400], [40]))
        for at, us in enumerate(lengths)
        for span in run(f"{round_}{at}", round_, [("r", "relu", aten("relu", 0, us))], us)
    ]
    found = kernels_of(spans)
    assert found is not None
    (kernel,) = found.kernels
    assert kernel.ms_by_round == pytest.approx((0.025, 0.040)) and found.framework_ms == pytest.approx(0.0325)


def test_layers_are_those_of_requests_without_deeper_instruments() -> None:
    """A request says which instruments were on; without a word there were none below layers."""
    plain = [
        Span("p", 0, -1, "application", "request", 0, 1),
        Span("p", 1, 0, "framework", "session.run", 0, 1),
    ]
    deep = list(run("d", 0, LAYERS))
    assert list(without_deeper([*plain, *deep])) == plain
    assert list(with_library([*plain, *deep])) == deep
    assert kernels_of(plain) is None


def test_work_that_is_not_known_of_a_part_is_not_known_of_all() -> None:
    """And without time there is no rate."""
    whole = total([Work(1, 5, None), Work(2, None, 3)])
    assert (whole.ms, whole.flops, whole.bytes) == (3, None, None)
    assert Work(0, 5, 5).gflop_per_s is None and Work(1, 5, 0).flop_per_byte is None
    assert Work(1, 5, 5, "f32").bound(None) is None
    assert Work(1, 5, 5, "f32").of_roof_ratio(Ceilings(1, 1)) == pytest.approx(5e-6 / 1)
    assert total([Work(1, 5, 5, "f32"), Work(1, 5, 5, "s8")]).data_type is None
    assert total([Work(1, 5, 5, "f32"), Work(1, 0, 5)]).data_type == "f32"


def other_type(*, product: str) -> Kernels:
    """A convolution in fp32 of 40 us, and one of 2 MFLOP in another type, 50 us."""
    convolution = onednn("convolution", 60, 110, 2_000_000, 100_000, data_type=product)
    return kernels([LAYERS[0], ("q", "conv2d", aten("conv2d", 60, 110, convolution))])


def test_what_is_not_fp32_is_not_judged_by_its_ceilings() -> None:
    """Of two kernels the longer one is of int8: no bound, no ratio, no point, and the sentence says so."""
    analysis = ANALYSES.load("kernel_roofline")()
    mixed = replace(SUBJECT, kernels=other_type(product="s8"))
    rows = analysis.rows(mixed)
    assert [(row["data_type"], row["bound"], row["of_roof_ratio"]) for row in rows] == [
        ("s8", None, None), ("f32", "arithmetic", pytest.approx(0.5)),
    ]  # fmt: skip
    assert rows[0]["gflop_per_s"] == pytest.approx(40)
    assert sentence_of(analysis, mixed) == (
        "0 of 1 kernels that multiply matrices in fp32 are bound by memory, 0% of their time; the longest, convolution "
        "jit, is bound by arithmetic and attains 50% of its roof. 1 of 2 kernels that multiply matrices are not "
        "judged: they calculate in another type than fp32, which the machine's FLOP/s are of, or theirs is not known."
    )
    figure = analysis.figure(mixed, rows)
    assert figure is not None and len(figure["data"][1]["x"]) == 1
    alone = kernels(
        [("q", "conv2d", aten("conv2d", 0, 50, onednn("convolution", 0, 50, 9, 9, data_type="bf16")))]
    )
    assert "the types of those that ran: bf16" in (analysis.missing(replace(SUBJECT, kernels=alone)) or "")


@pytest.mark.parametrize(("threads", "ran"), [(2, "ran on 2 threads"), (None, "that is not known")])
def test_one_core_s_ceilings_judge_one_thread_alone(threads: int | None, ran: str) -> None:
    """How far memory's rate grows with cores was not measured: no roof, no bound."""
    found = kernels(threads=threads)
    for name in ("kernel_roofline", "layer_roofline"):
        assert ran in (ANALYSES.load(name)().missing(replace(SUBJECT, kernels=found)) or "")
    assert {row["bound"] for row in ANALYSES.load("kernels")().rows(replace(SUBJECT, kernels=found))} == {
        None
    }


def test_kernels_that_took_no_time_have_work_and_no_rate() -> None:
    """A mean of 0 ns: FLOPs and bytes are told, no rate, no ratio, and no sentence fails."""
    found = kernels(
        [("n", "conv2d", aten("conv2d", 0, 5, onednn("convolution", 2, 2, 3_000_000, 10, data_type="f32")))]
    )
    subject = replace(SUBJECT, kernels=found)
    analyses = {name: ANALYSES.load(name)() for name in ("kernel_metrics", "kernels_by_model")}
    for analysis in analyses.values():
        row = analysis.rows(subject)[0]
        assert (row["flops"], row["bytes"], row["gflop_per_s"], row["gb_per_s"]) == (
            3_000_000,
            10,
            None,
            None,
        )
    assert sentence_of(analyses["kernel_metrics"], subject).startswith(
        "n calculates most, 100% of 0.003 GFLOP; FLOPs"
    )
    assert sentence_of(analyses["kernels_by_model"], subject).endswith(
        "do 0.003 GFLOP and are bound by arithmetic together."
    )
    for name in ("kernel_roofline", "layer_roofline", "kernel_share"):
        analysis = ANALYSES.load(name)()
        assert sentence_of(analysis, subject) and analysis.figure(subject, analysis.rows(subject))


def test_layers_whose_parts_exceed_them_are_left_out_and_counted() -> None:
    """A primitive of 9 us in a layer of 5 us, told too coarsely: neither 180% nor a negative rest."""
    short = (
        "short",
        "conv2d",
        ("k", "conv2d", 60, 65, {"library": "OpenVINO"}, [onednn("convolution", 60, 69, 9, 9)]),
    )
    subject = replace(SUBJECT, kernels=kernels([LAYERS[0], short]))
    analysis = ANALYSES.load("kernel_share")()
    rows = analysis.rows(subject)
    row = rows[1]
    assert (row["layer"], row["other_ms"], row["primitives_ratio"]) == ("short", None, None)
    words = analysis.sentence(subject, rows)
    assert words.startswith("In 1 of 2 layers oneDNN's primitives take 83.3%")
    assert "1 of 2 layers with such primitives are left out" in words
    figure = analysis.figure(subject, rows)
    assert figure is not None and len(figure["data"][0]["y"]) == 1


def test_figures_stand_on_one_page(tmp_path: Path) -> None:
    """Each analysis with a table has one, and the page says what the others miss."""
    document = stacks([SUBJECT])
    analyses = document["stacks"][0]["analyses"]
    assert {each["number"] for each in analyses if each["missing"]} == {1, 4, 7}
    assert all(each["figure"]["data"] for each in analyses if not each["missing"])
    names = {path.name for path in write(document, tmp_path)}
    assert {"stack.html", "stack.json", ".8-kernels.csv", ".15-kernels_by_model.parquet"} <= names
    page = (tmp_path / "stack.html").read_text()
    assert 'data-chart=".kernel_roofline"' in page and 'data-chart=".layer_latency"' in page
    assert "Missing: valid runs of this model" in page
    assert '<body data-how="It is made of the spans of the traced runs' in page, "and of no load's records"
