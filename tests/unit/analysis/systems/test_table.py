"""The model x system table by hand: which runs its figures are of, and who ranks before whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.systems.found import sorted_in
from inferbench_tasks.analysis.systems.table import rows, trimmed_mean
from tests.unit.perfdb.builders import result

ONE = {"kind": "closed_loop", "concurrency": 1}
MANY = {"kind": "closed_loop", "concurrency": 8}


def run(
    run_id: str, backend: str = "onnxruntime", arrivals: Any = ONE, batch: int = 1, **summary: Any
) -> dict[str, Any]:
    """A valid run as PerfDB gives it back."""
    made = result(
        run_id,
        backend={"kind": backend, "version": "1", "settings": {"threads": 1}},
        load={"arrivals": arrivals, "batch_size": batch, "seed": 1},
        summary={"e2e_latency_ms": {"mean": 5.0, "p90": 6.0, "p99": 7.0}, **summary},
    )
    return made.model_dump()


def test_each_figure_is_of_the_run_that_it_belongs_to() -> None:
    """Latency of one user alone, throughput of the best batch size with its memory and energy, the newest first."""
    documents = [
        run("alone"),
        run(
            "eight",
            arrivals=MANY,
            batch=8,
            throughput_samples_per_s=900.0,
            resources={"server": {"rss_bytes": {"max": 5}}},
        ),
        run("older-eight", arrivals=MANY, batch=8, throughput_samples_per_s=5000.0),
        run("four", arrivals=MANY, batch=4, throughput_samples_per_s=700.0, energy={"joule_per_sample": 9.0}),
        run("open", arrivals={"kind": "poisson", "rate_rps": 50.0}, throughput_samples_per_s=9999.0),
    ]
    (row,) = rows(sorted_in(documents), {"alone": 4.5}.get)
    assert (row["online_run"], row["trimmed_mean_ms"], row["p90_ms"], row["p99_ms"]) == (
        "alone",
        4.5,
        6.0,
        7.0,
    )
    assert (row["best_run"], row["throughput_samples_per_s"], row["batch_size"]) == ("eight", 900.0, 8)
    assert (row["batch_sizes"], row["rss_bytes"], row["joule_per_sample"]) == (2, 5, None)
    assert {name: value for name, value in row.items() if name.startswith("rank_") and value} == {}


def test_a_port_that_a_start_drew_makes_no_stack_of_its_own() -> None:
    """Five starts of one Triton on five ports, as an earlier version stored them: one row, of the newest; the port is
    no part of what people are shown. Another number of instances is another stack.
    """

    def triton(number: int, instances: int = 1) -> dict[str, Any]:
        made = run(f"r{number}", "triton", MANY, 8, throughput_samples_per_s=100.0 + number)
        made["backend"]["settings"] = {
            "instances": instances, "max_batch_size": 8, "metrics_port": 40000 + number,
        }  # fmt: skip
        return made

    made = rows(sorted_in([*map(triton, range(5)), triton(9, instances=2)]), lambda run: None)
    assert [(row["instances"], row["best_run"]) for row in made] == [(1, "r0"), (2, "r9")]
    assert made[0]["settings"] == "max_batch_size=8"


def test_ranks_are_within_the_model_and_ties_share_one() -> None:
    """2% apart is noise of single runs, five times is not; a model alone has no rank."""
    documents = [
        run("a", "onnxruntime"), run("b", "openvino"), run("c", "torchscript"),
    ]  # fmt: skip
    other = run("d") | {"model": {**run("d")["model"], "name": "other"}}
    means = {"a": 10.0, "b": 10.2, "c": 50.0, "d": 1.0}
    made = {row["online_run"]: row for row in rows(sorted_in([*documents, other]), means.get)}
    assert [made[name]["rank_trimmed_mean_ms"] for name in "abcd"] == [1, 1, 3, None]


def test_answers_to_other_prompts_are_no_faster_server() -> None:
    """A hundred times as many requests of ten tokens as of a thousand: rows of their own, ranked among their like."""

    def asked(run_id: str, backend: str, words: str, rate: float) -> dict[str, Any]:
        return run(run_id, backend, {**MANY, "prompts": words}, throughput_samples_per_s=rate)

    documents = [
        asked("short", "vllm", "10 tokens in, 10 out", 500.0),
        asked("long", "vllm", "1,000 tokens in, 1,000 out", 5.0),
        asked("other", "llama.cpp", "1,000 tokens in, 1,000 out", 2.0),
    ]
    made = {row["best_run"]: row for row in rows(sorted_in(documents), lambda run: None)}
    assert {name: row["rank_throughput_samples_per_s"] for name, row in made.items()} == {
        "short": None, "long": 1, "other": 2,
    }  # fmt: skip
    assert made["short"]["prompts"] == "10 tokens in, 10 out"


def test_right_answers_are_ranked_over_the_same_samples_only() -> None:
    """Both within one data set; the third was asked another one, where it is alone. No measure is called another's."""

    def judged(run_id: str, backend: str, value: float, data: str) -> dict[str, Any]:
        quality = {"top1_ratio": {"value": value, "ci95": [value - 0.01, value + 0.01]}}
        evaluation = {"dataset": data, "samples": 450, "samples_digest": "aa" * 32}
        return run(run_id, backend, quality=quality) | {"extensions": {"evaluation": evaluation}}

    documents = [
        judged("a", "onnxruntime", 0.9, "digits"), judged("b", "openvino", 0.5, "digits"),
        judged("c", "torchscript", 0.99, "easy"),
    ]  # fmt: skip
    made = {row["judged_run"]: row for row in rows(sorted_in(documents), lambda run: None)}
    assert [made[name]["rank_quality"] for name in "abc"] == [1, 2, None]
    assert made["a"]["measure"] == "top1_ratio" and made["a"]["judged_on"].startswith("450 samples of digits")


