"""The paper's sentences beside runs that were made up: what agrees, what differs, what nobody can tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import spearmanr

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.analysis.paper.claims import CLAIMS, Claim, judged
from inferbench_tasks.analysis.paper.evidence import Evidence
from inferbench_tasks.analysis.paper.finding import Finding, Runs, both, shares
from inferbench_tasks.analysis.paper.judges import Case, rank_correlation
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.cli.paper import FOLDER
from inferbench_tasks.dotted import value_at
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import expand
from tests.unit.analysis.builders import named, records, view


def _claim(figure: str, words: str) -> Claim:
    [found] = [claim for claim in CLAIMS if claim.figure == figure and words in claim.paper]
    return found


def _rate(rate_rps: float, latency_ms: float, verdict: str = "valid") -> RunView:
    job = {"load__arrivals": {"kind": "poisson", "rate_rps": rate_rps}}
    table = records(latency_ms, rate_rps=rate_rps, seed=int(rate_rps))
    return view(table, f"inv.{rate_rps:.0f}", verdict, job=job)


def _tail(*runs: RunView) -> Finding:
    return judged(_claim("11(b, c)", "arrival rate"), {"fig11-13-tail-latency": named(*runs)})


def test_a_difference_beyond_noise_agrees_or_differs_with_both_figures() -> None:
    """p99 at 400 requests/s thrice that at 100: agrees; a third of it: differs; both are said, with their runs."""
    agrees = _tail(_rate(100, 5.0), _rate(400, 15.0))
    assert agrees.kind == "agrees"
    assert "100" in agrees.text and "400" in agrees.text and "ms" in agrees.text
    assert _tail(_rate(100, 15.0), _rate(400, 5.0)).kind == "differs"


def test_what_noise_explains_decides_nothing() -> None:
    """The same latency at both rates, other seeds: undecided, though the two percentiles are not equal."""
    found = _tail(_rate(100, 5.0), _rate(400, 5.0))
    assert found.kind == "undecided"
    assert "noise" in found.text


@pytest.mark.parametrize("verdict", ["invalid: late", "disturbed: the hypervisor took 30%", "failed: load"])
def test_a_run_that_does_not_count_decides_nothing(verdict: str) -> None:
    """However large the difference: the sentence is not measured here."""
    assert _tail(_rate(100, 5.0), _rate(400, 50.0, verdict)).kind == "unmeasured"
    assert _tail(_rate(100, 5.0)).kind == "unmeasured"


def test_a_figure_that_is_withheld_says_why() -> None:
    """A valid run whose load was not steady has no p99: not measured, with the run and its certificate's reason."""
    slow = _rate(400, 15.0)
    slow.summary["e2e_latency_ms"] = {"p99": None, "withheld": {"p99": "not steady: it drifts"}}
    found = _tail(_rate(100, 5.0), slow)
    assert found.kind == "unmeasured"
    assert found.text.startswith(f"{slow.label} has no p99 (withheld: not steady: it drifts)")
    slow.summary["e2e_latency_ms"] = {"p99": None}
    assert _tail(_rate(100, 5.0), slow).text.startswith(f"{slow.label} has no p99")


def test_a_submission_that_was_not_run_is_said() -> None:
    """Neither a guess nor a silence."""
    assert judged(_claim("14(b)", "4G"), {}) == Finding("unmeasured", "its submission was not run")
    gpu = judged(_claim("7(c)", "V100"), {})
    assert gpu.kind == "unmeasured" and "GPU" in gpu.text


def test_several_findings_come_to_the_worst() -> None:
    """One that differs is not outvoted; one that is not measured leaves no agreement."""
    a, d, u = Finding("agrees", "a"), Finding("differs", "d"), Finding("undecided", "u")
    assert both(a, a).kind == "agrees"
    assert both(a, u).kind == "undecided"
    assert both(a, u, d) == Finding("differs", "a; u; d")
    assert both(a, Finding("unmeasured", "x")).kind == "unmeasured"


def test_numbers_without_intervals_need_a_fifth() -> None:
    """By hand: 40 to 47 is 15% of the larger: undecided; 40 to 51 is 22%."""
    assert shares(40.0, 47.0, "higher", "{} {}").kind == "undecided"
    assert shares(40.0, 51.0, "higher", "{} {}") == Finding("agrees", "40 51")
    assert shares(51.0, 40.0, "higher", "{} {}").kind == "differs"
    assert shares(None, 40.0, "higher", "{} {}").kind == "unmeasured"


