"""How runs are asked whether they agree with a sentence of the paper: one function for each kind of sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr

from inferbench_tasks.analysis.intensity import position
from inferbench_tasks.analysis.paper.evidence import Evidence
from inferbench_tasks.analysis.paper.finding import Finding, Runs, both, shares
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.dotted import value_at

FAMILIES = ("mlp", "cnn", "rnn", "transformer")
FRAMEWORKS = ("torch", "tensorflow")
#: A rank correlation counts where chance alone shows it in fewer than one of twenty.
CHANCE = 0.05
#: Up to so many pairs every order of them is counted (40,320); beyond, Student's t stands for that, as usual.
MOST_EXACT = 8


@dataclass(frozen=True)
class Case:
    """What a claim is judged by: the runs of its submission, none where it has none, and all that there is besides."""

    runs: Runs
    evidence: Evidence


Judge = Callable[[Case], Finding]


def batches(figure: str, way: Any) -> Judge:
    def judge(case: Case) -> Finding:
        runs = case.runs
        return runs.compare(runs.at(load__batch_size=1), runs.at(load__batch_size=32), figure, way)

    return judge


def costs(case: Case) -> Finding:
    """As ``batches`` of the cost of a sample, with the instance that both are priced at and what its price is worth."""
    first, second = (case.runs.at(load__batch_size=batch) for batch in (1, 32))
    found = case.runs.compare(first, second, "cost_usd_per_1k_samples", "lower")
    priced = [_cheapest(view) for view in (first, second) if view is not None]
    if found.kind == "unmeasured" or not all(priced):
        return found
    named = list(dict.fromkeys(words for words, _ in filter(None, priced)))
    text = f"{found.text}, on {' and on '.join(named)}"
    # Another instance at each end would compare two prices.
    same = len({place for _, place in filter(None, priced)}) == 1
    return Finding(found.kind if same else "undecided", text)


def _cheapest(view: RunView) -> tuple[str, tuple[str, ...]] | None:
    """The cheapest instance with the run's device, in words, and which one it is; None without a price."""
    instances = view.figure("cost.instances")
    if not instances:
        return None
    first = instances[0]
    place = tuple(str(first.get(key)) for key in ("provider", "instance", "region", "usd_per_hour"))
    doubts = [word for word in ("approximate", "unverified") if first.get(word)]
    said = ", ".join([f"its price of {first['date']}", *doubts]) if first.get("date") else ", ".join(doubts)
    return f"{place[0]} {place[1]}" + (f" ({said})" if said else ""), place


def attained(
    axis: str, low: int, high: int, others: Mapping[str, Any], frameworks: Sequence[str] = FRAMEWORKS
) -> Judge:
    """FLOP/s over one axis at a place of the ``others``, of each framework."""

    def judge(case: Case) -> Finding:
        runs = case.runs
        found = []
        for framework in frameworks:
            place = {**others, "model.framework": framework}
            pair = [runs.at(**_keywords({**place, axis: value})) for value in (low, high)]
            first, second = (_gflops(view) for view in pair)
            text = f"{framework}: {{}} GFLOP/s at {axis} {low}, {{}} at {high}"
            found.append(shares(first, second, "higher", text))
        return both(*found)

    return judge


def _keywords(place: Mapping[str, Any]) -> dict[str, Any]:
    return {path.replace(".", "__"): value for path, value in place.items()}


def _gflops(view: RunView | None) -> float | None:
    found = position(view) if view is not None else None
    return found[1] if found else None


def roofline(case: Case) -> Finding:
    """Within each family: over all of them it would be families that are compared. One that was not run leaves the
    sentence unmeasured.
    """
    of_families = ((family, [v for v in case.runs.views if _family(v) == family]) for family in FAMILIES)
    return both(*(_rises(family, views) for family, views in of_families))


def _family(view: RunView) -> Any:
    return value_at(view.job, "model.family")


