"""What a table says of a run, and its log otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.imported.rows import PHASES, Import, Log, TableRow

#: Times of table and log are the same run's if they agree to the table's last digit.
DIGITS = 4
#: So many of them at least, s: of shorter ones the digits that are told are alike by chance.
_LEAST_S = 10.0 ** (1 - DIGITS)


def find(content: Import) -> Iterator[Cause]:
    """Rows and logs of the same run (the same benchmark, data and times) that differ in devices, workers or samples."""
    differing: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    for row in content.rows:
        for log in content.logs:
            if not same_run(row, log):
                continue
            for what, said, logged in (
                ("devices", row.devices, log.devices),
                ("loader processes", row.workers, log.workers),
                ("samples in a batch", row.batch_size or log.batch_size, log.batch_size),
            ):
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


def same_run(row: TableRow, log: Log) -> bool:
    """Whether they are of one run: benchmark, data, and every time that the row has, two of a millisecond at least."""
    if row.benchmark != log.benchmark or row.data.lower() != log.data.lower():
        return False
    times = [(row.time_s(phase), getattr(log, f"{phase}_s")) for phase in PHASES]
    known = [(said, logged) for said, logged in times if said is not None]
    telling = [logged for _, logged in known if logged >= _LEAST_S]
    return len(telling) >= 2 and all(round(said, DIGITS) == round(logged, DIGITS) for said, logged in known)