def test_a_page_of_thirty_sentences_is_surer_than_a_ranking() -> None:
    """Two single runs on a quiet machine: t(0.99, 6) x sqrt(2) x 5% = 0.222, so a ratio of 1.2 (ln 0.182) ranks but
    decides no sentence, and one of 1.3 (ln 0.262) does.
    """

    def throughputs(ratio: float) -> Finding:
        runs = [_model("mlp", batch, 5.0) for batch in (1, 32)]
        for one, rate in zip(runs, (100.0, 100.0 * ratio), strict=True):
            one.summary["throughput_samples_per_s"] = rate
        claim = _claim("7(a, b)", "higher throughput")
        return judged(claim, {"fig07-08-batch-size": named(*runs)})

    assert throughputs(1.2).kind == "undecided"
    assert throughputs(1.3).kind == "agrees"


def test_every_place_that_a_sentence_asks_for_is_in_its_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run that a claim looks for is a job of the shipped YAML: no claim is always 'not measured'."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(Runs, "at", lambda self, **place: asked.append(place))
    for claim in CLAIMS:
        if not claim.submissions or claim.judge is None:
            continue
        files = [FOLDER / f"{name}.yaml" for name in claim.submissions]
        jobs = [job for file in files for job in expand(read_submission(file, INSTALLED))]
        specs = [job.spec.model_dump(mode="json") for job in jobs]
        asked.clear()
        claim.judge(Case(Runs([]), Evidence()))
        for place in asked:
            wanted = {path.replace("__", "."): value for path, value in place.items()}
            matching = [spec for spec in specs if all(value_at(spec, p) == v for p, v in wanted.items())]
            assert len(matching) == 1, (claim.figure, claim.paper, wanted, len(matching))


def test_the_part_of_inference_is_of_the_mean_request() -> None:
    """By hand: 2 of 10 ms at batch 1 are 20%, 6 of 12 at 16 are 50%: agrees, with both shares."""
    runs = []
    for batch, inference, whole in ((1, 2.0, 10.0), (16, 6.0, 12.0)):
        one = view(
            records(whole, seconds=8),
            f"inv.{batch}",
            job={"load__network": "wifi", "load__batch_size": batch},
        )
        one.summary["stages_ms"] = {"inference": {"mean": inference}, "e2e": {"mean": whole}}
        runs.append(one)
    found = judged(_claim("14(a)", "larger part"), {"fig14-pipeline": named(*runs)})
    assert found.kind == "agrees"
    assert "20% of a request at batch 1, 50% at 16" in found.text


def _model(family: str, batch: int, inference_ms: float) -> RunView:
    """A run of a model of 1 MFLOP and 1 MB, 0.4 of it weights, at so many samples a request."""
    one = view(
        records(inference_ms, seconds=8),
        f"{family}.{batch}",
        job={"model": {"kind": "canonical", "family": family}, "load__batch_size": batch},
    )
    assert one.result is not None
    model = one.result.model.model_copy(
        update={"flops": 1_000_000, "bytes": 1_000_000, "parameters": 100_000, "precision": "fp32"}
    )
    result = one.result.model_copy(update={"model": model})
    made = replace(one, result=result)
    made.summary["stages_ms"] = {"inference": {"mean": inference_ms}, "batch_samples_mean": float(batch)}
    return made


BATCHES = (1, 2, 4, 8, 16)


def _rising(*families: str) -> list[RunView]:
    return [_model(family, batch, 5.0) for family in families for batch in BATCHES]


def test_operations_rise_with_intensity_within_each_family() -> None:
    """By hand: bytes are 0.6 MB a sample and 0.4 MB of weights once, so that the intensity rises with the batch. Five
    batches of each family in equal time rise in FLOP/s, too: agrees; a CNN's that fall differ, however the families lie
    to each other; four runs of a family, or none, decide nothing.
    """
    falling = [_model("cnn", batch, 5.0 * batch**2) for batch in BATCHES]
    rest = ("rnn", "transformer")
    claim = _claim("10(b)", "Operations per second")
    agrees = judged(claim, {"fig10-roofline": named(*_rising("mlp", "cnn", *rest))})
    assert agrees.kind == "agrees" and "mlp: rank correlation 1.00 over 5 runs (p 0.017)" in agrees.text
    both_ = judged(claim, {"fig10-roofline": named(*_rising("mlp", *rest)), "fig09-cnn": named(*falling)})
    assert both_.kind == "differs" and "cnn: rank correlation -1.00 over 5 runs (p 0.017)" in both_.text
    few = judged(claim, {"fig10-roofline": named(*_rising("cnn", *rest), *_rising("mlp")[:4])})
    assert few.kind == "unmeasured" and "mlp: 4 of 4 runs" in few.text
    none = judged(claim, {"fig10-roofline": named(*_rising("mlp", "cnn", "transformer"))})
    assert none.kind == "unmeasured" and "rnn: not run" in none.text


