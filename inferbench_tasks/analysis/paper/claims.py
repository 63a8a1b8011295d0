"""The sentences of the InferBench paper that a run can agree or disagree with, figure by figure.

Each is about a shape (what grows with what, what is larger than what): the paper's numbers are of a V100, a T4, a P4
and a 2080 Ti with ResNet-50 and BERT, and no machine has to repeat them. ``paper`` says it in the paper's own setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scipy.stats import spearmanr

from inferbench_tasks.analysis.intensity import position
from inferbench_tasks.analysis.paper import scheduler
from inferbench_tasks.analysis.paper.evidence import Evidence, faster_than_the_cpu, rates_differ
from inferbench_tasks.analysis.paper.finding import Finding, Runs, both, shares
from inferbench_tasks.analysis.report.runs import RunView

FAMILIES = ("mlp", "cnn", "rnn", "transformer")
FRAMEWORKS = ("torch", "tensorflow")
#: A rank correlation counts where chance alone shows it in fewer than one of twenty.
CHANCE = 0.05


@dataclass(frozen=True)
class Case:
    """What a claim is judged by: the runs of its submission, none where it has none, and all that there is besides."""

    runs: Runs
    evidence: Evidence


Judge = Callable[[Case], Finding]


@dataclass(frozen=True)
class Claim:
    """``figure``: of the paper; ``submission``: whose runs are asked, None where it is judged by all that there is, or,
    without a ``judge``, nothing here measures it.

    ``instead``: where none is asked, or beside it: what cannot be compared here, and where it is.
    """

    figure: str
    paper: str
    submission: str | None
    judge: Judge | None = None
    instead: str = ""


def _batches(figure: str, way: Any) -> Judge:
    def judge(case: Case) -> Finding:
        runs = case.runs
        return runs.compare(runs.at(load__batch_size=1), runs.at(load__batch_size=32), figure, way)

    return judge


def _attained(axis: str, low: int, high: int, others: Mapping[str, Any]) -> Judge:
    """FLOP/s over one axis at a place of the ``others``, of both frameworks."""

    def judge(case: Case) -> Finding:
        runs = case.runs
        found = []
        for framework in FRAMEWORKS:
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


def _roofline(case: Case) -> Finding:
    runs = case.runs
    points = [point for view in runs.views if view.valid and (point := position(view)) is not None]
    if len(points) < 5:
        return Finding("unmeasured", f"{len(points)} of {len(runs.views)} runs have a place in the roofline")
    test = spearmanr([x for x, _ in points], [y for _, y in points])
    text = f"rank correlation {test.statistic:.2f} over {len(points)} models (p {test.pvalue:.2g})"
    if test.pvalue > CHANCE:
        return Finding("undecided", text)
    return Finding("agrees" if test.statistic > 0 else "differs", text)


def _intensity(case: Case) -> Finding:
    runs = case.runs
    found = []
    for neurons in (64, 256, 1024):
        pair = [runs.at(model__neurons=neurons, load__batch_size=batch) for batch in (1, 32)]
        points = [position(view) if view is not None else None for view in pair]
        low, high = (point[0] if point else None for point in points)
        text = f"{neurons} neurons: {{}} FLOP/byte at batch 1, {{}} at 32"
        found.append(shares(low, high, "higher", text))
    return both(*found)


def _rates(figure: str) -> Judge:
    def judge(case: Case) -> Finding:
        low, high = (case.runs.at(load__arrivals__rate_rps=rate) for rate in (100, 400))
        return case.runs.compare(low, high, figure, "higher")

    return judge


def _batching(users: int, way: Any) -> Judge:
    """With dynamic batching against without, at so many users."""

    def judge(case: Case) -> Finding:
        runs = case.runs
        place = {"load__arrivals__concurrency": users}
        merged = {"serve__batching__max_batch_size": 16}
        plain = runs.at(**place, serve__batching=None)
        return runs.compare(plain, runs.at(**place, **merged), "throughput_samples_per_s", way)

    return judge


def _idle(case: Case) -> Finding:
    """Of the GPU, or of the server's cores, less than a half is used, by a tenth at least; on each server."""
    runs = case.runs
    found = []
    for backend in ("onnxruntime", "triton"):
        view = runs.at(serve__backend=backend, model__family="transformer")
        text = f"{backend}: {{1}} % of the device is used"
        found.append(shares(50.0, _used_percent(view), "lower", text))
    return both(*found)


def _used_percent(view: RunView | None) -> float | None:
    """Per cent of the GPU, or of the cores that the job had."""
    if view is None or view.result is None:
        return None
    gpu: float | None = view.figure("resources.gpu.utilisation_ratio.mean")
    if view.result.device.kind == "gpu":
        return None if gpu is None else 100 * gpu
    cores: float | None = view.figure("resources.server.cpu_cores.mean")
    return 100 * cores / view.result.device.cores if cores is not None and view.result.device.cores else None


def _inference_share(case: Case) -> Finding:
    runs = case.runs
    low, high = (
        _share(runs.at(load__network="wifi", load__batch_size=batch), "inference") for batch in (1, 16)
    )
    return shares(low, high, "higher", "Wi-Fi: inference is {} % of a request at batch 1, {} % at 16")


def _transmission(case: Case) -> Finding:
    runs = case.runs
    view = runs.at(load__network="wifi", load__batch_size=1)
    transmit, inference = _share(view, "transmit"), _share(view, "inference")
    return shares(
        inference, transmit, "higher", "Wi-Fi, batch 1: inference {} %, transmission {} % of a request"
    )


