"""XSP's analyses of layers (1 to 7), each against a table made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from inferbench_tasks.analysis.stack.base import ANALYSES, Point, Subject
from inferbench_tasks.analysis.stack.document import analysed
from inferbench_tasks.analysis.stack.kinds import kind_of
from inferbench_tasks.analysis.stack.stored import _points
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.analysis.stack.spans import layer, profile, sentence_of
from tests.unit.perfdb.builders import result

#: 100 us in 4 layers, 25 us between.
SUBJECT = Subject(
    profile(
        [
            [
                layer("c1", "Conv", 10, (1, 8), output_bytes=2**20),
                layer("r1", "Relu", 5, (1, 8), output_bytes=2**20),
                layer("c2", "Conv", 70, (1, 8), output_bytes=2**21),
                layer("x", "Gather", 15),
            ]
        ],
        between_us=[25],
    )
)
BARE = Subject(profile([[layer("c", "conv2d", 10)]]))


def table(name: str) -> list[dict[str, object]]:
    """The rows of an analysis of the subject."""
    return ANALYSES.load(name)().rows(SUBJECT)


def test_the_layers_with_their_shares_of_a_run() -> None:
    """10, 5, 70, 15 and 25 of 125 us."""
    rows = table("layers")
    assert [row["share_ratio"] for row in rows] == pytest.approx([0.08, 0.04, 0.56, 0.12, 0.2])
    assert rows[-1]["layer"] == "between layers" and rows[0]["kind"] == "convolution"
    words = sentence_of(ANALYSES.load("layers")(), SUBJECT)
    assert words == "3 of 4 layers take 76% of a run's 0.125 ms; all layers add up to 80.0% of it."


def test_the_time_up_to_each_layer() -> None:
    """Half of 100 us is over in the third layer."""
    rows = table("layer_latency")
    assert [row["until_ms"] for row in rows] == pytest.approx([0.010, 0.015, 0.085, 0.100])
    words = sentence_of(ANALYSES.load("layer_latency")(), SUBJECT)
    assert words == "Half of the layers' time is over after 3 of 4 layers; the longest is c2, 0.07 ms."


def test_the_bytes_of_outputs() -> None:
    """1, 1 and 2 MiB of 4; of the last layer nothing is known."""
    assert [row["share_ratio"] for row in table("layer_memory")] == [0.25, 0.25, 0.5, None]
    words = sentence_of(ANALYSES.load("layer_memory")(), SUBJECT)
    assert words == "The outputs of 3 of 4 layers take 4 MiB; the largest are those of c2, 2 MiB."


def test_types_by_number_time_and_bytes() -> None:
    """Two of four layers, 80 of 100 us and 3 of 4 MiB are convolutions."""
    assert table("types")[0] == {"type": "Conv", "count": 2, "share_ratio": 0.5}
    first = table("type_latency")[0]
    assert (first["type"], first["ms"], first["share_ratio"]) == (
        "Conv",
        pytest.approx(0.08),
        pytest.approx(0.8),
    )
    rows = {str(row["type"]): row for row in table("type_memory")}
    assert (rows["Conv"]["output_bytes"], rows["Conv"]["share_ratio"]) == (3 * 2**20, 0.75)
    words = sentence_of(ANALYSES.load("type_memory")(), SUBJECT)
    assert words == "Conv has 75% of the bytes of the outputs of the 3 of 4 layers that tell them."
    assert (rows["Gather"]["known"], rows["Gather"]["output_bytes"], rows["Gather"]["share_ratio"]) == (
        0,
        None,
        None,
    )


def figure(name: str, subject: Subject = SUBJECT) -> dict[str, Any]:
    """The figure of an analysis."""
    analysis = ANALYSES.load(name)()
    made = analysis.figure(subject, analysis.rows(subject))
    assert made is not None
    return made


def test_figures_show_their_tables() -> None:
    """Layers at their places in ms and MiB, with a gap where nothing is known; types and layers by what they take."""
    bars, so_far = figure("layer_latency")["data"]
    assert bars["x"] == so_far["x"] == [0, 1, 2, 3] and bars["hovertext"] == ["c1", "r1", "c2", "x"]
    assert bars["y"] == pytest.approx([0.010, 0.005, 0.070, 0.015])
    assert so_far["y"] == pytest.approx([0.010, 0.015, 0.085, 0.100])
    assert figure("layer_memory")["data"][0]["y"] == [1, 1, 2, None]
    assert figure("layers")["data"][0]["y"] == [
        "1. c2 · Conv", "2. between layers", "3. x · Gather", "4. c1 · Conv", "5. r1 · Relu",
    ]  # fmt: skip
    for name, lengths in (
        ("types", [2, 1, 1]), ("type_latency", pytest.approx([0.080, 0.015, 0.005])), ("type_memory", [3, 1]),
    ):  # fmt: skip
        drawn = figure(name)
        assert drawn["data"][0]["x"] == lengths and drawn["data"][0]["y"][0] == "1. Conv"
        assert drawn["layout"]["xaxis"]["title"]["text"].endswith(("layers", "ms", "MiB"))


def test_a_figure_says_that_it_has_the_longest_bars_alone() -> None:
    """20 of 31: 30 layers, and what is between them."""
    many = Subject(profile([[layer(f"n{at}", f"T{at}", at + 1) for at in range(30)]]))
    drawn = figure("layers", many)
    assert drawn["layout"]["title"]["text"] == "What takes most of a run: the 20 longest of 31"
    assert drawn["data"][0]["y"][0] == "1. n29 · T29" and len(drawn["data"][0]["x"]) == 20
    assert len(figure("layer_latency", many)["data"][0]["x"]) == 30, (
        "those that are at their places are all there"
    )


def test_what_took_no_time_has_no_bar() -> None:
    """Layers may add up to more than their run, so that less than nothing is between them; the table has it."""
    beyond = Subject(
        profile([[layer("c", "Conv", 70), layer("r", "Relu", 0), layer("d", "Add", 30)]], between_us=[-5])
    )
    assert ANALYSES.load("layers")().rows(beyond)[-1]["ms"] == pytest.approx(-0.005)
    drawn = figure("layers", beyond)
    assert drawn["data"][0]["y"] == ["1. c · Conv", "2. d · Add"]
    assert drawn["layout"]["title"]["text"] == "What takes most of a run"


def test_a_source_that_tells_no_bytes_is_named() -> None:
    """The analyses of memory say what is missing instead of a table of nothing."""
    for name in ("layer_memory", "type_memory"):
        assert "ONNX Runtime" in str(ANALYSES.load(name)().missing(BARE))
    assert ANALYSES.load("layers")().missing(BARE) is None


def test_all_fifteen_are_there() -> None:
    """Each of XSP's numbers once, and every table has a formula and a sentence."""
    assert [each["number"] for each in analysed(SUBJECT)["analyses"]] == list(range(1, 16))
    for kind in ANALYSES:
        each = ANALYSES.load(kind)()
        assert each.title and each.formula and each.name == kind
        if each.missing(SUBJECT) is None:
            assert each.rows(SUBJECT) and sentence_of(each, SUBJECT).endswith(".")