def test_runs_that_are_alike_show_no_order() -> None:
    """Five runs of one intensity have no rank correlation: undecided, and no nan."""
    same = [_model("mlp", 4, 5.0) for _ in range(5)]
    for at, one in enumerate(same):
        one.run_id = f"mlp.{at}"
    found = judged(
        _claim("10(b)", "Operations per second"),
        {"fig10-roofline": named(*same, *_rising("cnn", "rnn", "transformer"))},
    )
    assert found.kind == "undecided" and "mlp: all 5 runs are alike" in found.text


@pytest.mark.parametrize(
    ("y", "correlation", "p"),
    [
        # Of 120 orders the rising and the falling one are as far from 0.
        ((1.0, 2.0, 3.0, 4.0, 5.0), 1.0, 2 / 120),
        # One neighbouring pair changed: 0.9, which 4 orders reach on each side, and the 2 exact ones.
        ((2.0, 1.0, 3.0, 4.0, 5.0), 0.9, 10 / 120),
    ],
)
def test_the_chance_of_a_few_pairs_order_is_counted(
    y: tuple[float, ...], correlation: float, p: float
) -> None:
    """By hand, of five pairs: 2 and 10 of the 120 orders; Student's t would give 0 and 0.037."""
    assert rank_correlation((1.0, 2.0, 3.0, 4.0, 5.0), y) == pytest.approx((correlation, p))


def test_of_many_pairs_the_usual_test_counts() -> None:
    """Ten pairs: as SciPy's."""
    x, y = range(10), (1, 0, 3, 2, 5, 4, 7, 6, 9, 8)
    assert rank_correlation(x, y) == pytest.approx(tuple(spearmanr(x, y)))


def test_energies_of_two_methods_decide_nothing() -> None:
    """0.2 J a sample at batch 1 by RAPL, 0.002 J at 32 by the estimate of a share: as the paper says, by two
    instruments. By one it agrees.
    """
    for method, kind in (("rapl", "agrees"), ("tdp_estimate", "undecided")):
        runs = []
        for batch, joule, how in ((1, 0.2, "rapl"), (32, 0.002, method)):
            run = view(records(5.0), f"inv.{batch}", job={"load__batch_size": batch})
            run.summary["energy"] = {"joule_per_sample": joule, "method": how}
            runs.append(run)
        found = judged(_claim("8(a)", "Energy"), {"fig07-08-batch-size": named(*runs)})
        assert found.kind == kind
        assert ("energy by rapl and energy by tdp_estimate measure different" in found.text) is (
            kind == "undecided"
        )


def _priced(batch: int, usd: float, instance: str = "g4dn.xlarge", **doubts: bool) -> RunView:
    rate = 100.0 / usd
    one = view(records(batch * 1.0, seconds=8), f"inv.{batch}", job={"load__batch_size": batch})
    row = {"provider": "aws", "instance": instance, "region": "us-east-1", "usd_per_hour": 0.5,
           "date": "2026-01-02", **doubts}  # fmt: skip
    one.summary.update(cost={"instances": [row]}, cost_usd_per_1k_samples=usd, throughput_samples_per_s=rate)
    return one


def test_a_cost_names_its_instance_and_what_its_price_is_worth() -> None:
    """A tenth of the cost at batch 32 on the same instance agrees, with its name and doubts; on another, undecided."""
    claim = _claim("8(b)", "falls with the batch")
    pair = named(_priced(1, 1.0, unverified=True), _priced(32, 0.1, unverified=True))
    found = judged(claim, {"fig07-08-batch-size": pair})
    assert found.kind == "agrees"
    assert found.text.endswith(", on aws g4dn.xlarge (its price of 2026-01-02, unverified)")
    other = named(_priced(1, 1.0), _priced(32, 0.1, "c7i.large"))
    found = judged(claim, {"fig07-08-batch-size": other})
    assert found.kind == "undecided" and "aws g4dn.xlarge" in found.text and "aws c7i.large" in found.text


@pytest.mark.parametrize("figure", ["11(a)", "11(b, c)", "12(a)", "13"])
def test_our_server_is_never_named_tf_serving(figure: str) -> None:
    """Where the paper has TF-Serving and ours ran, the finding says so."""
    claim = next(claim for claim in CLAIMS if claim.figure == figure)
    assert "TF-Serving" in claim.paper and "stands for TF-Serving" in claim.instead
