"""``trace.one_in``: what it can't go with is refused before anything starts, and jobs without it are what they were."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.pipelines.serving_seconds import CLOCKS_S, SERVER_S
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from tests.unit.submission.test_check import spec

REFUSED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"requests": 10}, {}, "trace.requests", "leave trace.requests out"),
    ({"deepest": "layer"}, {}, "trace.deepest", "only model"),
    (
        {},
        {"arrivals": {"kind": "single_stream"}, "engine": "mlperf_loadgen"},
        "load.engine",
        "use inferbench",
    ),
    ({}, {"arrivals": {"kind": "max_rate"}}, "load.arrivals", "give the rate"),
    ({}, {"network": "wifi"}, "load.network", "over lan only; it is wifi"),
]


@pytest.mark.parametrize(("trace", "load", "field", "words"), REFUSED)
def test_what_it_cannot_go_with_is_refused(
    trace: dict[str, Any], load: dict[str, Any], field: str, words: str
) -> None:
    """With the other field and a remedy; without ``one_in`` the same is not refused for it."""
    found = [
        finding
        for finding in INSTALLED.findings(spec(load, trace={"one_in": 20, **trace}))
        if finding.fields[0] == "trace.one_in"
    ]
    assert [(finding.fields[1], words in finding.message) for finding in found] == [(field, True)]
    plain = INSTALLED.findings(spec(load, trace=trace))
    assert all(finding.fields[0] != "trace.one_in" for finding in plain)


def test_processors_go_with_a_trace_on_either_side() -> None:
    """In a server of ours or at the client, one by one or in a load; Triton runs none, so they are the client's."""

    def said(side: str, backend: str, block: dict[str, Any]) -> list[str]:
        processors = {"side": side, "after": [{"kind": "nms"}]}
        job = spec({}, trace=block, processors=processors, serve={"backend": backend})
        return [each.message for each in INSTALLED.findings(job) if each.fields[0] == "trace"]

    blocks: list[dict[str, Any]] = [{}, {"one_in": 20}]
    for block in blocks:
        assert said("server", "onnxruntime", block) == said("client", "onnxruntime", block) == []
    assert said("client", "triton", {}) == []


def test_a_load_is_needed_and_the_line_is_named() -> None:
    """One request in so many of none can't be traced."""
    text = "name: x\nmodel: {kind: zoo, name: digits}\ntrace:\n  one_in: 20\n"
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(text, "x.yaml", INSTALLED)
    (problem,) = caught.value.problems
    assert (problem.field, problem.line) == ("trace.one_in", 4)
    assert "of the requests of a load, and there is none" in problem.message
    with pytest.raises(SubmissionError, match="one_in"):
        read_submission_text(text.replace("20", "0"), "x.yaml", INSTALLED)


def test_it_is_taken_down_to_the_requests_and_changes_what_is_measured() -> None:
    """``deepest: model`` says the same; another share is another job; a trace without one has its digest of before."""
    assert not INSTALLED.findings(spec({}, trace={"one_in": 20, "deepest": "model"}))
    plain, share, other = (spec({}, trace=trace) for trace in ({}, {"one_in": 20}, {"one_in": 21}))
    assert len({job_digest(each) for each in (plain, share, other)}) == 3
    assert job_digest(plain) == job_digest(spec({}, trace={"one_in": None}))


def test_the_load_is_foretold_for_each_round_and_level() -> None:
    """With a server that tells nothing and one that does, each round; of another host its clock is asked for, too."""
    load = {"duration_s": 5, "warmup_s": 1}
    plain, traced = spec(load), spec(load, trace={"one_in": 20, "rounds": 2})
    more_s = SERVING.expected_s(traced) - SERVING.expected_s(plain)
    assert more_s == pytest.approx(2 * 2 * (SERVER_S + 6))
    away = {**load, "from": "other_host"}
    both = spec(away, trace={"one_in": 20, "rounds": 2}), spec(away)
    further_s = SERVING.expected_s(both[0]) - SERVING.expected_s(both[1])
    assert further_s == pytest.approx(2 * 2 * (SERVER_S + 6 + CLOCKS_S))
