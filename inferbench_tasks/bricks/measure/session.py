"""A session: networks are timed in a process of its own, on cores of its own, and judged."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inferbench_tasks import private
from inferbench_tasks.bricks.measure.child import Item, Plan
from inferbench_tasks.bricks.measure.confined import timing
from inferbench_tasks.bricks.measure.levels import level_of, stolen
from inferbench_tasks.bricks.measure.method import Method, Setting, trimmed_mean
from inferbench_tasks.bricks.runtimes import DEFAULT, runtime_here
from inferbench_tasks.cores import usable_cores
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.monitors.steal import STEAL_QUARANTINE_RATIO
from inferbench_tasks.strangers_folder import end_of

#: The sweep is so many times the core's own cache; where its size is unknown, so many bytes.
SWEEPS, SWEEP_BYTES = 4, 16 << 20


class BrickFailed(StageError):
    """A network that can't be timed: ``item`` names it, ``why`` is the runtime's word."""

    def __init__(self, item: str, why: str) -> None:
        super().__init__(f"{item}: {why}")
        self.item, self.why = item, why


@dataclass(frozen=True)
class Timed:
    """What one network took. ``rounds_ns``: state -> its trimmed mean in each good round, at the level of ``base``;
    ``raw_ns``: state -> the times of all runs, as they were, by good round."""

    rounds_ns: dict[str, list[float]]
    raw_ns: dict[str, list[list[int]]]


@dataclass(frozen=True)
class Session:
    """``quiet``: whether there were as many good rounds as wanted, of ``rounds``, those among them that were given up;
    ``base_ns``: what the levels are relative to;
    ``references_ns``: what the references took here, the median of the rounds that are used. ``taken_s``: what each
    network took of the device, loading, first runs and rounds that do not count, or were given up, included;
    ``earlier_s``: what of the rounds another attempt measured, which was ended. ``steal_ratios``: what the hypervisor
    took of the cores in each of the rounds that are used, None where the kernel does not tell; ``stolen_ratios``: in
    each round that does not count for it."""

    quiet: bool
    rounds: int
    good_rounds: int
    levels: list[float]
    base_ns: dict[str, float]
    timed: dict[str, Timed]
    references_ns: dict[str, float] = field(default_factory=dict)
    taken_s: dict[str, float] = field(default_factory=dict)
    earlier_s: float = 0.0
    steal_ratios: tuple[float | None, ...] = ()
    stolen_ratios: tuple[float, ...] = ()

    def at(self, base_ns: Mapping[str, float]) -> Session:
        """The same relative to another base: each time is divided by this one's level at that base."""
        apart = level_of(self.base_ns, base_ns)
        if apart == 1:
            return self
        timed = {
            name: Timed({s: [ns / apart for ns in times] for s, times in one.rounds_ns.items()}, one.raw_ns)
            for name, one in self.timed.items()
        }
        levels = [level * apart for level in self.levels]
        return replace(self, base_ns=dict(base_ns), levels=levels, timed=timed)


def setting(cores: Sequence[int], threads: int, runtime: str = DEFAULT) -> Setting:
    """What results of these cores, threads and this runtime hold for. InputError where it can't be used here."""
    here = runtime_here(runtime)
    return Setting(
        processor=here.processor(),
        instruction_set=here.instruction_set(),
        cores=len(cores),
        threads=threads,
        runtime=here.full_name(),
    )


def cores_for(threads: int) -> list[int]:
    """The last of the cores that this process may use, one for each thread. InputError where fewer are granted."""
    if threads > (usable := usable_cores()):
        raise InputError(f"{threads} threads need as many cores; {usable} may be used here", field="threads")
    return sorted(os.sched_getaffinity(0))[-threads:]


def run_session(
    items: Sequence[Item],
    folder: Path,
    method: Method,
    *,
    threads: int,
    cores: Sequence[int] = (),
    base_ns: dict[str, float] | None = None,
    journal: Path | None = None,
    attempt: str | None = None,
    runtime: str = DEFAULT,
    progress: Callable[[float, float, str], None] = lambda done, of, what: None,
) -> Session:
    """Time the networks; times are divided by the level of their round over ``base_ns`` (None: this session's median).

    ``cores``: one for each thread; by default ``cores_for(threads)``. ``journal``: what a session before it that was
    ended has timed, and where this one writes, as ``attempt``; see ``journal.py``.

    Raises StageError with the item's name where a network can't be run or answers with NaN.
    """
    last = _run(items, folder, method, threads, cores, journal, attempt, runtime, progress)
    every = [*last["rounds"], *last["given_up"]]
    earlier_s = sum(one["earlier_ns"] for one in every) / 1e9
    session = judged(last["rounds"], method, base_ns)
    return replace(
        session, rounds=len(every), taken_s=_taken_s(last), earlier_s=earlier_s, stolen_ratios=_stolen(every)
    )


