"""What a report begins with."""

from __future__ import annotations

import re

from inferbench_tasks.analysis.report.advice import Advice
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.beginning import in_short, picture_of
from inferbench_tasks.analysis.report.compose import html
from inferbench_tasks.analysis.report.objective import objective_word
from inferbench_tasks.analysis.report.provenance import beside
from inferbench_tasks.analysis.report.sections import Section, sections
from tests.report_page import charts_of
from tests.unit.analysis.builders import named, records, view


def test_the_choice_comes_first_and_its_doubt_right_behind() -> None:
    """Whatever led to it follows; nothing is lost, nothing is said twice."""
    best = view(records(5.0))
    sentences = (
        "All answer 800 samples/s.",
        "Use a: 5 ms.",
        "CPU is not compared.",
        "It is close to a bound.",
    )
    first, rest = in_short(Advice(best, sentences, doubts=sentences[3:]))
    assert first == ["Use a: 5 ms.", "It is close to a bound."]
    assert rest == ["All answer 800 samples/s.", "CPU is not compared."]


def test_without_a_choice_the_first_two_stand() -> None:
    """In their own order, whatever they begin with."""
    first, rest = in_short(Advice(None, ("No run keeps it.", "Use nothing.", "One is left out.")))
    assert (first, rest) == (["No run keeps it.", "Use nothing."], ["One is left out."])


def test_undecided_runs_are_counted_at_the_head() -> None:
    """Of four runs one meets its objective, one misses it and two have too few requests: the choice, then how many are
    undecided, as in the table. A run that is disturbed and misses it is undecided as well. Where all meet it, or the
    first sentence tells of these runs, nothing is added; without a choice the first sentence stays.
    """
    few = {"load__batch_size": 8, "load__arrivals": {"kind": "poisson", "rate_rps": 25.0}}
    met, missed = view(records(5.0), "r.0"), view(records(90.0), "r.1", job={"serve__threads": 2})
    two = [
        view(records(5.0, rate_rps=25, seed=n), f"r.{n}", job={**few, "serve__threads": n}) for n in (3, 4)
    ]
    said = "The SLO is undecided, neither met nor missed, in {} runs."
    runs = named(met, missed, *two)
    advice = advise(runs)
    first, rest = in_short(advice)
    assert first[-1] == said.format("2 of 4") and len(first) == 2
    assert sorted([*first[:-1], *rest]) == sorted(dict.fromkeys(advice.sentences))
    assert first[0] in html(runs, {}) and said.format("2 of 4") in html(runs, {})
    disturbed = view(records(90.0), "r.5", "disturbed: others", job={"serve__threads": 3})
    assert in_short(advise(named(met, disturbed)))[0][-1] == said.format("1 of 2")
    (only, *_), _ = in_short(advise(named(*two)))
    assert only.startswith("Whether 2 runs keep the SLO can't be told") and not advise(named(*two)).undecided
    assert not advise(named(met)).undecided and not advise(named(met, missed)).undecided
    assert not advise([]).undecided


def test_undecided_runs_have_one_number_where_a_disturbed_one_is_among_them() -> None:
    """Of a run with too few requests, a disturbed one that missed its objective and one that missed it on a quiet
    machine two are undecided, as in the table of runs, and both are named with the reason. Beside one that keeps it,
    too.
    """
    few = view(records(5.0, rate_rps=25), "few")
    disturbed = view(records(90.0), "hit", "disturbed: others", job={"serve__threads": 3})
    missed = view(records(90.0), "slow", job={"serve__threads": 2})
    runs = [few, disturbed, missed]
    assert [objective_word(run) for run in runs] == ["undecided", "undecided", "missed"]
    advice = advise(runs)
    (told, second), _ = in_short(advice)
    assert told.startswith("Whether 2 runs keep the SLO can't be told: few (it has ")
    assert "; hit (on a disturbed machine p99 is " in told and told.endswith("bound 20 ms).")
    assert second.startswith("With slow, p99 is") and not advice.undecided
    kept = view(records(5.0), "kept", job={"serve__threads": 4})
    advice = advise([*runs, kept])
    first, rest = in_short(advice)
    assert first[-1] == "The SLO is undecided, neither met nor missed, in 2 of 4 runs."
    assert [text[: text.index(" keep")] for text in rest if "can't be told" in text] == ["Whether 2 runs"]


def test_a_choice_its_doubts_and_what_is_undecided_all_stand() -> None:
    """None takes another's place."""
    best = view(records(5.0))
    advice = Advice(
        best, ("All keep it.", "Use a.", "Close.", "Moved."), doubts=("Close.", "Moved."), undecided="Two."
    )
    assert in_short(advice) == (["Use a.", "Close.", "Moved.", "Two."], ["All keep it."])
    assert in_short(Advice(None, ("One.", "Other."), undecided="Two.")) == (["One.", "Two."], ["Other."])


def test_the_picture_shows_all_runs_and_is_drawn_once() -> None:
    """Two runs by their distributions, three by latency against throughput; without either the first chart."""
    runs = [view(records(float(ms)), f"r.{ms}", job={"load__batch_size": ms}) for ms in (5, 9, 12)]
    titles = []
    for count in (2, 3):
        text = html(named(*runs[:count]), {})
        titles.append(charts_of(text)["c0"]["layout"]["title"]["text"])
        assert text.count('data-chart="c0"') == 1
        drawn = [chart["layout"]["title"]["text"] for chart in charts_of(text).values()]
        assert drawn.count(titles[-1]) == 1
        assert len(drawn) == sum(len(section.charts) for section in sections(runs[:count]))
    assert titles[0] == "Latency, cumulative" and titles[1].startswith("Latency against throughput")
    first: dict[str, object] = {"data": []}
    assert picture_of([Section("a", []), Section("b", [first])]) is first
    assert picture_of([]) is None


def test_what_differs_stands_side_by_side() -> None:
    """A row has a cell for each run; what is the same is said once; both are folded in the page."""
    one, two = named(
        view(records(5.0), "r.1", device={"kind": "cpu", "name": "EPYC"}),
        view(records(9.0), "r.2", device={"kind": "cpu", "name": "Xeon"}, job={"load__batch_size": 8}),
    )
    differing, same = beside([one, two])
    rows = {row[0]: row[1:] for row in differing["rows"]}
    assert rows["device.name"] == ["EPYC", "Xeon"] and rows["run"] == ["r.1", "r.2"]
    assert ["device.kind", "cpu"] in same["rows"] and "device.kind" not in rows
    assert len(differing["head"]) == 3
    assert beside([one])[0]["title"] == "The run"
    text = html([one, two], {})
    assert not re.search(r'<details class="section" open', text)
    assert "that differ between the runs" in text
