"""The host workers get the most urgent tasks, not all of them, and those of each tenant in turn."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.executors.host_slots import (
    DEFAULT_HOST_SLOTS,
    HOST_SLOTS,
    HostSlots,
    HostTask,
)
from inferbench_tasks.provider.weights import BASE, MOST, weight


def tenant_of(run: tuple[str, str]) -> str:
    """The first word of a DAG's id."""
    return run[0].partition(" ")[0]


def task(name: str, run: str, weight: int = BASE) -> HostTask:
    return HostTask(name, (run, "1"), weight)


def sent(slots: HostSlots, tasks: Iterable[HostTask], most: int = 99) -> list[str]:
    return list(slots.take(list(tasks), tenant_of, most))


def one_by_one(slots: HostSlots, tasks: list[HostTask]) -> list[str]:
    """The order in which they are sent, where each ends before the next is."""
    order: list[str] = []
    while tasks:
        slots.ended(set())
        (key,) = sent(slots, tasks, most=1)
        order.append(key)
        tasks = [task for task in tasks if task.key != key]
    return order


def test_no_more_than_its_slots() -> None:
    """What does not fit waits until something that was sent has ended."""
    slots = HostSlots()
    keys = [f"t{number}" for number in range(DEFAULT_HOST_SLOTS)]
    assert sent(slots, (task(key, "ann") for key in keys)) == keys
    assert sent(slots, [task("late", "ann")]) == []
    slots.ended(set(keys[1:]))
    assert sent(slots, [task("late", "ann"), task("later", "ann")]) == ["late"]


def test_no_more_than_airflow_allows() -> None:
    """What it does not send takes no slot."""
    slots = HostSlots()
    tasks = [task(f"t{number}", "ann") for number in range(3)]
    assert sent(slots, tasks, most=1) == ["t0"]
    assert sent(slots, tasks[1:], most=0) == [] and sent(slots, tasks[1:], most=-1) == []
    assert sent(slots, tasks[1:]) == ["t1", "t2"]


def test_as_many_as_the_team_has_workers_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is a setting; what is none of it is refused with its name."""
    monkeypatch.setenv(HOST_SLOTS, "1")
    slots = HostSlots()
    assert sent(slots, [task("a", "ann"), task("b", "ann")]) == ["a"]
    for text in ("0", "-1", "many"):
        monkeypatch.setenv(HOST_SLOTS, text)
        with pytest.raises(InputError, match=HOST_SLOTS):
            HostSlots()


def test_tenants_take_turns() -> None:
    """Whoever came second waits for one task of the first, however many there are and however short they are."""
    first = [task(f"a{number}", f"ann {number}", weight(0, 1.0)) for number in range(4)]
    second = [task(f"b{number}", f"bob {number}", weight(0, 500.0)) for number in range(2)]
    assert one_by_one(HostSlots(), [*first, *second]) == ["a0", "b0", "a1", "b1", "a2", "a3"]


def test_slots_are_shared_among_those_who_wait() -> None:
    """Of four slots two tenants get two each; one that is alone gets all."""
    tasks = [task(f"{name}{number}", f"{name} {number}") for name in ("ann", "bob") for number in range(9)]
    assert sorted(sent(HostSlots(), tasks)) == ["ann0", "ann1", "bob0", "bob1"]
    assert sent(HostSlots(), tasks[:9]) == ["ann0", "ann1", "ann2", "ann3"]


def test_who_holds_slots_comes_after_who_holds_none() -> None:
    """Also where the others' tasks have just been sent and the next slot is free."""
    slots = HostSlots()
    assert sent(slots, [task(f"a{number}", f"ann {number}") for number in range(9)]) == [
        "a0",
        "a1",
        "a2",
        "a3",
    ]
    tasks = [
        *(task(f"a{number}", f"ann {number}") for number in range(4, 9)),
        task("b", "bob"),
        task("c", "carl"),
    ]
    slots.ended({"a1", "a2"})
    assert sent(slots, tasks) == ["b", "c"]


def test_priority_comes_before_turns() -> None:
    """Priority counts as far as a role goes, and is known before this; the expected length counts within a tenant."""
    tasks = [
        task("a", "ann", weight(0, 30.0)), task("a short", "ann 2", weight(0, 3.0)), task("b", "bob", weight(0, 9.0)),
        task("urgent 1", "op 1", weight(1, 999_999.0)), task("urgent 2", "op 2", weight(1, 0.0)),
        task("some day", "carl", weight(-1, 0.0)),
    ]  # fmt: skip
    order = one_by_one(HostSlots(), tasks)
    assert order == ["urgent 2", "urgent 1", "a short", "b", "a", "some day"]


def test_a_validation_comes_first_but_not_a_hundred_of_them() -> None:
    """Somebody waits for it: one of each tenant goes before all other tasks, those behind it in turns."""
    slots = HostSlots()
    flood = [task(f"v{number}", f"ann {number}", MOST) for number in range(99)]
    others = [task("analyze", "bob", weight(5, 1.0)), task("validate", "carl", MOST)]
    assert sent(slots, [*flood, *others]) == ["v0", "validate", "analyze", "v1"]


def test_runs_of_one_tenant_end_one_after_the_other() -> None:
    """What a run needs next goes before the first task of runs that came later."""
    slots = HostSlots()
    runs = [task(f"generate {number}", f"ann {number}") for number in range(3)]
    assert sent(slots, runs, most=1) == ["generate 0"]
    slots.ended(set())
    # For a moment nothing of the first run waited.
    assert sent(slots, runs[1:], most=0) == []
    assert sent(slots, [*runs[1:], task("convert 0", "ann 0")], most=1) == ["convert 0"]


def waits_s(stages_s: tuple[float, ...], flood: int, begin_s: float) -> float:
    """How long bob's run of these stages takes, asked for at ``begin_s``, with two processes, 0.5 s between two rounds.

    ann's ``flood`` runs of a validation of 3 s and the same stages came at 0.
    """
    slots = HostSlots()
    waiting = [task(f"ann {number}/0", f"ann {number}", MOST) for number in range(flood)]
    lengths_s = (3.0, *stages_s)
    queue: list[str] = []
    running: list[tuple[float, str]] = []
    now_s = 0.0
    while True:
        while running and running[0][0] <= now_s:
            run, _, stage = heapq.heappop(running)[1].rpartition("/")
            if (following := int(stage) + 1) < len(lengths_s):
                waiting.append(task(f"{run}/{following}", run, weight(0, 2.0)))
            elif run == "bob":
                return now_s - begin_s
        if now_s == begin_s:
            waiting.append(task("bob/0", "bob", MOST))
        slots.ended({*queue, *(key for _, key in running)})
        keys = sent(slots, waiting)
        waiting = [one for one in waiting if one.key not in keys]
        queue += keys
        while queue and len(running) < 2:
            key = queue.pop(0)
            heapq.heappush(running, (now_s + lengths_s[int(key.rpartition("/")[2])], key))
        now_s += 0.5


def test_a_flood_of_submissions_delays_nobody_by_minutes() -> None:
    """In a simulation of 300 submissions (each 3 s of validation, 6, 4 and 2 s of work, 37 minutes together) one of
    somebody else takes at most three times as long as alone, whenever it comes."""
    stages_s = (6.0, 4.0, 2.0)
    alone_s = waits_s(stages_s, 0, 0.0)
    assert alone_s == 15.0
    for begin_s in (0.5, 60.0, 600.0):
        assert waits_s(stages_s, 300, begin_s) <= 3 * alone_s