def test_the_best_batch_size() -> None:
    """10, 18, 19 and 18.5 samples/s at 1, 2, 4 and 8: 4 brings 5.6% more than 2, and 8 nothing."""
    rates = ((1, 10.0), (2, 17.0), (2, 18.0), (4, 19.0), (8, 18.5))
    points = [Point(f"r{size}", size, rate, 100.0 * size) for size, rate in rates]
    analysis = ANALYSES.load("batch_sizes")()
    subject = Subject(SUBJECT.profile, points)
    assert analysis.missing(subject) is None and "load.batch_size" in str(analysis.missing(SUBJECT))
    rows = analysis.rows(subject)
    assert [(row["batch_size"], row["throughput_sps"], row["best"]) for row in rows] == [
        (1, 10.0, False), (2, 18.0, False), (4, 19.0, True), (8, 18.5, False),
    ]  # fmt: skip
    assert sentence_of(analysis, subject).startswith("A batch of 4 is the best: 19 samples/s, 400 ms")
    throughput, latencies = figure("batch_sizes", subject)["data"]
    assert (throughput["x"], throughput["y"]) == (["1", "2", "4", "8"], [10, 18, 19, 18.5])
    assert throughput["marker"]["symbol"] == ["circle", "circle", "star", "circle"]
    assert throughput["name"].endswith("(star: best of those measured)"), "perhaps a larger one is better"
    assert latencies["y"] == [100, 200, 400, 800] and latencies["yaxis"] == "y2"


