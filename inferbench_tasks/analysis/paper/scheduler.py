"""Figure 15 from a scheduler's own log: what its jobs really took, and what they would have under the paper's policies.

The log of one life of the real system's scheduler (``scheduling/*.jsonl`` in the data directory) has each job's
submission, start and end. Its jobs are replayed with the lengths that they really had, the estimates that the scheduler
had, and the cluster as it was; the policy that was really at work is replayed as well, to tell how well a replay agrees
with what happened. Job completion time (JCT) = end - submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks.analysis.charts.style import Chart, axis, chart, line
from inferbench_tasks.analysis.paper.finding import Finding, shares
from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling.outcome import Outcome
from inferbench_tasks.scheduling.policies import POLICIES
from inferbench_tasks.scheduling.recorded import as_it_was, read_trace
from inferbench_tasks.scheduling.simulator import Simulator
from inferbench_tasks.scheduling.trace import Trace

#: The paper's two baselines and its scheduler.
BASELINE, PAPER = "rr_fcfs", ("rr_fcfs", "rr_sjf", "qa_sjf")
#: Fewer jobs tell nothing of a policy; more take minutes to replay.
LEAST_JOBS, MOST_JOBS = 20, 20_000
NO_LOG = "no scheduler has run here: `inferbench up` keeps a log of each job, and `inferbench simulate LOG` replays it"


@dataclass(frozen=True)
class Replayed:
    """``real``: what happened, under ``real.policy``; ``outcomes``: policy -> its replay."""

    log: str
    devices: int
    real: Outcome
    outcomes: dict[str, Outcome]


def replayed(folder: Path) -> Replayed | str:
    """Of the log with most jobs in the folder; why there is none."""
    logs: list[tuple[int, str, Path, Trace]] = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            trace = read_trace(path, ())
        except InputError:  # nothing ended well in that life, or it ended before its first line did
            continue
        logs.append((len(trace.jobs), path.name, path, trace))
    if not logs:
        return NO_LOG
    jobs, name, path, trace = max(logs, key=lambda log: log[:2])
    if not LEAST_JOBS <= jobs <= MOST_JOBS:
        return (
            f"the largest log of a scheduler here, {name}, has {jobs:,} jobs that ended well; replayed are "
            f"{LEAST_JOBS} to {MOST_JOBS:,}"
        )
    if trace.devices < 2:
        return f"the scheduler of {name} had one device: there was nothing to place"
    real = as_it_was(path)
    names = [*PAPER, *([real.policy] if real.policy in POLICIES and real.policy not in PAPER else [])]
    outcomes = {policy: Simulator(trace, POLICIES.load(policy)()).run() for policy in names}
    short = [policy for policy, outcome in outcomes.items() if len(outcome.jct_s()) < jobs]
    if short:
        return f"not every job of {name} ends when it is replayed under {', '.join(short)}: means would be of others"
    return Replayed(name, trace.devices, real, outcomes)


def judged(found: Replayed | str) -> Finding:
    """Whether the paper's scheduler completes these jobs sooner than its first baseline, by a tenth at least."""
    if isinstance(found, str):
        return Finding("unmeasured", found)
    base, paper = (found.outcomes[name].mean_jct_s() for name in (BASELINE, "qa_sjf"))
    text = (
        f"{len(found.real.jobs):,} jobs on {found.devices} devices ({found.log}), mean completion time: replayed "
        f"under RR+FCFS {{}} s, under QA+SJF {{}} s ({base / paper:.2f} times shorter); really "
        f"{found.real.mean_jct_s():,.3g} s under {found.real.policy}"
    )
    if (own := found.outcomes.get(found.real.policy)) is not None:
        text += f", {own.mean_jct_s():,.3g} s when that is replayed"
    return shares(base, paper, "lower", text)


def charts(found: Replayed | str) -> list[Chart]:
    """(a) the speed-up of the mean over RR+FCFS, (b) the CDF of the completion times; what happened is among them."""
    if isinstance(found, str):
        return []
    shown = [
        *((f"{name}, replayed", outcome) for name, outcome in found.outcomes.items()),
        (f"{found.real.policy}, as it was", found.real),
    ]
    base = found.outcomes[BASELINE].mean_jct_s()
    ratios = [base / outcome.mean_jct_s() for _, outcome in shown]
    bars = {
        "type": "bar",
        "x": [name for name, _ in shown],
        "y": ratios,
        "text": [f"{ratio:.2f}x" for ratio in ratios],
    }
    return [
        chart(
            [bars],
            title=f"(a) Speed-up of the mean completion time over {BASELINE}",
            xaxis=axis("", type="category"),
            yaxis=axis("speed-up", rangemode="tozero"),
            showlegend=False,
        ),
        chart(
            [
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "line": line(index),
                    **_cdf(outcome.jct_s()),
                }
                for index, (name, outcome) in enumerate(shown)
            ],
            title="(b) CDF of the completion time",
            xaxis=axis("job completion time, s (log)", log=True),
            yaxis=axis("share of the jobs"),
        ),
    ]


def _cdf(values: Sequence[float]) -> dict[str, list[float]]:
    ordered = sorted(values)
    step = max(1, len(ordered) // 500)  # more points can't be seen
    places = [*range(0, len(ordered), step), len(ordered) - 1]
    return {"x": [ordered[place] for place in places], "y": [(place + 1) / len(ordered) for place in places]}
