"""Are percentiles of the quiet windows those of the undisturbed machine?

    python -m benchmarks.noise [--quick] [--only simulated|live] [--seconds S] [--runs N] [--anyway]

Simulated: made-up timelines with pauses of 5 to 500 ms that take 10, 20 and 40%, where the truth is known exactly.
Live: a working server under load while a second process group takes the CPU, the memory's bandwidth, caches or the
disk in bursts, in turns with the undisturbed machine; only on a machine that is quiet by itself (it is looked at first,
and nothing is said where it is not; ``--anyway`` measures all the same, without a promise).
``--quick``: a few loads and disturbances, some minutes; in full it takes hours.

A line per promise: p50, p95 and p99 within 5, 10 and 15% in 9 of 10; intervals that hold 90 to 98%; no bias where
nothing disturbs. Percentiles that are null are counted, and are no failure: that is saying that it can't be said.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.noise import live, simulated
from benchmarks.noise.live import Injection
from benchmarks.noise.simulated import ALLOWED, Outcome
from benchmarks.noise.timelines import LOADS
from inferbench_tasks.monitors.quiet import look

_PAUSES = [(0.1, 0.005), (0.1, 0.05), (0.1, 0.5), (0.2, 0.02), (0.2, 0.2), (0.4, 0.05), (0.4, 0.5)]
_QUICK_PAUSES = [(0.1, 0.05), (0.2, 0.2), (0.4, 0.5)]
_INJECTIONS = [
    *(Injection("cpu", ratio, burst_s) for ratio in (0.1, 0.2, 0.4) for burst_s in (0.005, 0.05, 0.5)),
    *(Injection(kind, 0.2, 0.2) for kind in ("memory", "cache", "disk")),
]
_QUICK_INJECTIONS = [Injection("cpu", 0.2, 0.2), Injection("memory", 0.2, 0.2), Injection("disk", 0.2, 0.2)]


def simulate(quick: bool, runs: int, seconds: float) -> tuple[Outcome, Outcome]:
    """Print a row for each load and kind of pause; all disturbed ones together, and all undisturbed ones."""
    disturbed, undisturbed = Outcome(), Outcome()
    print(f"{'simulated':14}{'taken':>6}{'pieces':>9}{'null':>6}{'kept':>6}  " + _heads())
    for load in LOADS[:10:3] if quick else LOADS:
        truth = simulated.truth_of(load)
        for cell, (taken, length_s) in enumerate([(0.0, 0.1), *(_QUICK_PAUSES if quick else _PAUSES)]):
            outcome = Outcome()
            for seed in range(1000 * cell, 1000 * cell + runs):
                simulated.add_run(
                    outcome, load, truth, taken=taken, length_s=length_s, seconds=seconds, seed=seed
                )
            (disturbed if taken else undisturbed).add(outcome)
            kept = float(np.mean(outcome.time_ratios))
            head = f"{load.name:14}{taken:6.0%}{length_s * 1e3:6g} ms{outcome.nulls:6}{kept:6.0%}  "
            print(head + _cells(outcome), flush=True)
    return disturbed, undisturbed


def measure(quick: bool, rounds: int, seconds: float, anyway: bool) -> Outcome | None:
    """The same of real loads; None where the machine is not quiet by itself."""
    seen = look(2.0)
    if not seen.quiet:
        print(f"live: {'no promise' if anyway else 'not measured'}, the machine is not quiet: {seen.text}")
        if not anyway:
            return None
    total = Outcome()
    costs = []
    print(f"{'live':14}{'disturbance':24}{'null':>6}{'kept':>6}  " + _heads())
    for load in live.LOADS[:6:2] if quick else live.LOADS:
        for injection in _QUICK_INJECTIONS if quick else _INJECTIONS:
            order = [None, injection, injection, None] * rounds
            try:
                trials = live.trials(load, [*order], seconds)
            except live.NotQuietError as error:
                print(f"{load.name:14}{injection!s:24}left out: {error}", flush=True)
                continue
            alone = np.concatenate(
                [t.latencies_ms for t, what in zip(trials, order, strict=True) if what is None]
            )
            truth = {name: float(np.quantile(alone, float(name[1:]) / 100)) for name in ALLOWED}
            outcome = Outcome()
            for trial, what in zip(trials, order, strict=True):
                if what is None:
                    costs.append(trial.sampler_cores or 0.0)
                else:
                    outcome.judge(trial.quiet["latency_ms"], trial.quiet["time_ratio"] or 0.0, truth)
            total.add(outcome)
            kept = float(np.mean(outcome.time_ratios))
            print(
                f"{load.name:14}{injection!s:24}{outcome.nulls:6}{kept:6.0%}  " + _cells(outcome), flush=True
            )
    if not costs:
        return None
    print(
        f"the sampler (all monitors) used {np.median(costs):.2%} of a core (median of the undisturbed runs)"
    )
    return total if seen.quiet else None


def promises(what: str, outcome: Outcome) -> None:
    """A line for each; nothing is said of what has no value."""
    for name, allowed in ALLOWED.items():
        values, holds = len(outcome.errors[name]), outcome.holds[name]
        if not values:
            print(f"NOT DECIDED  {what}: {name} within {allowed:.0%}: always null")
            continue
        within = outcome.within(name)
        word = "ok    " if within >= 0.9 else "FAILED"
        print(f"{word}  {what}: {name} within {allowed:.0%} in {within:.0%} of {values} (at least 90%); "
              f"null in {outcome.runs - values} of {outcome.runs}")  # fmt: skip
        covered = float(np.mean(holds))
        # Two standard errors of so many intervals at 94%.
        slack = 2 * (0.94 * 0.06 / len(holds)) ** 0.5
        word = "ok    " if 0.9 - slack <= covered <= 0.98 + slack else "FAILED"
        print(
            f"{word}  {what}: {name} intervals hold {covered:.1%} of {len(holds)} (90 to 98%, ± {slack:.1%})"
        )


def no_bias(outcome: Outcome) -> None:
    """Where nothing disturbs, the mean error is within two standard errors of none."""
    for name, errors in outcome.errors.items():
        mean, error = float(np.mean(errors)), float(np.std(errors, ddof=1) / len(errors) ** 0.5)
        word = "ok    " if abs(mean) <= 2 * error + 0.005 else "FAILED"
        print(f"{word}  undisturbed: {name} is off by {mean:+.2%} ± {2 * error:.2%} on average (none)")


def _heads() -> str:
    return "".join(f"{f'{name} off, within {allowed:.0%}, held':34}" for name, allowed in ALLOWED.items())


def _cells(outcome: Outcome) -> str:
    cells = []
    for name in ALLOWED:
        errors, holds = outcome.errors[name], outcome.holds[name]
        held = f"{np.mean(holds):.0%} of {len(holds)}" if holds else "-"
        cells.append(f"{np.median(errors):+.1%}, {outcome.within(name):.0%}, {held}" if errors else "null")
    return "".join(f"{cell:34}" for cell in cells)


def main() -> None:
    """Print the tables and the promises."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few minutes")
    parser.add_argument("--only", choices=("simulated", "live"))
    parser.add_argument("--runs", type=int, help="runs of each simulated cell, rounds of each live one")
    parser.add_argument("--seconds", type=float, help="length of a load")
    parser.add_argument(
        "--anyway", action="store_true", help="measure live loads on a machine that is not quiet"
    )
    options = parser.parse_args()
    start_s = time.monotonic()
    results = []
    if options.only != "live":
        runs = options.runs or (10 if options.quick else 40)
        disturbed, undisturbed = simulate(
            options.quick, runs, options.seconds or (40 if options.quick else 60)
        )
        no_bias(undisturbed)
        results.append(("simulated", disturbed))
    if options.only != "simulated":
        rounds = options.runs or (1 if options.quick else 5)
        seconds = options.seconds or (15 if options.quick else 60)
        outcome = measure(options.quick, rounds, seconds, options.anyway)
        results += [("live", outcome)] if outcome else []
    for what, outcome in results:
        promises(what, outcome)
    print(f"{time.monotonic() - start_s:.0f} s")


if __name__ == "__main__":
    main()