def _taken_s(last: Mapping[str, Any]) -> dict[str, float]:
    """Of all rounds: what a round took that was given up is lost to the device all the same."""
    each = [last["loading_ns"], *(one["taken_ns"] for one in (*last["rounds"], *last["given_up"]))]
    return {name: sum(one.get(name, 0) for one in each) / 1e9 for name in last["loading_ns"]}


def run_rounds(
    items: Sequence[Item],
    folder: Path,
    method: Method,
    *,
    threads: int,
    progress: Callable[[float, float, str], None] = lambda done, of, what: None,
) -> list[dict[str, Any]]:
    """The rounds as they were timed, good or not; as ``run_session``."""
    return list(_run(items, folder, method, threads, (), None, None, DEFAULT, progress)["rounds"])


def _run(
    items: Sequence[Item], folder: Path, method: Method, threads: int, cores: Sequence[int], journal: Path | None,
    attempt: str | None, runtime: str, progress: Callable[[float, float, str], None],
) -> dict[str, Any]:  # fmt: skip
    """What the process says at its end."""
    cores = list(cores) or cores_for(threads)
    plan = Plan(
        items=list(items), cores=cores, threads=threads, method=method, folder=folder,
        sweep_bytes=_sweep_bytes(cores[0]), seed=len(items), journal=journal, attempt=attempt,
        runtime=runtime,
    )  # fmt: skip
    path = folder / "plan.json"
    private.write(path, plan.model_dump_json())
    last = _follow(plan, path, progress)
    if (why := last.get("why")) is not None:
        raise BrickFailed(last["failed"], why)
    return last


def _follow(plan: Plan, path: Path, progress: Callable[[float, float, str], None]) -> dict[str, Any]:
    line: dict[str, Any] = {}
    current: str | None = None
    errors = path.with_suffix(".log")
    with timing(plan, path, errors) as process:
        assert process.stdout is not None
        for text in process.stdout:
            line = json.loads(text)
            if "what" in line:
                current = line["item"]
                progress(line["done"], line["of"], line["what"])
    if "rounds" not in line and "why" not in line:
        tail = _end_of(errors)
        why = process.ended() + (f": {tail}" if tail else "")
        if current is not None and process.by_itself():  # another process ends what is not to blame
            raise BrickFailed(current, f"the process that timed it {why}")
        raise StageError(f"the process that times bricks {why}")
    return line


def _end_of(errors: Path) -> str:
    """What the process said last; it could write in that folder, and so put something else there."""
    try:
        return end_of(errors, 500).strip()
    except OSError as error:
        return f"its words can't be read: {error.strerror}"


def judged(
    rounds: Sequence[Mapping[str, Any]], method: Method, base_ns: Mapping[str, float] | None
) -> Session:
    """What rounds are worth: the good ones' times at the level of ``base_ns``, or of the session's own median."""
    good = [one for one in rounds if one["good"]]
    quiet = len(good) >= method.rounds
    used = good[: method.rounds] if quiet else rounds
    names = used[0]["references_ns"]
    references_ns = {n: sorted(one["references_ns"][n] for one in used)[len(used) // 2] for n in names}
    if base_ns is None:
        base_ns = references_ns
    levels = [level_of(one["references_ns"], base_ns) for one in used]
    timed = {}
    for name, states in used[0]["times"].items():
        raw = {state: [one["times"][name][state] for one in used] for state in states}
        timed[name] = Timed(
            {
                state: [trimmed_mean(times) / level for times, level in zip(rows, levels, strict=True)]
                for state, rows in raw.items()
            },
            raw,
        )
    return Session(
        quiet, len(rounds), len(good), levels, dict(base_ns), timed, references_ns,
        steal_ratios=tuple(one.get("steal_ratio") for one in used), stolen_ratios=_stolen(rounds),
    )  # fmt: skip


def _stolen(rounds: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    return tuple(ratio for one in rounds if stolen(ratio := one.get("steal_ratio")) and ratio is not None)


def _sweep_bytes(core: int) -> int:
    """A few times what the core's own caches hold, by the kernel's word."""
    sizes = []
    for index in glob.glob(f"/sys/devices/system/cpu/cpu{core}/cache/index*"):
        shared = Path(index, "shared_cpu_list").read_text().strip()
        if int(Path(index, "level").read_text()) == 2 and shared:
            sizes.append(_bytes(Path(index, "size").read_text().strip()))
    return SWEEPS * max(sizes) if sizes else SWEEP_BYTES


def _bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def why_not(session: Session, method: Method) -> str | None:
    """Why a session's times are not kept; None where they are."""
    if session.quiet:
        return None
    taken = ""
    if session.stolen_ratios:
        taken = (
            f" (the hypervisor took {max(session.stolen_ratios):.0%} of their time in the worst of "
            f"{len(session.stolen_ratios)}, less than {STEAL_QUARANTINE_RATIO:.0%} may be)"
        )
    return (
        f"the machine was not quiet: {session.good_rounds} of {session.rounds} rounds were at its level and had their "
        f"cores to themselves{taken}, {method.rounds} are needed; these times are not kept"
    )
