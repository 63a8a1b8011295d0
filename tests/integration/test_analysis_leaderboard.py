"""Leaderboard and recommender on a real PerfDB, and their commands."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.recommend import scatter as scatter_module
from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.leaderboard import any_streamed, board_of, leaderboard, usual_figure
from inferbench_tasks.analysis.recommend.left_out import left_out_note
from inferbench_tasks.analysis.recommend.recommender import recommend, usual_objective
from inferbench_tasks.analysis.recommend.scatter import scatter
from inferbench_tasks.cli import leaderboard as leaderboard_command
from inferbench_tasks.cli import recommend as recommend_command
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OutputFormat
from inferbench_tasks.perfdb import frames
from inferbench_tasks.perfdb.comparison import compare
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.perfdb.builders import result
from tests.unit.perfdb.test_judged_on import drawn, judged
from tests.unit.perfdb.test_no_model import four

pytestmark = pytest.mark.integration


def add(db: PerfDB, run_id: str, p99: float, ci95: list[float] | None = None, **changes: Any) -> None:
    """A result with that p99; every run is a configuration of its own unless told otherwise."""
    submission = {"name": "x", "digest": changes.pop("digest", run_id)}
    latency = {"p99": p99, "ci95": {"p99": ci95} if ci95 else None}
    energy = changes.pop("energy", {})
    db.save_result(
        result(
            run_id,
            submission=submission,
            summary={
                "e2e_latency_ms": latency,
                "throughput_rps": 1000 / p99,
                "throughput_samples_per_s": 1000 / p99,
                "energy": energy,
            },
            **changes,
        )
    )


def test_only_valid_runs_and_each_task_apart(perfdb: PerfDB) -> None:
    """An invalid run is never on the board, however fast; tasks have boards of their own."""
    add(perfdb, "a", 10.0)
    add(perfdb, "b", 20.0)
    add(perfdb, "fast", 1.0, verdict="invalid: the client stalled")
    add(perfdb, "text", 5.0, model={"name": "m", "task": "text-classification", "dataset": "d"})
    rows = leaderboard(perfdb, "p99_ms")
    assert [(row["task"], row["rank"], row["run"]) for row in rows] == [
        (None, 1, "a"),
        (None, 2, "b"),
        ("text-classification", 1, "text"),
    ]


def test_each_pair_of_hosts_has_its_row(perfdb: PerfDB) -> None:
    """One job from one client to servers on two hosts of one kind: a row each, in a group of its own, whichever ran
    last; results of versions that named the client's host alone have theirs. Of the same hosts the newest stands."""
    networks = {"far": "from c to b", "near": "from c to a", "before": "from c", "near again": "from c to a"}
    for number, (run_id, way) in enumerate(networks.items()):
        load = {"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "network": f"between hosts {way}"}
        at = f"2026-01-{1 + number:02}T00:00:00Z"
        add(perfdb, run_id, 10.0 * (1 + number), digest="d", load=load, created_at=at)
    rows = leaderboard(perfdb, "p99_ms")
    assert {row["run"]: (row["rank"], row["load"].partition("network ")[2]) for row in rows} == {
        "far": (1, "between hosts from c to b"),
        "near again": (1, "between hosts from c to a"),
        "before": (1, "between hosts from c"),
    }
    near = [row["run"] for row in leaderboard(perfdb, "p99_ms", "network='between hosts from c to a'")]
    assert near == ["near again"]


def test_streams_rank_by_their_figures_and_others_show_none(perfdb: PerfDB) -> None:
    """Leaderboard, recommender, comparison and tables; without a run of streams no page offers their figures."""
    add(perfdb, "whole", 10.0)
    assert not any_streamed(perfdb)
    assert "ttft_p99_ms" not in frames.frame(perfdb).columns
    for run_id, ttft, rate in (("slow", 900.0, 40.0), ("fast", 300.0, 30.0)):
        tokens = {
            "ttft_ms": {"p99": ttft, "ci95": {"p99": [ttft - 9, ttft + 9]}},
            "output_tokens_per_s": rate,
        }
        perfdb.save_result(
            result(run_id, submission={"name": "x", "digest": run_id}, summary={"tokens": tokens})
        )
    assert any_streamed(perfdb) and any_streamed(perfdb, "run=slow")
    assert not any_streamed(perfdb, "run=whole")  # whoever looks at these is offered no tokens
    assert usual_figure(perfdb) == "p99_ms"
    assert (
        usual_figure(perfdb, "run=slow") == "output_tokens_per_s"
    )  # without a p99 there is nothing to rank by
    assert usual_figure(perfdb, "run=nobody") == "p99_ms"
    rows = leaderboard(perfdb, "ttft_p99_ms", beside=["output_tokens_per_s", "p99_ms"])
    assert [(row["run"], row["ttft_p99_ms"], row["ci95"], row["output_tokens_per_s"]) for row in rows] == [
        ("fast", 300.0, [291.0, 309.0], 30.0),
        ("slow", 900.0, [891.0, 909.0], 40.0),
    ]
    assert [row["run"] for row in recommend(perfdb, "output_tokens_per_s", []).top] == ["slow", "fast"]
    by_run = {row["run"]: row for row in frames.rows(perfdb)}
    assert "ttft_p99_ms" not in by_run["whole"] and by_run["fast"]["ttft_p99_ms"] == 300.0
    told = frames.frame(perfdb).set_index("run")["output_tokens_per_s"].dropna().to_dict()
    assert told == {"slow": 40.0, "fast": 30.0}
    both = [perfdb.find_results({"run_id": run_id})[0] for run_id in ("slow", "fast")]
    ratios = {row["field"]: row.get("fast ratio") for row in compare(both)}
    assert ratios["ttft_p99_ms"] == pytest.approx(1 / 3) and "p99_ms" not in ratios


DISTURBED = "disturbed: server or sender waited 8.0 ms or more for a core behind other processes"
NOTED = "disturbed: what else happened on the machine was only noted (INFERBENCH_INTERFERENCE=note)"


def test_disturbed_and_noted_runs_never_rank_and_it_is_said(
    perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither on the leaderboard nor in a recommendation, however fast; both say how many were left out."""
    add(perfdb, "a", 10.0)
    add(perfdb, "fast", 1.0, verdict=DISTURBED)
    add(perfdb, "noted", 2.0, verdict=NOTED)
    assert [row["run"] for row in leaderboard(perfdb, "p99_ms")] == ["a"]
    recommendation = recommend(perfdb, "p99_ms", [])
    assert [row["run"] for row in recommendation.top] == ["a"] and recommendation.candidates == 1
    said = "2 disturbed result(s) are left out: their figures are bounds (`verdict=disturbed` lists them)."
    assert said in recommendation.notes
    assert left_out_note(perfdb, "verdict=valid") is None
    assert {r.run_id for r in perfdb.find_results(parse("verdict=disturbed").filter)} == {"fast", "noted"}
    monkeypatch.setattr(settings, "perfdb_uri", lambda: perfdb.uri)
    leaderboard_command.leaderboard([], "p99_ms", 20, OutputFormat.json)
    printed = capsys.readouterr()
    assert said in printed.err and [row["run"] for row in json.loads(printed.out)] == ["a"]


def test_differences_within_noise_share_a_rank(perfdb: PerfDB) -> None:
    """Overlapping intervals and small differences are ties; the next one's rank counts those before it."""
    add(perfdb, "a", 10.0, [9.0, 12.0])
    add(perfdb, "b", 11.0, [10.5, 12.0])
    add(perfdb, "c", 20.0, [19.0, 21.0])
    assert [(r["rank"], r["run"]) for r in leaderboard(perfdb, "p99_ms")] == [(1, "a"), (1, "b"), (3, "c")]


def test_energies_say_their_method_and_tie_within_its_uncertainty(perfdb: PerfDB) -> None:
    """An estimate is never ranked beside a counter, which measures another thing; two estimates of two machines tie
    within what they may be wrong by, and each row says which method it is of.
    """
    for name, joule, method, uncertainty in (
        ("guess", 1.0, "codecarbon_estimate", 1.0),
        ("another", 1.5, "codecarbon_estimate", 1.0),
        ("counter", 1.2, "nvml_counter", 0.05),
    ):
        energy = {"joule_per_request": joule, "method": method, "uncertainty_ratio": uncertainty}
        add(perfdb, name, 10.0, energy=energy)
    rows = leaderboard(perfdb, "energy_j")
    assert [(r["rank"], r["run"], r["energy_method"]) for r in rows] == [
        (1, "guess", "codecarbon_estimate"),
        (1, "another", "codecarbon_estimate"),
        (1, "counter", "nvml_counter"),
    ]
    assert [r["tie"] is not None for r in rows] == [False, True, False]
    assert rows[2]["load"].endswith(", energy by nvml_counter")
    assert [r["run"] for r in leaderboard(perfdb, "energy_j", limit=1)] == ["guess", "counter"]
    assert "energy_method" not in leaderboard(perfdb, "p99_ms")[0]


def test_many_energies_by_one_method_hide_none_by_another(
    perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve estimates of one kind of device below the only counter: the best of each method stands, and each method
    has a front of its own, also where there are too many points for their documents to be read."""
    for number in range(12):
        energy = {"joule_per_request": 1 + number / 10, "method": "tdp_estimate", "uncertainty_ratio": 0.6}
        add(perfdb, f"guess-{number}", 10.0 + number, energy=energy)
    energy = {"joule_per_request": 9.0, "method": "rapl", "uncertainty_ratio": 0.05}
    add(perfdb, "counter", 40.0, energy=energy)
    rows = leaderboard(perfdb, "energy_j", limit=1)
    assert [(row["run"], row["rank"], row["energy_method"]) for row in rows] == [
        ("counter", 1, "rapl"), ("guess-0", 1, "tdp_estimate"),
    ]  # fmt: skip
    for most in (500, 0):
        monkeypatch.setattr(scatter_module, "MOST_INTERVALS", most)
        points = scatter(perfdb, "p99_ms", "energy_j", "model").points
        assert {point.run for point in points if point.front} == {"guess-0", "counter"}, most
        assert {point.group.partition(", ")[2] for point in points} == {
            "energy by rapl", "energy by tdp_estimate",
        }  # fmt: skip


def test_of_many_groups_fewer_rows_each_are_shown_the_best_first(perfdb: PerfDB) -> None:
    """Three tasks of eight, room for eighteen rows: the best six of each; never fewer than five, nor than are asked."""
    for task in ("audio", "text", "vision"):
        for number in range(8):
            model = {"name": "m", "task": task, "dataset": "d"}
            add(perfdb, f"{task}-{number}", 10.0 * 2**number, model=model)

    def shown(limit: int, in_all: int | None) -> list[str]:
        board = board_of(perfdb, "p99_ms", limit=limit, in_all=in_all)
        assert board.configurations == 24
        assert len(board.rows) == 3 * board.of_each
        return [str(row["run"]) for row in board.rows if row["task"] == "text"]

    assert shown(8, 18) == [f"text-{number}" for number in range(6)]
    assert shown(8, 3) == [f"text-{number}" for number in range(5)]
    assert shown(2, 18) == ["text-0", "text-1"]
    assert len(shown(8, None)) == 8


def test_a_configuration_stands_there_once_with_its_newest_run(perfdb: PerfDB) -> None:
    """The lucky old run of a configuration does not hide how it does today."""
    add(perfdb, "lucky", 5.0, digest="same", created_at="2026-01-01T00:00:00Z")
    add(perfdb, "today", 15.0, digest="same", created_at="2026-02-01T00:00:00Z")
    assert [row["run"] for row in leaderboard(perfdb, "p99_ms")] == ["today"]


def test_throughput_counts_the_other_way(perfdb: PerfDB) -> None:
    """More is better there."""
    add(perfdb, "slow", 20.0)
    add(perfdb, "fast", 10.0)
    assert [row["run"] for row in leaderboard(perfdb, "throughput_rps")] == ["fast", "slow"]


def loaded(rate_rps: float, size: int = 1) -> dict[str, Any]:
    """An open loop's load."""
    return {"arrivals": {"kind": "poisson", "rate_rps": rate_rps}, "batch_size": size}


@pytest.mark.parametrize("figure", ["p99_ms", "throughput_samples_per_s", "cost_usd_per_1k_samples"])
def test_item_20_a_board_ranks_within_a_load(perfdb: PerfDB, figure: str) -> None:
    """15.20: a rate that was offered is no rank, nor is a p99 at 1/s before one at 100/s: each load has its own."""
    for rate, p99 in ((1.0, 1.0), (100.0, 5.0), (100.0, 9.0)):
        summary = {
            "e2e_latency_ms": {"p99": p99}, "throughput_samples_per_s": rate + p99 / 2,
            "cost_usd_per_1k_samples": p99 / rate,
        }  # fmt: skip
        name = f"at-{rate:g}-{p99:g}"
        perfdb.save_result(
            result(name, submission={"name": "x", "digest": name}, load=loaded(rate), summary=summary)
        )
    rows = leaderboard(perfdb, figure)
    best, other = ("9", "5") if figure.startswith("throughput") else ("5", "9")
    assert [(row["load"], row["run"]) for row in rows] == [
        ("poisson, 1 samples/s", "at-1-1"),
        ("poisson, 100 samples/s", f"at-100-{best}"),
        ("poisson, 100 samples/s", f"at-100-{other}"),
    ]
    assert [row["rank"] for row in rows][:2] == [1, 1]


def test_item_20_requests_per_second_are_ranked_within_their_size(perfdb: PerfDB) -> None:
    """15.20: 80 requests of one sample are no more than 10 of eight; by samples both are one board."""
    for size in (1, 8):
        add(perfdb, f"of-{size}", 10.0, load=loaded(80 / size, size))
    assert len({row["load"] for row in leaderboard(perfdb, "throughput_rps")}) == 2
    assert len({row["load"] for row in leaderboard(perfdb, "throughput_samples_per_s")}) == 1


def test_item_19_what_can_not_be_compared_is_asked_for(perfdb: PerfDB) -> None:
    """15.19: digits at 1000/s does not beat ResNet-50 at 20/s; the message names the groups, and each one works."""
    for name, rate, dataset in (("digits", 1000.0, "digits"), ("resnet50", 20.0, "imagenet")):
        model = {"name": name, "task": "image-classification", "dataset": dataset}
        add(perfdb, name, 1000 / rate, model=model, load=loaded(rate))
    with pytest.raises(InputError, match="2 tasks, data sets, models or loads") as error:
        recommend(perfdb, "throughput_samples_per_s", [])
    choice = "task=image-classification dataset=imagenet model=resnet50 --load 'poisson, 20 samples/s'"
    assert choice in str(error.value)
    query, _, load = choice.partition(" --load ")
    answer = recommend(perfdb, "throughput_samples_per_s", [], query, load.strip("'"))
    assert [row["run"] for row in answer.top] == ["resnet50"]
    assert recommend(perfdb, "p99_ms", [], "dataset=digits").top[0]["run"] == "digits"


def test_item_19_one_model_under_two_loads_is_asked_for_and_a_wrong_load_lists_those_there_are(
    perfdb: PerfDB,
) -> None:
    """15.19: the same server at 1/s and at 100/s is no choice between two configurations."""
    for rate in (1.0, 100.0):
        add(perfdb, f"at-{rate:g}", 10.0, load=loaded(rate))
    with pytest.raises(InputError, match="--load 'poisson, 1 samples/s'"):
        recommend(perfdb, "p99_ms", [])
    assert [row["run"] for row in recommend(perfdb, "p99_ms", [], "", "poisson, 1 samples/s").top] == ["at-1"]
    with pytest.raises(InputError, match="there is poisson, 1 samples/s; poisson, 100 samples/s"):
        recommend(perfdb, "p99_ms", [], "", "poisson, 2 samples/s")


def test_item_19_models_whose_accuracy_nobody_measured_are_not_compared(perfdb: PerfDB) -> None:
    """15.19: of one task and data set under one load, but nobody knows whether they are equally right."""
    for name in ("a", "b"):
        add(perfdb, name, 10.0, model={"name": name, "task": "t", "dataset": "d"})
    with pytest.raises(InputError, match="model=a"):
        recommend(perfdb, "p99_ms", [])


def test_a_setting_is_no_figure(perfdb: PerfDB) -> None:
    """A field that is not a figure of a run is refused with those that are."""
    with pytest.raises(InputError, match="not a figure of a run; allowed: mean_ms"):
        leaderboard(perfdb, "model")


def call(module: Any, *arguments: str) -> Any:
    return typer.main.get_command(module.app)(args=list(arguments), standalone_mode=False)


def test_the_commands(
    perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both print JSON; recommend ends with 1 if nothing keeps the SLO, and refuses a bound it can't read."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    add(perfdb, "a", 10.0)
    add(perfdb, "b", 20.0)
    call(leaderboard_command, "--by", "p99_ms", "-o", "json")
    assert [row["run"] for row in json.loads(capsys.readouterr().out)] == ["a", "b"]
    call(recommend_command, "--slo", "p99_ms<=15", "-o", "json")
    found = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in found["top"]] == ["a"] and found["candidates"] == 2
    assert call(recommend_command, "--slo", "p99_ms<=1", "-o", "json") == 1
    with pytest.raises(InputError, match="must be FIGURE<=NUMBER"):
        call(recommend_command, "--slo", "fast please")


def found(
    db: PerfDB,
    run_id: str,
    rate_rps: float,
    p99: float,
    objective: str = "p99_ms <= 20",
    *,
    bracketed: bool = True,
) -> None:
    """A result of a search that found that rate; its p99 is that at this rate."""
    summary = {
        "e2e_latency_ms": {"p99": p99},
        "throughput_samples_per_s": rate_rps,
        "max_rate": {
            "rps": rate_rps,
            "samples_per_s": rate_rps,
            "interval": {"samples_per_s": [rate_rps, rate_rps * 1.03] if bracketed else None},
        },
    }
    load = {"arrivals": {"kind": "max_rate", "start_rate_rps": rate_rps, "objective": objective}}
    db.save_result(result(run_id, submission={"name": "x", "digest": run_id}, load=load, summary=summary))


def test_servers_are_ranked_by_the_highest_rate_within_one_objective(perfdb: PerfDB) -> None:
    """By default where runs searched for it, wherever their searches began; another objective is another group."""
    add(perfdb, "offered", 5.0)
    assert usual_figure(perfdb) == "p99_ms"
    found(perfdb, "small", 400.0, 3.0)
    found(perfdb, "large", 900.0, 19.0)
    found(perfdb, "near", 905.0, 18.0)
    found(perfdb, "lax", 2000.0, 90.0, "p99_ms <= 100")
    assert usual_figure(perfdb) == "max_rate_samples_per_s"
    rows = leaderboard(perfdb, usual_figure(perfdb))
    assert [(row["load"], row["rank"], row["run"]) for row in rows] == [
        ("max_rate, p99_ms <= 100", 1, "lax"),
        ("max_rate, p99_ms <= 20", 1, "near"),
        ("max_rate, p99_ms <= 20", 1, "large"),
        ("max_rate, p99_ms <= 20", 3, "small"),
    ]


def test_a_search_that_met_no_rate_that_breaks_ranks_behind_nobody(perfdb: PerfDB) -> None:
    """15.20: its 300 samples/s are a lower bound, since its client could send no more: it may be better than 900."""
    found(perfdb, "large", 900.0, 19.0)
    found(perfdb, "open", 300.0, 3.0, bracketed=False)
    found(perfdb, "small", 100.0, 3.0)
    rows = leaderboard(perfdb, "max_rate_samples_per_s")
    assert [(row["rank"], row["run"]) for row in rows] == [(1, "large"), (1, "open"), (3, "small")]
    notes = recommend(perfdb, "max_rate_samples_per_s", []).notes
    assert [note for note in notes if "is a lower bound" in note]


def test_a_latency_at_a_rate_of_its_own_ranks_nobody(perfdb: PerfDB) -> None:
    """The p99 of a search's run is that at the rate that it found: lower at a lower rate, for nothing."""
    add(perfdb, "offered", 5.0)
    found(perfdb, "slow", 10.0, 1.0)
    found(perfdb, "fast", 900.0, 19.0)
    assert [row["run"] for row in leaderboard(perfdb, "p99_ms")] == ["offered"]
    advice = recommend(perfdb, "p99_ms", [], "arrivals=max_rate")
    assert not advice.top and any("at a rate of its own" in note for note in advice.notes)


def test_the_recommender_optimises_the_highest_rate_where_all_searched_for_it(perfdb: PerfDB) -> None:
    """And its usual throughput where they did not."""
    found(perfdb, "slow", 10.0, 1.0)
    found(perfdb, "fast", 900.0, 19.0)
    assert usual_objective(perfdb) == "max_rate_samples_per_s"
    assert recommend(perfdb, usual_objective(perfdb), []).top[0]["run"] == "fast"
    add(perfdb, "offered", 5.0)
    assert usual_objective(perfdb) == "throughput_samples_per_s"
    assert usual_objective(perfdb, "arrivals=max_rate") == "max_rate_samples_per_s"


def test_shorter_prompts_are_not_on_the_front_of_longer_ones(perfdb: PerfDB) -> None:
    """Three runs of a language model: that with short prompts is faster than both others, and beats neither."""
    for run_id, p99, words in (("short", 5, "input_tokens 16"), ("long", 90, "input_tokens 4000"),
                               ("slow", 95, "input_tokens 4000")):  # fmt: skip
        arrivals = {"kind": "closed_loop", "concurrency": 1, "prompts": words}
        add(perfdb, run_id, p99, load={"arrivals": arrivals, "batch_size": 1})
    drawn = scatter(perfdb, "p99_ms", "throughput_rps", "model")
    assert {point.run for point in drawn.points if point.front} == {"short", "long"}
    assert {point.run for point in drawn.points if point.group.endswith("input_tokens 4000")} == {
        "long",
        "slow",
    }
    assert {row["run"]: row["rank"] for row in leaderboard(perfdb, "p99_ms")} == {
        "short": 1,
        "long": 1,
        "slow": 1,
    }


def test_measures_of_answers_choose_only_over_the_same_samples(perfdb: PerfDB) -> None:
    """Ten lucky samples beat nobody: own ranks, an own front, and the recommender asks which samples are meant."""
    for run in (judged("few", 0.99, 0.2, 10), judged("good", 0.95, 0.01), judged("bad", 0.7, 0.01)):
        latency = {"p50": 5.0, "p99": 20.0}
        summary = run.summary.model_dump() | {
            "e2e_latency_ms": latency,
            "throughput_rps": 10.0,
            "accuracy_ratio": 0.9,
        }
        perfdb.save_result(ResultDocument.model_validate({**run.model_dump(), "summary": summary}))
    perfdb.save_result(result("not-evaluated"))
    rows = leaderboard(perfdb, "top1_ratio", limit=1)
    assert [(row["run"], row["rank"], row["dataset"]) for row in rows] == [
        ("few", 1, "10 samples of digits"),
        ("good", 1, "450 samples of digits"),
    ]
    points = {point.run: point for point in scatter(perfdb, "p99_ms", "top1_ratio", "model").points}
    assert {run: point.front for run, point in points.items()} == {"few": True, "good": True, "bad": False}
    assert points["good"].y_interval == (0.94, 0.96)
    bounds = [Bound.parse("top1_ratio>=0.6")]
    with pytest.raises(InputError, match="judged on 2 sets of samples") as refused:
        recommend(perfdb, "throughput_rps", bounds, "task=image-classification model=good,few")
    choice = refused.value.message.splitlines()[-1].strip()
    assert choice == (
        "extensions.evaluation.dataset=digits extensions.evaluation.samples=450 "
        "extensions.evaluation.samples_digest=none"
    )
    chosen = recommend(perfdb, "throughput_rps", bounds, f"model=good,few {choice}")
    assert [row["run"] for row in chosen.top] == ["good"]


def test_what_is_no_model_has_ranks_fronts_and_recommendations_of_its_own(perfdb: PerfDB) -> None:
    """One best of each, though the stand-ins are 30 times as fast; the recommender lists them, with what they are."""
    for run in four():
        perfdb.save_result(run)
    rows = leaderboard(perfdb, "p50_ms", limit=1)
    assert {row["run"]: row["rank"] for row in rows} == {"faulty": 1, "paced": 1, "dummy": 1, "real": 1}
    assert [row["run"] for row in rows if row["task"] == "text-generation"] == ["real"]
    points = scatter(perfdb, "p50_ms", "throughput_rps", "model").points
    assert all(point.front for point in points) and len({point.group for point in points}) == 4
    with pytest.raises(InputError) as refused:
        recommend(perfdb, "throughput_rps", [], "")
    assert "model=llm-stand-in --load" in refused.value.message
    assert "(1 configuration(s), no model: a stand-in)" in refused.value.message
    assert [row["run"] for row in recommend(perfdb, "throughput_rps", [], "model=qwen").top] == ["real"]


def test_samples_by_other_seeds_have_ranks_fronts_and_recommendations_of_their_own(perfdb: PerfDB) -> None:
    """As many of the same data are not the same ones; each line of the refusal picks one set, old or new."""
    runs = (
        drawn("a", 1, "dd" * 32, 0.9),
        drawn("b", 2, "ee" * 32, 0.5),
        drawn("c", 1, None, 0.8),
        drawn("d", 2),
    )
    for run in runs:
        latency = {"e2e_latency_ms": {"p50": 5.0, "p99": 20.0}, "throughput_rps": 10.0, "accuracy_ratio": 0.9}
        summary = run.summary.model_dump() | latency
        perfdb.save_result(ResultDocument.model_validate({**run.model_dump(), "summary": summary}))
    assert [row["rank"] for row in leaderboard(perfdb, "top1_ratio")] == [1, 1, 1, 1]
    assert all(point.front for point in scatter(perfdb, "p99_ms", "top1_ratio", "model").points)
    bounds = [Bound.parse("top1_ratio>=0.1")]
    with pytest.raises(InputError, match="judged on 4 sets of samples") as refused:
        recommend(perfdb, "throughput_rps", bounds)
    chosen = [recommend(perfdb, "throughput_rps", bounds, line.strip()).top
              for line in refused.value.message.splitlines()[1:]]  # fmt: skip
    assert sorted(row["run"] for top in chosen for row in top) == ["a", "b", "c", "d"]
