"""The report's section on layers, from made-up traces."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.report import layers
from inferbench_tasks.analysis.report.runs import RunView
from tests.unit.analysis.builders import view


def run(name: str, trace: dict[str, Any]) -> RunView:
    """A run with that trace."""
    made = view(None, name)
    assert made.result is not None
    made.result.extensions["trace"] = trace
    return made


def traced() -> dict[str, Any]:
    """Four layers of 6, 2, 1, 1 ms in a run of 12 ms."""
    rows = [("a", "Conv", 6.0), ("b", "Conv", 2.0), ("c", "Relu", 1.0), ("d", "Gemm", 1.0)]
    return {
        "levels": ["application", "layer"],
        "overheads": [
            {"level": "application", "latency_ms": 10.0, "ratio": 1.0, "ci95": [1.0, 1.0]},
            {"level": "layer", "latency_ms": 12.0, "ratio": 1.2, "ci95": [1.1, 1.3]},
        ],
        "layers": {
            "framework_ms": 12.0,
            "explained_ratio": 10 / 12,
            "layers": [
                {"order": at, "name": name, "type": kind, "ms": ms, "output_bytes": 2048}
                for at, (name, kind, ms) in enumerate(rows)
            ],
            "by_type": [
                {"type": "Conv", "count": 2, "ms": 8.0, "share_ratio": 0.8},
                {"type": "Relu", "count": 1, "ms": 1.0, "share_ratio": 0.1},
                {"type": "Gemm", "count": 1, "ms": 1.0, "share_ratio": 0.1},
            ],
        },
    }


def test_one_sentence_says_where_it_goes() -> None:
    """The fewest layers with half of the time, the type with the most, and what layers do not explain."""
    said = layers.words([run("a", traced())])
    assert (
        said
        == "a: 1 of 4 layers take 60% of the layers' time, Conv 80%; the layers add up to 83% of a run's 12 ms."
    )


def test_a_trace_says_what_speaks_against_it() -> None:
    """Spans beyond their parents are counted beside the sentence; none are no words."""
    checks = {"adds_up": False, "negative": 0, "beyond_parents": 3}
    assert layers.words([run("a", traced() | {"checks": checks})]).endswith(
        "12 ms. Of its spans 3 reach beyond their parents."
    )
    sampling = {"runs": 9, "left_out": 2, "lost": 40}
    assert "12 ms. 2 of 9 sampled runs lost samples" in layers.words(
        [run("a", traced() | {"sampling": sampling})]
    )


def test_layers_of_another_batch_than_the_loads_say_so() -> None:
    """A load of one sample a request beside a trace of eight, which the report has in one text."""
    made = run("a", traced() | {"batch_size": 8})
    assert made.result is not None
    size = made.result.load.batch_size
    assert size != 8 and layers.words([made]).endswith(
        f"12 ms. Each traced request has 8 samples, each of the load's {size}: times of the trace and figures of the "
        "load are of different batches."
    )


def test_layers_of_no_time_have_no_shares() -> None:
    """OpenVINO's counters are whole microseconds: the nodes of a small model may all stand at 0."""
    trace = traced()
    for row in trace["layers"]["layers"]:
        row["ms"] = 0.0
    trace["layers"] |= {
        "explained_ratio": 0.0, "by_type": [{"type": "Conv", "count": 4, "ms": 0.0, "share_ratio": None}]
    }  # fmt: skip
    made = [run("a", trace)]
    assert layers.words(made).startswith(
        "a: its 4 layers took too short a time to be told from none, in a run's 12 ms."
    )
    tables = {table["title"]: table["rows"] for table in layers.tables(made)}
    assert [row[5] for row in tables["The longest layers"]] == ["–"] * 4
    assert tables["Time by type of layer"] == [["a", "Conv", "4", "0", "–"]]


def sampled(**more: Any) -> dict[str, Any]:
    """51 of 1,000 requests of a load, whose inference takes most of the time in the server."""
    times = {"request": 9.0, "to first byte": 8.9, "queue": 2.0, "server": 8.0, "inference": 5.0}
    cost = [
        {"level": level, "latency_ms": ms, "ratio": ms / 8, "ci95": None}
        for level, ms in (("application", 8.0), ("model", 8.4))
    ]
    return {
        "levels": ["application", "model"], "one_in": 20, "requests": 51, "of": 1_000, "failed": 0,
        "unanswered": 0, "lost": 0,
        "layers": None, "overheads": cost, "doubts": [],
        "parts": [{"part": part, "requests": 51, "median_ms": ms, "longest_ms": 2 * ms} for part, ms in times.items()],
    } | more  # fmt: skip