def _share(view: RunView | None, part: str) -> float | None:
    """Per cent of the mean request."""
    if view is None:
        return None
    spent, whole = (view.figure(f"stages_ms.{name}.mean") for name in (part, "e2e"))
    return 100 * spent / whole if spent is not None and whole else None


def _slowest_network(case: Case) -> Finding:
    runs = case.runs
    found = []
    for batch in (1, 16):
        mobile = runs.at(load__network="4g_lte", load__batch_size=batch)
        for network in ("lan", "wifi"):
            other = runs.at(load__network=network, load__batch_size=batch)
            found.append(runs.compare(other, mobile, "p50_ms", "higher"))
    return both(*found)


def _of_all(judge: Callable[[Evidence], Finding]) -> Judge:
    """By all that there is, not by the runs of one submission."""
    return lambda case: judge(case.evidence)


_GPU = "needs a GPU: on one, put serve.device gpu into the submission, as its first lines say"
_FAMILIES = (
    Claim(
        "9",
        f"{family}: utilisation grows with the {what} (V100)",
        f"fig09-{family}",
        _attained(axis, low, high, others),
        "a CPU's core is either busy or not: what it attains stands for the utilisation of a GPU",
    )
    for family in FAMILIES
    for what, axis, low, high, others in (
        ("batch size", "load.batch_size", 1, 16, {"model.layers": 4}),
        ("depth", "model.layers", 1, 4, {"load.batch_size": 16}),
    )
)
CLAIMS: tuple[Claim, ...] = (
    Claim("7(a, b)", "A larger batch has a higher throughput (ResNet-50, BERT-Large; four GPUs)", "fig07-08-batch-size",
          _batches("throughput_samples_per_s", "higher")),
    Claim("7(a, b)", "A larger batch has a longer latency", "fig07-08-batch-size", _batches("p50_ms", "higher")),
    Claim("7(c)", "Under the CPU's latency as objective a V100 serves 3.6 to 47.4 times as much", None,
          _of_all(faster_than_the_cpu), _GPU),
    Claim("8(a)", "Energy and CO₂ of a request are highest at batch 1 and fall with the batch", "fig07-08-batch-size",
          _batches("joule_per_sample", "lower")),
    Claim("8(b)", "The cost of a request falls with the batch", "fig07-08-batch-size",
          _batches("cost_usd_per_1k_samples", "lower"),
          "on the cheapest instance with the device"),
    Claim("8(b)", "For the same device providers have different hourly rates", None, _of_all(rates_differ)),
    *_FAMILIES,
    Claim("10(b)", "Operations per second grow with arithmetic intensity (generated models, V100)", "fig10-roofline",
          _roofline),
    Claim("10(b)", "A larger batch makes an MLP more compute-bound", "fig10-roofline", _intensity),
    Claim("11(a)", "A larger batch has a longer tail (TF-Serving, ResNet-50)", "fig07-08-batch-size",
          _batches("p99_ms", "higher")),
    Claim("11(b, c)", "A higher arrival rate has a longer tail (TF-Serving)", "fig11-13-tail-latency",
          _rates("p99_ms")),
    Claim("11(d)", "Triton has the shortest tail of four servers, ONNX Runtime a shorter one than TF-Serving", None,
          instead="no submission here runs all four: serve.backend as a sweep compares what is installed"),
    Claim("12(a)", "At little concurrency dynamic batching costs throughput (TF-Serving)", "fig12-dynamic-batching",
          _batching(1, "lower"), "InferBench's own server on ONNX Runtime stands for TF-Serving"),
    Claim("12(b)", "Dynamic batching raises the throughput steadily (Triton): of 8 users", "fig12-triton",
          _batching(8, "higher")),
    Claim("12(b)", "Dynamic batching raises the throughput steadily (Triton): of 32 users", "fig12-triton",
          _batching(32, "higher")),
    Claim("13", "A low arrival rate leaves the device idle, a higher one less so (TF-Serving, Triton)",
          "fig11-13-tail-latency", _rates("cpu_cores")),
    Claim("13(a)", "Even a heavy model (BERT) leaves most of the device idle at 30 requests/s, on both servers",
          "fig13-services", _idle),
    Claim("14(a)", "At small batches transmission takes as long as inference, or longer", "fig14-pipeline",
          _transmission),
    Claim("14(a)", "With the batch inference takes a larger part of a request", "fig14-pipeline", _inference_share),
    Claim("14(b)", "4G LTE has the longest latency end to end", "fig14-pipeline", _slowest_network),
    Claim("14(c)", "Triton starts later than TF-Serving; a small model takes more than 10 s", None,
          instead="each report has the cold start of its own server"),
    Claim("15", "Queue-aware placement with shortest job first: 1.43 times shorter completion times", None,
          _of_all(lambda evidence: scheduler.judged(evidence.scheduler))),
)  # fmt: skip


def judged(
    claim: Claim,
    views: Mapping[str, list[RunView]],
    evidence: Evidence | None = None,
    unavailable: Mapping[str, str] | None = None,
) -> Finding:
    """What the runs of its submission say, or all that there is; ``views``: submission -> its runs, where it was run;
    ``unavailable``: submission -> why it can't be run here.
    """
    if claim.judge is None:
        return Finding("unmeasured", claim.instead)
    name = claim.submission
    if name is not None and name not in views:
        return Finding("unmeasured", (unavailable or {}).get(name) or "its submission was not run")
    found = claim.judge(Case(Runs(views[name] if name else ()), evidence or Evidence()))
    if not claim.instead or (name is None and found.kind != "unmeasured"):
        return found
    text = f"{found.text} ({claim.instead})" if name else f"{found.text}; {claim.instead}"
    return Finding(found.kind, text)