def test_quality_is_of_all_samples_and_of_new_ones() -> None:
    """Neither the newest part's, nor the newer one of samples that models are trained on: that one only where there is
    no other."""

    def judged(run_id: str, value: float, part: str | None = None, training: bool = False) -> dict[str, Any]:
        evaluation = {"dataset": "digits", "samples": 450, "data": {"training": training}}
        made = run(run_id, quality={"top1_ratio": {"value": value, "ci95": None}})
        job = {"job": {"evaluate": {"part": part}}}
        return made | {"extensions": {"evaluation": evaluation}, "provenance": job}

    part, trained, plain = judged("a", 0.99, part="1/8"), judged("b", 1.0, training=True), judged("c", 0.9)
    for documents, told in (([part, trained, plain], "c"), ([part, trained], "b"), ([part], None)):
        (row,) = rows(sorted_in(documents), lambda run: None)
        assert row["judged_run"] == told


def test_what_was_withheld_and_what_went_another_way_stays_out() -> None:
    """A run whose mean was withheld has no trimmed one; runs over a wide network are no part of it."""
    silent = run("silent")
    silent["summary"]["e2e_latency_ms"]["mean"] = None
    (row,) = rows(sorted_in([silent]), lambda run: 3.0)
    assert row["trimmed_mean_ms"] is None
    away = run("away")
    away["load"]["network"] = "wifi"
    assert sorted_in([away]) == []


def test_the_trimmed_mean_leaves_the_fifth_at_each_end_out() -> None:
    """Of 1 to 10, with a last one of 1,000: the mean of 3 to 8."""
    assert trimmed_mean(np.array([*range(1, 10), 1000.0])) == pytest.approx(5.5)
    assert trimmed_mean(np.arange(9.0)) is None


def test_throughput_is_of_loads_that_ask_for_all() -> None:
    """One user, and users who think, leave the server idle: 100/s and 50/s are no throughput of it. Of two loads of
    one batch size the larger counts, 900/s, although the other is newer; of one load the newest, though 999/s is more.
    """
    thinking = {"kind": "closed_loop", "concurrency": 8, "think_time_ms": 20.0}
    four = {"kind": "closed_loop", "concurrency": 4}
    documents = [
        run("alone", throughput_samples_per_s=100.0),
        run("thinking", arrivals=thinking, throughput_samples_per_s=50.0),
    ]
    (row,) = rows(sorted_in(documents), lambda _: None)
    assert (row["best_run"], row["throughput_samples_per_s"], row["batch_sizes"]) == (None, None, 0)
    documents += [
        run("four", arrivals=four, throughput_samples_per_s=700.0),
        run("eight", arrivals=MANY, throughput_samples_per_s=900.0),
        run("older", arrivals=MANY, throughput_samples_per_s=999.0),
    ]
    (row,) = rows(sorted_in(documents), lambda _: None)
    assert (row["best_run"], row["throughput_samples_per_s"], row["batch_sizes"]) == ("eight", 900.0, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"name": "m", "version": 2, "digest": "aa"}},
        {"model": {"name": "m", "version": 1, "digest": "bb"}},
        {"backend": {"kind": "onnxruntime", "version": "1", "settings": {"batching": {"sizes": [1, 2]}}}},
        {"backend": {"kind": "onnxruntime", "version": "1", "settings": {"engine_settings": {"a": [1]}}}},
        {"load": {"arrivals": ONE, "batch_size": 1, "protocol": "grpc"}},
        {"load": {"arrivals": ONE, "batch_size": 1, "protocol": "http", "transport": "shared_memory"}},
    ],
)
def test_what_is_served_otherwise_has_a_row_of_its_own(change: dict[str, Any]) -> None:
    """Another version or content of the model, batching, setting of the engine, or protocol: two rows, told apart."""
    plain = run("a") | {
        "model": {"name": "m", "version": 1, "digest": "aa"},
        "backend": {"kind": "onnxruntime", "version": "1", "settings": {}},
    }
    made = rows(sorted_in([plain, plain | {"run_id": "b"} | change]), lambda _: 1.0)
    assert [row["online_run"] for row in made] in (["a", "b"], ["b", "a"])
    names = ("model_version", "model_digest", "settings", "protocol")
    assert len({tuple(row[name] for name in names) for row in made}) == 2


