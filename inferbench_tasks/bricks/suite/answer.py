"""The times of a suite: raw, by round, with the references' of each; whoever takes them in judges them anew.

The digest tells what was changed by accident or by hand. Who times a suite can always write down other times: then the
digest is right and the times are not, and nobody but that machine knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from inferbench_tasks.bricks.measure.levels import Round, good_rounds
from inferbench_tasks.bricks.measure.method import FEWEST_RUNS, STATES, VERSION, Setting
from inferbench_tasks.bricks.measure.references import NAMES
from inferbench_tasks.bricks.measure.session import Session, judged, why_not
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.bricks.suite.manifest import Digest, Name, Strict, Wish, canonical, digest_of, parsed
from inferbench_tasks.errors import InputError

#: A larger file is refused before it is read.
MOST_BYTES = 1_000_000_000
#: Of the budget of a round that ended before all runs were made; the rest is what is not timed around a run.
_LEAST_OF_BUDGET = 0.5
#: Of a device's and a runtime's name, and of any machine.
_MOST_TEXT, _MOST_CORES = 200, 65_536
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Ns = Annotated[int, Field(gt=0, lt=10**15)]


class TimedRound(Strict):
    """``times``: network -> state -> ns of each run; ``references_ns``: mean of before and after; ``steal_ratio``: not
    in the file where it is not known, as in files of before it was."""

    references_ns: dict[str, Positive]
    wait_ratio: Ratio | None
    steal_ratio: Ratio | None = None
    times: dict[Name, dict[Literal["warm", "streamed"], tuple[Ns, ...]]]

    @model_serializer(mode="wrap")
    def _without_unknown(self, usual: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = usual(self)
        if self.steal_ratio is None:
            del written["steal_ratio"]
        return written


class Answer(Strict):
    """``suite``: the digest of what was timed; ``sessions``: the rounds of each; ``failed``: network -> why it has no
    time. ``sha256``: of all the rest."""

    format: Literal["inferbench-bricks-results"] = "inferbench-bricks-results"
    format_version: Literal[1] = 1
    suite: Digest
    setting: Setting
    method: Wish
    measured_at: str
    sessions: tuple[tuple[TimedRound, ...], ...]
    failed: dict[Name, Annotated[str, Field(max_length=500)]] = {}
    sha256: str = ""

    def sealed(self) -> Answer:
        """The same with its digest."""
        bare = self.model_copy(update={"sha256": ""})
        return bare.model_copy(update={"sha256": digest_of(canonical(bare))})


def rounds_of(rounds: list[Mapping[str, Any]]) -> tuple[TimedRound, ...]:
    """What the process that timed them says, in the form of the file."""
    return tuple(
        TimedRound(
            references_ns=one["references_ns"],
            wait_ratio=one["wait_ratio"],
            steal_ratio=one.get("steal_ratio"),
            times={
                name: {state: tuple(times) for state, times in by_state.items()}
                for name, by_state in one["times"].items()
            },
        )
        for one in rounds
    )


def read_answer(path: Path) -> Answer:
    """A stranger's file; InputError for anything but what ``run`` writes: each byte counts."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} is no file of a suite's results (of at most {MOST_BYTES:,} bytes)")
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    answer = parsed(text, Answer, str(path))
    if answer.sealed().sha256 != answer.sha256:
        raise InputError(f"{path} was changed: its digest is not that of what it says")
    return answer


def sessions_of(answer: Answer) -> list[Session]:
    """Its sessions, judged as those of this machine are, each at its own level. InputError for what no session of this
    version of the method can be."""
    _check_setting(answer.setting)
    seen: set[str] = set(answer.failed)
    sessions = []
    for rounds in answer.sessions:
        names = _check_rounds(rounds, answer.method)
        if twice := names & seen:
            raise InputError(f"the results have {min(twice)} twice")
        seen |= names
        good = good_rounds(
            [Round(one.references_ns, one.wait_ratio, steal_ratio=one.steal_ratio) for one in rounds]
        )
        plain = [one.model_dump() | {"good": at in good} for at, one in enumerate(rounds)]
        session = judged(plain, answer.method.method(), None)
        if why := why_not(session, answer.method.method()):
            raise InputError(f"these results count for nothing: {why}")
        sessions.append(session)
    return sessions


def measured_at(answer: Answer) -> datetime:
    """When; InputError where it is no moment, or one to come."""
    try:
        at = datetime.fromisoformat(answer.measured_at)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or at > datetime.now(UTC):
        raise InputError(f"the results say that they are of {answer.measured_at[:40]!r}", field="measured_at")
    return at


def _check_setting(setting: Setting) -> None:
    if setting.version != VERSION:
        raise InputError(
            f"the results are of version {setting.version} of the method, here it is {VERSION}: times of two versions "
            "are not compared"
        )
    name, _, number = setting.runtime.partition(" ")
    if name != DEFAULT or not number or not setting.processor or not setting.instruction_set:
        raise InputError("the results do not say by which runtime, or on which processor, they were made")
    told = (setting.processor, setting.instruction_set, setting.runtime)
    if any(len(text) > _MOST_TEXT or not text.isprintable() for text in told):
        raise InputError("the results name their device or runtime by what is no name")
    if not 1 <= setting.threads <= setting.cores <= _MOST_CORES:
        raise InputError(f"{setting.threads} threads on {setting.cores} cores: no session is like that")


def _check_rounds(rounds: tuple[TimedRound, ...], wish: Wish) -> set[str]:
    """The networks of a session, which are those of each of its rounds."""
    runs, names = wish.method().runs_each, set(rounds[0].times) if rounds else set()
    for one in rounds:
        if set(one.references_ns) != set(NAMES):
            raise InputError("a round of the results lacks the references' times, or has others")
        if set(one.times) != names or not names:
            raise InputError("the rounds of a session of the results are of different networks")
        for name, by_state in one.times.items():
            if set(by_state) != set(STATES):
                raise InputError(f"the results have {name} not in both states, {' and '.join(STATES)}")
            for state, times in by_state.items():
                enough = min(FEWEST_RUNS, runs) <= len(times) <= runs
                if state == "warm" and len(times) < runs:
                    enough &= sum(times) >= _LEAST_OF_BUDGET * wish.budget_s * 1e9
                if not enough:
                    raise InputError(
                        f"the results have {len(times)} runs of {name} in a round, {runs} were asked for: this is "
                        "another method than they claim"
                    )
    return names
