"""The sentences of the InferBench paper that a run can agree or disagree with, figure by figure.

Each is about a shape (what grows with what, what is larger than what): the paper's numbers are of a V100, a T4, a P4
and a 2080 Ti with ResNet-50 and BERT, and no machine has to repeat them. ``paper`` says it in the paper's own setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferbench_tasks.analysis.paper import scheduler
from inferbench_tasks.analysis.paper.evidence import Evidence, faster_than_the_cpu, rates_differ
from inferbench_tasks.analysis.paper.finding import Finding, Runs
from inferbench_tasks.analysis.paper.judges import (
    FAMILIES,
    Case,
    Judge,
    attained,
    batches,
    batching,
    costs,
    idle,
    inference_share,
    intensity,
    of_all,
    rates,
    roofline,
    slowest_network,
    transmission,
)
from inferbench_tasks.analysis.report.runs import RunView


@dataclass(frozen=True)
class Claim:
    """``figure``: of the paper; ``submissions``: whose runs are asked, () where it is judged by all that there is, or,
    without a ``judge``, nothing here measures it.

    ``instead``: where none is asked, or beside it: what cannot be compared here, and where it is.
    """

    figure: str
    paper: str
    submissions: tuple[str, ...]
    judge: Judge | None = None
    instead: str = ""


_GPU = "needs a GPU: on one, put serve.device gpu into the submission, as its first lines say"
_FAMILIES = (
    Claim(
        "9",
        f"{family}: utilisation grows with the {what} (V100)",
        (f"fig09-{family}",),
        attained(axis, low, high, others),
        "a CPU's core is either busy or not: what it attains stands for the utilisation of a GPU",
    )
    for family in FAMILIES
    for what, axis, low, high, others in (
        ("batch size", "load.batch_size", 1, 16, {"model.layers": 4}),
        ("depth", "model.layers", 1, 4, {"load.batch_size": 16}),
    )
)
#: InferBench's own server, where the paper has TF-Serving.
_OURS = "InferBench's own server on ONNX Runtime stands for TF-Serving"
CLAIMS: tuple[Claim, ...] = (
    Claim("7(a, b)", "A larger batch has a higher throughput (ResNet-50, BERT-Large; four GPUs)",
          ("fig07-08-batch-size",), batches("throughput_samples_per_s", "higher")),
    Claim("7(a, b)", "A larger batch has a longer latency", ("fig07-08-batch-size",), batches("p50_ms", "higher")),
    Claim("7(c)", "Under the CPU's latency as objective a V100 serves 3.6 to 47.4 times as much", (),
          of_all(faster_than_the_cpu), _GPU),
    Claim("8(a)", "Energy and CO₂ of a request are highest at batch 1 and fall with the batch",
          ("fig07-08-batch-size",), batches("joule_per_sample", "lower")),
    Claim("8(b)", "The cost of a request falls with the batch", ("fig07-08-batch-size",), costs),
    Claim("8(b)", "For the same device providers have different hourly rates", (), of_all(rates_differ)),
    *_FAMILIES,
    Claim("9", "mlp: utilisation grows with the batch size (V100), here of a deeper one at larger batches",
          ("fig09-heat-map",), attained("load.batch_size", 1, 32, {"model.layers": 8}, ("torch",))),
    Claim("10(b)", "Operations per second grow with arithmetic intensity (generated models, V100)",
          ("fig10-roofline", *(f"fig09-{family}" for family in FAMILIES)), roofline),
    Claim("10(b)", "A larger batch makes an MLP more compute-bound", ("fig10-roofline",), intensity),
    Claim("11(a)", "A larger batch has a longer tail (TF-Serving, ResNet-50)", ("fig07-08-batch-size",),
          batches("p99_ms", "higher"), _OURS),
    Claim("11(b, c)", "A higher arrival rate has a longer tail (TF-Serving)", ("fig11-13-tail-latency",),
          rates("p99_ms"), _OURS),
    Claim("11(d)", "Triton has the shortest tail of four servers, ONNX Runtime a shorter one than TF-Serving", (),
          instead="no submission here runs all four: serve.backend as a sweep compares what is installed"),
    Claim("12(a)", "At little concurrency dynamic batching costs throughput (TF-Serving)",
          ("fig12-dynamic-batching",), batching(1, "lower"), _OURS),
    Claim("12(b)", "Dynamic batching raises the throughput steadily (Triton): of 8 users", ("fig12-triton",),
          batching(8, "higher")),
    Claim("12(b)", "Dynamic batching raises the throughput steadily (Triton): of 32 users", ("fig12-triton",),
          batching(32, "higher")),
    Claim("13", "A low arrival rate leaves the device idle, a higher one less so (TF-Serving)",
          ("fig11-13-tail-latency",), rates("cpu_cores"), _OURS),
    Claim("13(a)", "Even a heavy model (BERT) leaves most of the device idle at 30 requests/s (TF-Serving)",
          ("fig13-services",), idle, _OURS),
    Claim("13(a)", "Even a heavy model (BERT) leaves most of the device idle at 30 requests/s (Triton)",
          ("fig13-triton",), idle),
    Claim("14(a)", "At small batches transmission takes as long as inference, or longer", ("fig14-pipeline",),
          transmission),
    Claim("14(a)", "With the batch inference takes a larger part of a request", ("fig14-pipeline",), inference_share),
    Claim("14(b)", "4G LTE has the longest latency end to end", ("fig14-pipeline",), slowest_network),
    Claim("14(c)", "Triton starts later than TF-Serving; a small model takes more than 10 s", (),
          instead="each report has the cold start of its own server"),
    Claim("15", "Queue-aware placement with shortest job first: 1.43 times shorter completion times", (),
          of_all(lambda evidence: scheduler.judged(evidence.scheduler))),
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
    if claim.submissions and not any(name in views for name in claim.submissions):
        why = next((text for name in claim.submissions if (text := (unavailable or {}).get(name))), None)
        return Finding("unmeasured", why or "its submission was not run")
    asked = [view for name in claim.submissions for view in views.get(name, ())]
    found = claim.judge(Case(Runs(asked), evidence or Evidence()))
    if not claim.instead or (not claim.submissions and found.kind != "unmeasured"):
        return found
    text = f"{found.text} ({claim.instead})" if claim.submissions else f"{found.text}; {claim.instead}"
    return Finding(found.kind, text)
