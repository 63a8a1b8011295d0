"""The bars of devices side by side: what is said of each, and that no two say the same of different things."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.charts import devices
from inferbench_tasks.analysis.devices.costs import offers
from inferbench_tasks.analysis.devices.speedup import speedups
from tests.unit.analysis.devices.builders import CPU, T4, run

XEON = {"kind": "cpu", "name": "Xeon", "cores": 2.0}


def test_each_bar_names_its_reference_and_content_where_they_differ() -> None:
    """One name and precision, two contents, each over another CPU: four different labels would else be two."""
    other = {"source_digest": "77" * 32}
    documents = [
        run("a", CPU, 10.0, 100.0), run("b", T4, 5.0, 400.0),
        run("c", XEON, 10.0, 50.0, model=other), run("d", T4, 5.0, 400.0, model=other),
    ]  # fmt: skip
    drawn = devices.speedups(speedups(documents).rows)
    assert drawn is not None
    assert drawn["data"][0]["y"] == [
        "m, fp32 (5c5c5c5c): Tesla T4, 4 cores over AMD EPYC 7R32, 2 cores",
        "m, fp32 (77777777): Tesla T4, 4 cores over Xeon, 2 cores",
    ]
    assert "Speed-up over each reference" in str(drawn["layout"]["title"])


def test_what_keeps_the_bound_not_or_possibly_has_its_place() -> None:
    """400/s are 4 times; in 10.01 of 10 ms possibly, from 0; in 12 ms not."""
    late, never = {**T4, "name": "late"}, {**T4, "name": "never"}
    documents = [run("a", CPU, 10.0, 100.0), run("b", T4, 5.0, 400.0), run("c", late, 10.01, 400.0),
                 run("d", never, 12.0, 400.0)]  # fmt: skip
    drawn = devices.speedups(speedups(documents).rows)
    assert drawn is not None
    (trace,) = drawn["data"]
    assert (trace["x"], trace["text"]) == ([4.0, 0.0, 0.0], ["4x", "possibly", "none"])
    assert trace["error_x"]["array"][1] > 4 and trace["error_x"]["array"][2] == 0


def test_costs_say_of_what_they_are_and_what_nobody_looked_up() -> None:
    """Two loads have two titles; the T4's rates were not looked up."""
    documents = [run("a", T4, 5.0, 400.0), run("b", T4, 5.0, 800.0, users=8)]
    drawn = [devices.costs(offer.rows, offer.words) for offer in offers(documents)]
    titles = {str(chart["layout"]["title"]) for chart in drawn if chart}
    assert len(titles) == 2 and all("m, fp32 (5c5c5c5c)" in title for title in titles)
    assert drawn[0] is not None and all(label.endswith(", unverified") for label in drawn[0]["data"][0]["y"])


def test_bars_of_unlike_requests_have_unlike_names() -> None:
    """One model over HTTP and gRPC: two bars by two names; one name would put both into one place."""
    documents = [run(f"{device['name']}-{protocol}", device, latency, per_s) for protocol in ("http", "grpc")
                 for device, latency, per_s in ((CPU, 10.0, 100.0), (T4, 5.0, 400.0))]  # fmt: skip
    for document in documents[2:]:
        document["load"]["protocol"] = "grpc"
    drawn = devices.speedups(speedups(documents).rows)
    assert drawn is not None
    assert drawn["data"][0]["y"] == ["m, fp32, grpc: Tesla T4, 4 cores", "m, fp32, http: Tesla T4, 4 cores"]


def test_a_bar_of_a_server_that_merges_requests_says_so_where_any_does() -> None:
    """The T4's 900/s are of a merging server, its 400/s of one that does not: twice each, in two instances."""
    merging: Any = {"provenance": {"job": {"serve": {"batching": {"max_batch_size": 16}}}}}
    merged = run("m", T4, 5.0, 900.0, **merging) | {"submission": {"name": "s", "digest": "x"}}
    (offer,) = offers([run("a", T4, 5.0, 400.0), merged])
    drawn = devices.costs(offer.rows, offer.words)
    assert drawn is not None
    assert [", requests merged" in label for label in drawn["data"][0]["y"]] == [True, True, False, False]


def test_what_a_bar_says_stands_behind_its_interval() -> None:
    """4 times, up to 4.756: there; within the bar the interval would strike it through, and no bar has no place."""
    documents = [
        run("a", CPU, 10.0, 100.0),
        run("b", T4, 5.0, 400.0),
        run("c", {**T4, "name": "late"}, 12.0, 400.0),
    ]
    drawn = devices.speedups(speedups(documents).rows)
    assert drawn is not None
    places = [(each["text"], round(each["x"], 3)) for each in drawn["layout"]["annotations"]]
    assert places == [("4x", 4.756), ("none", 0.0)]
    assert drawn["data"][0]["textposition"] == "none"


def test_bars_that_are_left_out_are_counted() -> None:
    """33 GPUs beside the CPU: 32 bars, and the title says of how many."""
    documents = [run("cpu", CPU, 10.0, 100.0)]
    documents += [run(f"g{at}", {**T4, "name": f"T4 {at:02d}"}, 5.0, 400.0) for at in range(33)]
    drawn = devices.speedups(speedups(documents).rows)
    assert drawn is not None and len(drawn["data"][0]["y"]) == 32
    assert "(32 of 33)" in str(drawn["layout"]["title"])


def test_what_was_never_asked_alone_is_not_measured_in_the_picture() -> None:
    """Batches of 64 in 12 of 10 ms say nothing of one sample."""
    documents = [run("a", CPU, 10.0, 100.0), run("b", T4, 5.0, 400.0),
                 run("c", {**T4, "name": "crowd"}, 12.0, 4000.0, batch=64)]  # fmt: skip
    drawn = devices.speedups(speedups(documents).rows)
    assert drawn is not None and drawn["data"][0]["text"] == ["4x", "not measured"]
