"""Figure 15 from a scheduler's own log: what its jobs really took, and what they would have under the paper's policies.

The log of one life of the real system's scheduler (``scheduling/*.jsonl`` in the data directory) has each job's
submission, lease and end. All that held devices is replayed (``scheduling.life``) with the lengths that it really had,
the estimates that the scheduler had, and the cluster as it was; compared are the completion times of the jobs that
ended well. The policy that was really at work is replayed as well, to tell how well a replay agrees with what happened.
Job completion time (JCT) = end - submission. Where runs were lost, what happened was under another load than any
replay: it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks.analysis.charts.style import Chart, axis, chart, line
from inferbench_tasks.analysis.paper.finding import Finding, shares
from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling.life import Life, lived
from inferbench_tasks.scheduling.outcome import Outcome
from inferbench_tasks.scheduling.policies import POLICIES
from inferbench_tasks.scheduling.simulator import Simulator

#: The paper's two baselines and its scheduler.
BASELINE, PAPER = "rr_fcfs", ("rr_fcfs", "rr_sjf", "qa_sjf")
#: Fewer jobs tell nothing of a policy; more take minutes to replay.
LEAST_JOBS, MOST_JOBS = 20, 20_000
#: With more load beside the jobs that are compared than this share of them, a policy's mean is of what it put last.
MOST_BESIDE = 0.2
NO_LOG = "no scheduler has run here: `inferbench up` keeps a log of each job, and `inferbench simulate LOG` replays it"


@dataclass(frozen=True)
class Replayed:
    """``life``: what happened; ``outcomes``: policy -> its replay."""

    log: str
    life: Life
    outcomes: dict[str, Outcome]

    @property
    def real(self) -> Outcome:
        """What became of the jobs that are compared, under ``real.policy``."""
        return self.life.real

    @property
    def devices(self) -> int:
        """Of the cluster."""
        return self.life.trace.devices

    def jct_s(self, outcome: Outcome) -> list[float]:
        """The completion times of the jobs that are compared."""
        compared = self.life.compared
        return outcome.jct_s(lambda job: job.job_id in compared)

    def mean_jct_s(self, outcome: Outcome) -> float:
        """Their mean."""
        times = self.jct_s(outcome)
        return sum(times) / len(times)


def replayed(folder: Path) -> Replayed | str:
    """Of the log with most jobs among those that can be replayed; why there is none."""
    usable: list[tuple[int, str, Life]] = []
    refused: list[tuple[int, str]] = []
    unread: list[str] = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            life = lived(path)
        except InputError as error:  # no log, or one of a life in which nothing ended well
            unread.append(str(error).replace(str(path), path.name))
            continue
        jobs = len(life.compared)
        if why := _why_not(path.name, life):
            refused.append((jobs, why))
        else:
            usable.append((jobs, path.name, life))
    if not usable:
        return max(refused)[1] if refused else _none_read(unread)
    jobs, name, life = max(usable, key=lambda log: log[:2])
    policy = life.real.policy
    names = [*PAPER, *([policy] if policy in POLICIES and policy not in PAPER else [])]
    found = Replayed(name, life, {each: Simulator(life.trace, POLICIES.load(each)()).run() for each in names})
    short = [each for each, outcome in found.outcomes.items() if len(found.jct_s(outcome)) < jobs]
    if short:
        return f"not every job of {name} ends when it is replayed under {', '.join(short)}: means would be of others"
    return found


def _none_read(why: Sequence[str]) -> str:
    if not why:
        return NO_LOG
    more = f" (and {len(why) - 1} more)" if len(why) > 1 else ""
    return f"no scheduler's log here can be replayed: {why[-1]}{more}"


def _why_not(name: str, life: Life) -> str | None:
    jobs = len(life.compared)
    if jobs < LEAST_JOBS or len(life.trace.jobs) > MOST_JOBS:
        return (
            f"the log of a scheduler here, {name}, has {jobs:,} jobs that ended well, of {len(life.trace.jobs):,} that "
            f"ran; replayed are {LEAST_JOBS} to {MOST_JOBS:,}"
        )
    if life.trace.devices < 2:
        return f"the scheduler of {name} had one device: there was nothing to place"
    return None


def judged(found: Replayed | str) -> Finding:
    """Whether the paper's scheduler completes these jobs sooner than its first baseline, by a fifth at least."""
    if isinstance(found, str):
        return Finding("unmeasured", found)
    base, paper = (found.mean_jct_s(found.outcomes[name]) for name in (BASELINE, "qa_sjf"))
    ratio = f"{base / paper:.2f} times shorter" if paper <= base else f"{paper / base:.2f} times longer"
    life = found.life
    text = (
        f"{len(found.real.jobs):,} jobs on {found.devices} devices ({found.log}), mean completion time: replayed "
        f"under RR+FCFS {{}} s, under QA+SJF {{}} s ({ratio}); {_really(found)}{_beside(life)}"
    )
    finding = shares(base, paper, "lower", text)
    if life.failed + life.earlier > MOST_BESIDE * len(life.compared):
        return Finding(
            "undecided", f"{finding.text}: too much beside them to compare policies by their means"
        )
    return finding


def _really(found: Replayed) -> str:
    life, policy = found.life, found.real.policy
    if life.lost:
        return f"{life.lost:,} run(s) were lost, so what really happened, under {policy}, is not comparable"
    said = f"really {found.real.mean_jct_s():,.3g} s under {policy}"
    if (own := found.outcomes.get(policy)) is not None:
        said += f", {found.mean_jct_s(own):,.3g} s when that is replayed"
    return said


def _beside(life: Life) -> str:
    """What is load and not compared."""
    counts = ((life.failed, "that failed or did not end"), (life.earlier, "from before the log"))
    said = " and ".join(f"{count:,} {what}" for count, what in counts if count)
    return f"; replayed as load, not in the means: {said}" if said else ""


def charts(found: Replayed | str) -> list[Chart]:
    """(a) the speed-up of the mean over RR+FCFS, (b) the CDF of the completion times, with what happened."""
    if isinstance(found, str):
        return []
    shown = [
        *((f"{name}, replayed", outcome) for name, outcome in found.outcomes.items()),
        *([] if found.life.lost else [(f"{found.real.policy}, as it was", found.real)]),
    ]
    base = found.mean_jct_s(found.outcomes[BASELINE])
    ratios = [base / found.mean_jct_s(outcome) for _, outcome in shown]
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
                    **_cdf(found.jct_s(outcome)),
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