def _rises(family: str, views: Sequence[RunView]) -> Finding:
    if not views:
        return Finding("unmeasured", f"{family}: not run")
    points = [point for view in views if view.valid and (point := position(view)) is not None]
    if len(points) < 5:
        return Finding(
            "unmeasured", f"{family}: {len(points)} of {len(views)} runs have a place in the roofline"
        )
    if any(len(set(values)) == 1 for values in zip(*points, strict=True)):
        return Finding("undecided", f"{family}: all {len(points)} runs are alike in one of the two")
    correlation, p = rank_correlation(*zip(*points, strict=True))
    text = f"{family}: rank correlation {correlation:.2f} over {len(points)} runs (p {_chance(p)})"
    if p > CHANCE:
        return Finding("undecided", text)
    return Finding("agrees" if correlation > 0 else "differs", text)


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Spearman's, and the probability that chance alone shows one as far from 0: for few pairs the share of all orders
    that do (Student's t gives an exact order of five pairs 0, the orders 2 of 120).
    """
    found = spearmanr(x, y)
    if len(x) > MOST_EXACT:
        return float(found.statistic), float(found.pvalue)
    a, b = (rankdata(values) - (len(x) + 1) / 2 for values in (x, y))
    orders = np.array(list(permutations(b)))
    # All orders have the same spread, so the sum of products orders them as the correlation does.
    return float(found.statistic), float(np.mean(np.abs(orders @ a) >= abs(a @ b) - 1e-9))


def _chance(p: float) -> str:
    return "below 0.001" if p < 0.001 else f"{p:.2g}"


def intensity(case: Case) -> Finding:
    runs = case.runs
    found = []
    for neurons in (64, 256, 1024):
        pair = [runs.at(model__neurons=neurons, load__batch_size=batch) for batch in (1, 32)]
        points = [position(view) if view is not None else None for view in pair]
        low, high = (point[0] if point else None for point in points)
        text = f"{neurons} neurons: {{}} FLOP/byte at batch 1, {{}} at 32"
        found.append(shares(low, high, "higher", text))
    return both(*found)


def rates(figure: str) -> Judge:
    def judge(case: Case) -> Finding:
        low, high = (case.runs.at(load__arrivals__rate_rps=rate) for rate in (100, 400))
        return case.runs.compare(low, high, figure, "higher")

    return judge


def batching(users: int, way: Any) -> Judge:
    """With dynamic batching against without, at so many users."""

    def judge(case: Case) -> Finding:
        runs = case.runs
        place = {"load__arrivals__concurrency": users}
        merged = {"serve__batching__max_batch_size": 16}
        plain = runs.at(**place, serve__batching=None)
        return runs.compare(plain, runs.at(**place, **merged), "throughput_samples_per_s", way)

    return judge


def idle(case: Case) -> Finding:
    """Of the GPU, or of the server's cores, less than a half is used, by a fifth at least."""
    used = _used_percent(case.runs.at(model__family="transformer"))
    return shares(50.0, used, "lower", "{1}% of the device is used")


def _used_percent(view: RunView | None) -> float | None:
    """Per cent of the GPU, or of the cores that the job had."""
    if view is None or view.result is None:
        return None
    gpu: float | None = view.figure("resources.gpu.utilisation_ratio.mean")
    if view.result.device.kind == "gpu":
        return None if gpu is None else 100 * gpu
    cores: float | None = view.figure("resources.server.cpu_cores.mean")
    return 100 * cores / view.result.device.cores if cores is not None and view.result.device.cores else None


def inference_share(case: Case) -> Finding:
    runs = case.runs
    low, high = (
        _share(runs.at(load__network="wifi", load__batch_size=batch), "inference") for batch in (1, 16)
    )
    return shares(low, high, "higher", "Wi-Fi: inference is {}% of a request at batch 1, {}% at 16")


def transmission(case: Case) -> Finding:
    runs = case.runs
    view = runs.at(load__network="wifi", load__batch_size=1)
    transmit, inference = _share(view, "transmit"), _share(view, "inference")
    return shares(
        inference, transmit, "higher", "Wi-Fi, batch 1: inference {}%, transmission {}% of a request"
    )


def _share(view: RunView | None, part: str) -> float | None:
    """Per cent of the mean request."""
    if view is None:
        return None
    spent, whole = (view.figure(f"stages_ms.{name}.mean") for name in (part, "e2e"))
    return 100 * spent / whole if spent is not None and whole else None


def slowest_network(case: Case) -> Finding:
    runs = case.runs
    found = []
    for batch in (1, 16):
        mobile = runs.at(load__network="4g_lte", load__batch_size=batch)
        for network in ("lan", "wifi"):
            other = runs.at(load__network=network, load__batch_size=batch)
            found.append(runs.compare(other, mobile, "p50_ms", "higher"))
    return both(*found)


def of_all(judge: Callable[[Evidence], Finding]) -> Judge:
    """By all that there is, not by the runs of one submission."""
    return lambda case: judge(case.evidence)