@pytest.mark.parametrize(
    ("size", "words"), [(1, "of a batch of 1; trace: {batch_size: 4}"), (4, ""), (None, "")]
)
def test_the_best_batch_says_of_which_batch_all_else_is(size: int | None, words: str) -> None:
    """Loads of four samples a request are the best: of a trace of one it is said that its layers are not those, and how
    to have them; of a trace of four, and where nobody knows, nothing."""
    points = [Point(f"r{size}", size, rate, 100.0) for size, rate in ((1, 10.0), (4, 19.0), (8, 18.5))]
    profile = replace(SUBJECT.profile, about={**SUBJECT.profile.about, "batch_size": size})
    sentence = sentence_of(ANALYSES.load("batch_sizes")(), Subject(profile, points))
    assert sentence.startswith("A batch of 4 is the best") and sentence.endswith(".")
    assert words in sentence and ("of a batch" in sentence) == bool(words)


def test_of_the_largest_batch_nobody_knows_that_it_is_the_best() -> None:
    """Throughput still grew when the sizes ended."""
    points = [Point(f"r{size}", size, 10.0 * size, 100.0) for size in (1, 2, 4)]
    sentence = sentence_of(ANALYSES.load("batch_sizes")(), Subject(SUBJECT.profile, points))
    assert sentence.startswith("The largest batch that was measured, 4, ") and "may bring more" in sentence


def test_quantised_pooling_is_pooling() -> None:
    """Both sides of a comparison have it, whatever its precision."""
    assert kind_of("QLinearAveragePool") == kind_of("AveragePool") == "pooling"
    of_tensorflow = ("_FusedConv2D", "_MklNativeFusedConv2D", "_MklNativeDepthwiseConv2dNative", "Conv2D")
    assert {kind_of(type_) for type_ in of_tensorflow} == {"convolution"}
    assert kind_of("_MklNobodyKnows") == "NobodyKnows" and kind_of("_MklFusedMatMul") == "matrix product"


def test_batch_sizes_are_of_one_server() -> None:
    """Runs of another format, on more cores, with another number of instances or through a network are no points.

    Nor are those whose users think, or whose one user asks one sample: they do not ask for all that a server gives, and
    would make every batch beside them look better. One user with a batch does. A server that merges requests executes
    other batches than it is asked for, and longer texts are other work. Offline a request's latency is of the load.
    """

    class Stored:
        def find_results(self, *_: Any, **__: Any) -> list[ResultDocument]:
            return runs

    def stored(run_id: str, **changes: Any) -> ResultDocument:
        settings = {"threads": 2, "instances": 1} | changes.pop("settings", {})
        load = {"arrivals": {"kind": "closed_loop"}, "batch_size": 4} | changes.pop("load", {})
        made = result(run_id, load=load, backend={"kind": "triton", "settings": settings}, **changes)
        made.summary.throughput_samples_per_s = 50.0
        return made

    cores = {"kind": "cpu", "name": "Example CPU", "cores": 64}
    runs = [
        stored("one"),
        stored("other-format", format="torchscript"),
        stored("more-cores", device=cores),
        stored("more-instances", settings={"instances": 4}),
        stored("far", load={"network": "wifi"}),
        stored(
            "thinking", load={"arrivals": {"kind": "closed_loop", "concurrency": 8, "think_time_ms": 100}}
        ),
        stored("alone", load={"arrivals": {"kind": "closed_loop", "concurrency": 1}, "batch_size": 1}),
        stored("alone-with-a-batch", load={"arrivals": {"kind": "closed_loop", "concurrency": 1}}),
        stored("over-grpc", load={"protocol": "grpc"}),
        stored("beside-others", extensions={"sharing": {"method": "time"}}),
        stored("another-version", model={"name": "resnet50", "digest": "cd" * 32}),
        stored("merging", provenance={"job": {"serve": {"batching": {"max_batch_size": 32}}}}),
        stored("longer", provenance={"job": {"requests": {"sizes": [{"axes": ["ids.1"], "size": 512}]}}}),
        stored("offline", load={"arrivals": {"kind": "offline", "requests": 1000}}),
    ]
    points = _points(cast(Any, Stored()), runs[0])
    assert [(point.run_id, point.latency_ms) for point in points] == [
        ("one", 4.5), ("alone-with-a-batch", 4.5), ("offline", None),
    ]  # fmt: skip
    rows = [Point("one", 1, 10.0, 4.5), Point("offline", 4, 50.0, None)]
    sentence = sentence_of(ANALYSES.load("batch_sizes")(), Subject(SUBJECT.profile, rows))
    assert "50 samples/s; a larger one may bring more" in sentence
    of_none = Subject(SUBJECT.profile, [replace(each, latency_ms=None) for each in rows])
    assert len(figure("batch_sizes", of_none)["data"]) == 1, "no axis of latencies where none is known"
