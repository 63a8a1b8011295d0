"""BenchmarkJade's clock puts a part of the step into the wrong column: that of whoever waits for the device first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import LEAST_SHARE, Cause
from inferbench_tasks.training.diagnosis.observation import Observation

#: benchmark -> its columns, and the phases that each of them is to hold.
HOLDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "train": {"loading": ("loading", "to_device"), "forward": ("forward", "loss"), "backward": ("backward",
    "optimiser")}, "inference": {"loading": ("loading", "to_device"), "forward": ("forward",)},
    "smooth_inference": {
        "loading": ("loading",),
        "processing": ("to_device", "processing"),
        "forward": ("forward", "gather"),
    },
}  # fmt: skip
#: A column that is short by less than this of itself has only another epoch's times.
_LEAST_OF_COLUMN = 0.2


def find(run: Observation) -> Iterator[Cause]:
    """A column that is shorter than its phases with the device synchronised, while another is longer by about as much.

    The sum of all columns has to be that of the phases within 5%: a part that is somewhere else is not gone. Columns of
    the measured steps alone are looked at; what the start of an epoch adds is ``startup_in_means``'.
    """
    moved, why = moved_ms(run), _why(run)
    if moved is None or why is None:
        return
    short, long, ms = moved
    columns, truth = columns_ms(run), true_ms(run)
    yield Cause(
        rule="wrong_column",
        kind="wrong",
        sentence=f"BenchmarkJade's clock puts {number(ms)} ms of {short} into its column {long!r}: {why}.",
        evidence=[
            f"{name}: {number(columns[name])} ms by Jade's clock, {number(truth[name])} ms with the device "
            f"synchronised ({', '.join(held(run, name)).replace('_', ' ')})"
            for name in columns
        ],
        remedy="Read the columns of `synchronised`; only the sum of Jade's is the step's.",
    )


def _why(run: Observation) -> str | None:
    """What moves time between the columns; None where nothing does: a CPU runs in step with its host, one rank has
    nobody to wait for, and a barrier of nccl waits for the device, be it of one rank. Smooth inference has none behind
    its forward pass.
    """
    devices = run.job.devices
    several = devices.exchange is not None and devices.ranks > 1
    in_step = devices.kind.kind != "gpu" or (devices.exchange == "nccl" and not run.job.smooth)
    if not in_step:
        return (
            "work was only launched when the clock was read, and who waits for the device first has its time"
        )
    return "its barrier has every rank wait for the last one there" if several else None


def hold(run: Observation) -> bool:
    """Whether each column is there, and within 5% of a step of the phases that it is to hold."""
    columns, truth = columns_ms(run), true_ms(run)
    least_ms = LEAST_SHARE * sum(truth.values())
    return (
        bool(columns)
        and columns.keys() == truth.keys()
        and all(abs(columns[name] - truth[name]) <= least_ms for name in columns)
    )


def moved_ms(run: Observation) -> tuple[str, str, float] | None:
    """(the column that lacks it, the one that has it, ms); None where no column holds another's work."""
    columns, truth = columns_ms(run), true_ms(run)
    if not columns or columns.keys() != truth.keys():
        return None
    more = {name: columns[name] - truth[name] for name in columns}
    short, long = min(more, key=lambda name: more[name]), max(more, key=lambda name: more[name])
    ms, whole = min(-more[short], more[long]), sum(truth.values())
    same_sum = abs(sum(more.values())) <= LEAST_SHARE * whole
    if same_sum and ms >= LEAST_SHARE * whole and -more[short] >= _LEAST_OF_COLUMN * truth[short]:
        return short, long, ms
    return None


def true_ms(run: Observation) -> dict[str, float]:
    """What each column is to hold, by the epochs in which the device is synchronised, ms."""
    return {
        name: sum(run.phases[phase].wall_ms for phase in held(run, name))
        for name in HOLDS[run.job.train.benchmark]
    }


def held(run: Observation, column: str) -> list[str]:
    """The phases of this run that a column is to hold: one process gathers nothing."""
    return [phase for phase in HOLDS[run.job.train.benchmark][column] if phase in run.phases]


def columns_ms(run: Observation) -> dict[str, float]:
    """Jade's columns over the measured steps, ms; {} where they were not asked for."""
    steady = (run.jade or {}).get("without_warmup") or {}
    return {name: seconds * 1e3 for name, seconds in steady.items()}
