"""How fast a device should be beside another: the factors of ``configs/expected_speed.yaml``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from inferbench_tasks.catalogue import Row, find_hardware, read_table
from inferbench_tasks.errors import InputError
from inferbench_tasks.training.expected_spec import LEAST_SPEED, MOST_SPEED, Precision

FILE = "expected_speed.yaml"
Name = Annotated[str, Field(min_length=1, max_length=100)]


class ExpectedSpeed(Row):
    """``device`` makes ``speed`` times the samples/s of ``of`` at the same work.

    Names are those of tables; ``CLUSTER/DEVICE`` is a device of one cluster. ``precision`` None: of any; ``count``: so
    many of both; None: as many as there are.
    """

    device: Name
    of: Name
    speed: Annotated[float, Field(ge=LEAST_SPEED, le=MOST_SPEED)]
    precision: Precision | None = None
    count: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True)
class Expectation:
    """``speed``: of the first by that of the second; ``steps``: the factors on the way, with their sources."""

    speed: float
    steps: tuple[str, ...]


def rows(given: Sequence[ExpectedSpeed] = ()) -> tuple[ExpectedSpeed, ...]:
    """The table with the given rows, which replace those of the same devices, precision and count.

    InputError where two ways lead from a device to another: they could disagree.
    """
    table = read_table(FILE, ExpectedSpeed)
    check(table, f"configs/{FILE}")
    if not given:
        return table
    replaced = {_of(row) for row in given}
    together = (*(row for row in table if _of(row) not in replaced), *given)
    check(together, f"the factors given, beside configs/{FILE}")
    return together


def check(table: Sequence[ExpectedSpeed], where: str) -> None:
    """InputError, which names ``where``, for speeds that lead in a circle at some number of devices and precision."""
    for count in {row.count for row in table}:
        for precision in {row.precision for row in table}:
            _check_no_circle(_fitting(table, count, precision), where)


def _of(row: ExpectedSpeed) -> tuple[frozenset[str], str | None, int | None]:
    return frozenset((row.device, row.of)), row.precision, row.count


def _fitting(table: Sequence[ExpectedSpeed], count: int | None, precision: str | None) -> list[ExpectedSpeed]:
    """The rows that hold for so many devices and that precision."""
    return [row for row in table if row.count in (None, count) and row.precision in (None, precision)]


def _check_no_circle(table: Sequence[ExpectedSpeed], where: str) -> None:
    groups: dict[str, set[str]] = {}
    for row in table:
        one, other = (groups.setdefault(name, {name}) for name in (row.device, row.of))
        if one is other:
            raise InputError(
                f"{where}: expected speeds lead in a circle: {row.device} and {row.of} stand beside each other "
                f"in one more way ({', '.join(sorted(one))})"
            )
        one |= other
        groups.update(dict.fromkeys(one, one))


def names_of(device: str, cluster: str | None, given: Sequence[ExpectedSpeed] = ()) -> list[str]:
    """What the table may call a device that a system tells by its own name: those of its cluster first.

    Two names are of one device where ``hardware.yaml`` has one product for both; a family of processors is none.
    """
    sheet = find_hardware(device)
    table = rows(given)
    known = {row.device for row in table} | {row.of for row in table}
    plain = sorted({name.rpartition("/")[2] for name in known} - {device})
    names = [device]
    if sheet is not None and sheet.tdp_per_core_w is None:
        names += [name for name in plain if find_hardware(name) == sheet]
    return [*(f"{cluster}/{name}" for name in names if cluster), *names]


def expectation(
    device: str, of: str, *, count: int, precision: str | None, given: Sequence[ExpectedSpeed] = ()
) -> Expectation | None:
    """The product of the factors that lead from one device to the other; None where none do. ``given``: see
    ``rows``. InputError for a product that is no ratio of two devices.
    """
    table = _fitting(rows(given), count, precision)
    waiting = deque([(device, Expectation(1.0, ()))])
    seen = {device}
    while waiting:
        name, sofar = waiting.popleft()
        if name == of:
            if not LEAST_SPEED <= sofar.speed <= MOST_SPEED:
                raise InputError(
                    f"the factors from {device} to {of} multiply to {sofar.speed:g}, which no two devices differ by: "
                    f"{'; '.join(sofar.steps)}"
                )
            return sofar
        for other, speed, text in _beside(name, table):
            if other not in seen:
                seen.add(other)
                waiting.append((other, Expectation(sofar.speed * speed, (*sofar.steps, text))))
    return None


def _beside(name: str, table: Sequence[ExpectedSpeed]) -> Iterator[tuple[str, float, str]]:
    for row in table:
        text = f"{row.device} {row.speed:g} x {row.of} ({row.source}, {row.date})"
        if row.device == name:
            yield row.of, row.speed, text
        elif row.of == name:
            yield row.device, 1 / row.speed, text
