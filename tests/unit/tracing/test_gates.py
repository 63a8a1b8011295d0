"""How the benchmarks of tracing judge, on made-up spans and rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd
import pytest

from benchmarks.mlmodelscope import fifteen, layers, one_in, one_request
from inferbench_tasks.tracing.spans import Level, Span

TRACE, US = "a" * 32, 1_000
USED = dict.fromkeys(one_request.FIGURES, 1)
PROCESS = {f"process_{name}": value for name, value in USED.items()}


def request(count: int = 60) -> list[Span]:
    """A request as it has to be: within it the server, the run, and so many layers with a primitive in the first."""

    def span(number: int, level: Level, name: str, start_us: int, length_us: int) -> Span:
        return Span(TRACE, number, number - 1, level, name, start_us * US, length_us * US)

    spans = [
        span(0, "application", "request", 0, 1000),
        replace(span(1, "model", "server", 100, 800), attributes=PROCESS),
        replace(span(2, "framework", "session.run", 200, 600), attributes=USED | PROCESS),
        *(replace(span(3 + at, "layer", f"l{at}", 200 + 10 * at, 10), parent=2) for at in range(count)),
    ]
    return [*spans, replace(span(3 + count, "library", "kernel", 202, 5), parent=3)]


def test_a_whole_request_passes() -> None:
    """64 spans over six levels."""
    found = one_request.judged("x", request(), {})
    assert (found.spans, tuple(found.levels), found.wrong) == (64, one_request.SIX, [])
    assert found.words().endswith("passed")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda spans: spans[:50] + spans[-1:], "fewer than 60"),
        (lambda spans: spans[:-1], "no level library (nobody tells it)"),
        (lambda spans: [replace(s, attributes={}) for s in spans], "no level hardware"),
        (lambda spans: [*spans[:-1], replace(spans[-1], parent=99)], "kernel has no parent"),
        (lambda spans: [*spans[:-1], replace(spans[-1], duration_ns=58 * US)], ""),
        (lambda spans: [*spans[:-1], replace(spans[-1], duration_ns=59 * US)], "more than 50 us beyond"),
        (lambda spans: [*spans[:-1], replace(spans[-1], start_ns=149 * US)], "more than 50 us beyond"),
        (lambda spans: [*spans[:-1], replace(spans[-1], trace_id="b" * 32)], "several traces"),
        (lambda spans: [*spans[:-1], replace(spans[-1], parent=-1)], "not one beginning"),
    ],
)
def test_what_is_missing_or_wrong_fails(change: Callable[[list[Span]], list[Span]], words: str) -> None:
    """Each is named; what reaches 51 us beyond its layer is told from what reaches 50."""
    found = one_request.judged("x", change(request()), {"library": "nobody tells it"})
    assert (words in "; ".join(found.wrong)) if words else not found.wrong, found.wrong


def test_triton_s_spans_are_ours_down_to_its_compute() -> None:
    """Of two levels and few spans; without its compute, or beyond the request, it has failed."""
    spans = [
        Span(TRACE, 0, -1, "application", "request", 0, 1000 * US),
        Span(TRACE, 1, 0, "model", "InferRequest", 100 * US, 800 * US),
        Span(TRACE, 2, 1, "model", "compute", 200 * US, 600 * US),
    ]
    wanted = one_request.WANTED["Triton"]
    assert one_request.judged("Triton", spans, {}, wanted).wrong == []
    found = one_request.judged("Triton", [*spans[:2], replace(spans[2], name="other")], {}, wanted)
    assert found.wrong == ["no span compute"]
    late = [spans[0], replace(spans[1], duration_ns=960 * US), spans[2]]
    assert one_request.judged("Triton", late, {}, wanted).wrong == ["more than 50 us beyond a parent"]


def starts(off: float, ones: float, spread: float = 0.001) -> list[dict[str, float]]:
    """Ten of them, whose ratios are these, give or take the spread."""
    return [
        {"none": 1.0, "off": off + (at % 2 or -1) * spread, "one_in": ones + (at % 2 or -1) * spread}
        for at in range(10)
    ]


def test_what_tracing_costs_is_judged_by_its_interval() -> None:
    """Within its limit it has passed, beyond it failed; where the interval holds the limit nobody knows."""

    def decided(given: list[dict[str, float]]) -> dict[str, str]:
        return {name: words for name, _, _, words in one_in.judged(given)}

    assert decided(starts(1.0, 1.0)) == {"off": "passed", "one_in": "passed"}
    assert decided(starts(1.015, 1.015)) == {"off": "FAILED", "one_in": "passed"}
    assert decided(starts(1.0, 1.0, 0.2)) == {"off": "undecided", "one_in": "undecided"}
    assert decided(starts(1.0, 1.0)[:2]) == {}


def sent(dearer: dict[str, float], count: int = 4) -> pd.DataFrame:
    """Rows of so many starts of two turns, no two alike; with a recorder these columns are so many times as large."""
    rows = []
    for start, turn, (load, variants) in product(range(count), range(2), one_in.LOADS.items()):
        for variant in variants:
            about: dict[str, Any] = {"requests": 2000, "traced": 100 * (variant == "one_in"), "doubts": ""}
            figures = {
                figure.column: (1 + 0.3 * start + 0.1 * turn)
                * (1.0 if variant == "none" else dearer.get(figure.column, 1.0))
                for figure in one_in.FIGURES
            }
            rows.append({"start": start, "turn": turn, "load": load, "variant": variant, **about, **figures})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("dearer", "code", "words"),
    [
        ({}, 0, {"passed": 7}),
        ({"median_ms": 1.015}, 1, {"passed": 6, "FAILED": 1}),
        ({"server_cpu_us": 1.03}, 1, {"passed": 5, "FAILED": 2}),
        ({"sender_cpu_us": 0.9}, 0, {"passed": 7}),
        ({"rate_rps": 0.98}, 1, {"passed": 6, "FAILED": 1}),
        ({"rate_rps": 1.03}, 0, {"passed": 7}),
    ],
)
def test_each_figure_is_judged_by_its_pairs(
    dearer: dict[str, float], code: int, words: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """That starts and turns differ by half does not count; one figure that is dearer fails alone, a throughput where
    it is less.
    """
    assert one_in.report(sent(dearer)) == code
    lines = capsys.readouterr().out.splitlines()
    decided = [line.rpartition(": ")[2] for line in lines if "limit" in line]
    assert {word: decided.count(word) for word in set(decided)} == words


def test_a_turn_with_a_doubt_is_left_out_of_its_kind_of_load(capsys: pytest.CaptureFixture[str]) -> None:
    """All its loads, whatever they came to, with the reason; fewer than three starts are not judged."""
    table = sent({})
    doubtful = (table["start"] == 1) & (table["turn"] == 0) & (table["load"] == one_in.OPEN)
    table.loc[doubtful, "median_ms"] = [1.0, 5.0, 9.0]
    table.loc[doubtful & (table["variant"] == "off"), "doubts"] = "it left late"
    assert one_in.report(table) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "left out: start 2, turn 1, open load, off: it left late"
    assert second == "4 starts, 37 loads; of 14,000 requests 700 were traced"
    assert one_in.report(sent({}, count=2)) == 2
    assert "not judged: 2 starts count, 3 are needed" in capsys.readouterr().out


def models(shares: Sequence[float | None], cost: float = 1.05, apart: int = 0) -> pd.DataFrame:
    """A row for each model's layer level and model level (so many of these 4% off), and one of a level that is not
    judged."""
    rows = [
        {"model": f"m{at}", "names": 1, "level": level, "ratio": ratio, "explained_ratio": share}
        for at, share in enumerate(shares)
        for level, ratio in (("model", 0.96 if at < apart else 1.03), ("framework", 9.0), ("layer", cost))
    ]
    return pd.DataFrame(rows)


def test_layers_of_34_of_37_models_have_to_add_up() -> None:
    """The median cost and the number that adds up; a model counts as often as it stands for one; not before all 37. One
    of whose layers nothing is told does not add up, and is no end of the judgement."""
    assert layers.judged(models([1.0] * 34 + [0.9] * 3))[0] == 0
    assert layers.judged(models([1.0] * 33 + [0.9] * 4))[0] == 1
    assert layers.judged(models([1.0] * 37, cost=1.11))[0] == 1
    assert [layers.judged(models([1.0] * 37, apart=apart))[0] for apart in (3, 4)] == [0, 1]
    code, words = layers.judged(models([1.0] * 36))
    assert code == 2 and all(line.endswith("not judged") for line in words)
    for untold in ([None] * 37, [None] + [1.0] * 36, [None] * 4 + [1.0] * 33):
        code, words = layers.judged(models(untold))
        told = 37 - untold.count(None)
        assert f"{told} of 37 (" in words[1] and (code == 0) == (told >= 34)
    several = models([1.0] * 33 + [0.96])
    several.loc[several["model"] == "m0", "names"] = 4
    code, words = layers.judged(several)
    assert code == 0 and "37 of 37 (at least 34 of 37; within 3%: 36)" in words[1]
    assert words[2].endswith("within 3%: 37 of 37 (at least 34 of 37): passed")


def analysed(missing: dict[int, str], count: int = 15) -> dict[str, Any]:
    """So many analyses, some of which miss something, and one of a package beside them."""
    made = [
        {
            "number": at,
            "name": f"a{at}",
            "missing": missing.get(at),
            "rows": [] if at in missing else [{}],
            "figure": None if at in missing else {"data": [{}]},
            "sentence": "It is so.",
        }
        for at in (*range(1, count + 1), 99)
    ]
    return {"analyses": made}


def test_all_fifteen_analyses_have_to_be_there() -> None:
    """Each that is not is named with what it misses; of a run that does not count nobody can say."""
    assert fifteen.judged(analysed({}), ["valid"]) == (0, ["15 of 15 analyses: passed"])
    code, words = fifteen.judged(analysed({4: "bytes of outputs"}), ["valid", "valid"])
    assert (code, words) == (1, ["4 a4: bytes of outputs", "14 of 15 analyses: FAILED"])
    code, words = fifteen.judged(analysed({1: "valid runs"}), ["valid", "disturbed: others"])
    assert (code, words[-1]) == (2, "14 of 15 analyses: not judged, a run is disturbed: others")
    assert fifteen.judged(analysed({}, 14), ["valid"])[0] == 1
    for part, empty, lacking in (
        ("rows", [], "an empty table"), ("figure", None, "no figure"), ("figure", {"data": []}, "no figure"),
        ("sentence", "", "no sentence"),
    ):  # fmt: skip
        without = analysed({})
        without["analyses"][2][part] = empty
        assert fifteen.judged(without, ["valid"]) == (1, [f"3 a3: {lacking}", "14 of 15 analyses: FAILED"])
    assert fifteen.judged(analysed({99: "a package"}), ["valid"])[0] == 0