def test_one_file_has_one_row_whatever_its_weights_were_called() -> None:
    """Earlier versions called each fp32: the newest name is shown. What was asked for tells two apart."""
    convert = {"convert": {"format": "onnx", "precision": "fp32"}}
    runs = [
        run(name)
        | {"model": {"name": "m", "digest": "aa", "precision": called}, "provenance": {"job": convert}}
        for name, called in (("new", "int8"), ("old", "fp32"))
    ]
    (row,) = rows(sorted_in(runs), lambda _: 1.0)
    assert (row["online_run"], row["precision"]) == ("new", "int8")
    runs[1]["provenance"] = {"job": {"convert": {"format": "onnx", "precision": "fp16"}}}
    assert len(rows(sorted_in(runs), lambda _: 1.0)) == 2


def test_a_label_and_a_file_for_each_batch_size_make_no_row() -> None:
    """The label of a deployment says nothing of how it serves; fixed batch sizes have files of one source."""
    documents = []
    for size, label in ((1, "x"), (8, "y")):
        model = {"name": "m", "version": 1, "digest": f"{size}", "source_digest": "s", "batch_size": size}
        backend = {"kind": "onnxruntime", "version": "1", "settings": {"label": label, "ops": ({"a": [1]},)}}
        one = run(f"of-{size}", arrivals=MANY, batch=size, throughput_samples_per_s=10.0 * size)
        documents.append(one | {"model": model, "backend": backend})
    (row,) = rows(sorted_in(documents), lambda _: None)
    assert (row["batch_sizes"], row["best_run"]) == (2, "of-8")


def test_work_of_another_size_is_no_slower_server() -> None:
    """Texts of 512 tokens against 16: two rows of one stack, and the other stack's 16 are ranked beside its 16 alone.
    So are pictures that a server has to decode."""

    def asked(run_id: str, backend: str, **job: Any) -> dict[str, Any]:
        made = run(run_id, backend)
        return made | {"provenance": {"job": job}}

    def tokens(size: int) -> dict[str, Any]:
        return {"requests": {"kind": "random", "sizes": [{"axes": ["ids.1"], "size": size}]}}

    documents = [
        asked("long", "onnxruntime", **tokens(512)),
        asked("short", "onnxruntime", **tokens(16)),
        asked("other", "openvino", **tokens(16)),
        asked("decoding", "openvino", **tokens(16), processors={"input": {"kind": "image"}}),
        asked("plain", "openvino"),
    ]
    means = {"long": 90.0, "short": 5.0, "other": 10.0, "decoding": 30.0, "plain": 1.0}
    made = {row["online_run"]: row for row in rows(sorted_in(documents), means.get)}
    assert {name: row["rank_trimmed_mean_ms"] for name, row in made.items()} == {
        "long": None, "short": 1, "other": 2, "decoding": None, "plain": None,
    }  # fmt: skip
    assert made["long"]["inputs"] == "sizes [{axes: [ids.1], size: 512}]" and made["plain"]["inputs"] is None


def test_costs_are_ranked_within_one_price_list() -> None:
    """3 and 1 USD by the list of January, 0.5 by that of June: which server costs less nobody knows between these."""

    def priced(run_id: str, backend: str, usd: float, date: str) -> dict[str, Any]:
        instances = [{"provider": "p", "instance": "i", "region": "r", "usd_per_hour": usd, "date": date}]
        cost: dict[str, Any] = {"cost": {"instances": instances}, "cost_usd_per_1k_samples": usd}
        return run(run_id, backend, MANY, throughput_samples_per_s=100.0, **cost)

    documents = [
        priced("a", "onnxruntime", 3.0, "2026-01-05"), priced("b", "openvino", 1.0, "2026-01-05"),
        priced("c", "torchscript", 0.5, "2026-06-01"),
    ]  # fmt: skip
    made = {row["best_run"]: row for row in rows(sorted_in(documents), lambda _: None)}
    assert [made[name]["rank_cost_usd_per_1k_samples"] for name in "abc"] == [2, 1, None]
    assert [made[name]["price_date"] for name in "abc"] == ["2026-01-05", "2026-01-05", "2026-06-01"]