def test_a_share_of_a_load_never_passes_for_all_of_it() -> None:
    """How many of how many stand in the sentence and in each row; those without an answer, lost ones and a load that
    was not the one that was asked for are told. What processors at the client take is no time in the server,
    and a row of theirs has another name than one in the server.
    """
    share = "a: 51 of 1,000 requests of the load were traced, 1 in 20 by chance"
    longest = " In the server inference takes longest, 5 ms in the median."
    assert layers.words([run("a", sampled())]) == f"{share}.{longest}"
    assert layers.words([run("a", sampled(lost=3))]) == f"{share}.{longest}"  # of the warm-up, say
    worse = sampled(failed=2, unanswered=7, lost=90, doubts=["round 1, level model: late"])
    assert layers.words([run("a", worse)]) == (
        f"{share}; 2 more were chosen and got no good answer; the server kept nothing of 7, for it "
        "keeps so many and no more: what it tells is of the load's beginning. "
        f"Its load does not count: round 1, level model: late.{longest}"
    )
    at_client = {"part": "pre-process", "requests": 51, "median_ms": 7.0, "longest_ms": 9.0}
    with_client = sampled()["parts"] + [at_client | {"level": "application"}]
    assert layers.words([run("a", sampled(parts=with_client))]) == f"{share}.{longest}"
    in_server = sampled()["parts"] + [at_client | {"level": "model"}]
    assert "In the server pre-process takes longest, 7 ms" in layers.words(
        [run("a", sampled(parts=in_server))]
    )
    blind = sampled(unseen="the sampler ended with exit code 1: killed")
    assert layers.words([run("a", blind)]).endswith(
        f"{longest} Monitors did not see all of it: the sampler ended with exit code 1: killed."
    )
    cost, parts = layers.tables([run("a", sampled())])
    assert (
        cost["rows"][1] == ["a", "model", "8.4", "1.05", "–"] and "all requests of the load" in cost["note"]
    )
    assert parts["rows"][2] == ["a", "51 of 1,000", "queue", "2", "4"]
    assert "one by one" in layers.tables([run("a", traced())])[0]["note"]
    rows = {
        which: layers.tables([run("a", sampled(parts=[at_client | {"level": which}]))])[1]["rows"]
        for which in ("application", "model")
    }
    assert rows == {
        "application": [["a", "51 of 1,000", "pre-process at the client", "7", "9"]],
        "model": [["a", "51 of 1,000", "pre-process", "7", "9"]],
    }
    assert layers.charts([run("a", sampled())]) == []


def test_a_trace_that_did_not_reach_its_collector_says_so() -> None:
    """How many spans are there and why the others are not, beside the sentence; of one that is whole nothing."""
    sent = {"spans": 1200, "accepted": 1000, "problem": "HTTP 503: full"}
    assert layers.words([run("a", traced() | {"sent": sent})]).endswith(
        "12 ms. The collector has 1,000 of its 1,200 spans: HTTP 503: full."
    )
    del sent["problem"]
    assert layers.words([run("a", traced() | {"sent": sent})]).endswith("12 ms.")


def test_tables_have_cost_layers_and_types() -> None:
    """Instruments with their interval, the longest layer first, types as they were summed."""
    cost, longest, types = layers.tables([run("a", traced())])
    assert cost["rows"][1] == ["a", "layer", "12", "1.20", "1.10 to 1.30"]
    assert longest["rows"][0] == ["a", "0", "a", "Conv", "6", "60.0%", "2"]
    assert types["rows"][0] == ["a", "Conv", "2", "8", "80.0%"]


def test_a_trace_that_failed_says_why() -> None:
    """The first line of the reason stands in the report, and no figure."""
    failed = [run("a", {"problem": "The server left no trace\nand more"})]
    assert layers.words(failed) == "a was not traced: The server left no trace."
    assert layers.tables(failed) == [] and layers.charts(failed) == []


def test_runs_that_were_not_traced_have_no_section() -> None:
    """Nothing is drawn or said of them."""
    plain = [view(None, "a")]
    assert layers.words(plain) == "" and layers.tables(plain) == [] and layers.charts(plain) == []
