"""What a table says of a run, and its log otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.imported.rows import PHASES, Import, Log, TableRow

#: Times of table and log are the same run's if they agree to the table's last digit.
DIGITS = 4
#: So many of them at least, s: of shorter ones the digits that are told are alike by chance.
_LEAST_S = 10.0 ** (1 - DIGITS)
#: Two of so much at least, three digits each, tell the run of a row even where one more cell is another: a slip.
_SURE_S = 10.0 ** (2 - DIGITS)


def find(content: Import) -> Iterator[Cause]:
    """Rows and logs of the same run (``logs_of``) that differ in devices, workers, samples or one time."""
    differing: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in content.rows:
        for log in logs_of(row, content.logs):
            for what, said, logged in _both(row, log):
                if said != logged:
                    more = f" ('Devices used: {log.devices} x {log.device}')" if what == "devices" else ""
                    text = (
                        f"{row.source}: {row.label}, with the times of {log.source}, which had {logged}{more}"
                    )
                    differing[what, said, logged].append(text)
    for (what, said, logged), evidence in differing.items():
        yield Cause(
            rule="contradiction",
            kind="wrong",
            sentence=f"The table says {said} {what} for {len(evidence)} run(s), their logs {logged}.",
            evidence=evidence,
            remedy="Believe the logs; expectations for another number do not hold for these rows.",
        )


def logs_of(row: TableRow, logs: Sequence[Log]) -> list[Log]:
    """Logs of the row's run: those with all of its times, else those with all but a slip of the pen."""
    return [log for log in logs if same_run(row, log)] or [log for log in logs if slip(row, log)]


def log_of(row: TableRow, logs: Sequence[Log]) -> Log | None:
    """The first of ``logs_of``."""
    return next(iter(logs_of(row, logs)), None)


def same_run(row: TableRow, log: Log) -> bool:
    """Whether they are of one run: benchmark, data, and every time that the row has, two of a millisecond at least."""
    times = _times(row, log)
    return len(_telling(times, _LEAST_S)) >= 2 and not _other(times)


def slip(row: TableRow, log: Log) -> str | None:
    """The phase whose time the row has with the point elsewhere, where two others of 10 ms or more say that it is of
    one run. A repetition has another time there, and is another run.
    """
    times = _times(row, log)
    others = _other(times)
    alike = {phase: times[phase] for phase in times if phase not in others}
    if len(others) != 1 or len(_telling(alike, _SURE_S)) < 2:
        return None
    said, logged = times[others[0]]
    moved = any(round(said * 10.0**places, DIGITS) == round(logged, DIGITS) for places in (-2, -1, 1, 2))
    return others[0] if moved and logged >= _LEAST_S else None


def _both(row: TableRow, log: Log) -> Iterator[tuple[str, str, str]]:
    """(what, as the row says it, as the log says it)."""
    yield "devices", str(row.devices), str(log.devices)
    yield "loader processes", str(row.workers), str(log.workers)
    yield "samples in a batch", str(row.batch_size or log.batch_size), str(log.batch_size)
    if phase := slip(row, log):
        yield f"s of {phase}", row.cells.get(phase, f"{row.time_s(phase)}"), f"{log.time_s(phase):.{DIGITS}f}"


def _times(row: TableRow, log: Log) -> dict[str, tuple[float, float]]:
    """Phase -> the row's time and the log's, of those that the row has; {} of other work."""
    if row.benchmark != log.benchmark or row.data.lower() != log.data.lower():
        return {}
    return {phase: (said, log.time_s(phase)) for phase in PHASES if (said := row.time_s(phase)) is not None}


def _other(times: Mapping[str, tuple[float, float]]) -> list[str]:
    return [phase for phase, (said, logged) in times.items() if round(said, DIGITS) != round(logged, DIGITS)]


def _telling(times: Mapping[str, tuple[float, float]], least_s: float) -> list[str]:
    return [phase for phase, (_, logged) in times.items() if logged >= least_s]
