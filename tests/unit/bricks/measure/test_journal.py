"""A session that is killed goes on where it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.bricks.measure.child import Item, Plan
from inferbench_tasks.bricks.measure.journal import MOST_AGE_S, Journal, OpenRound, session_file
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.measure.references import NAMES, write_references

SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
LEVEL = dict.fromkeys(NAMES, 1e5)


def write(path: Path, *lines: dict[str, object]) -> Journal:
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return Journal(path)


def whole_round(ns: int) -> list[dict[str, object]]:
    times = {"warm": [ns] * 5, "streamed": [2 * ns] * 5}
    count = {"waited_ns": 0, "took_ns": 100}
    return [{"before": LEVEL}, {"item": "a", "times": times, **count}, {"after": LEVEL, **count}]


def test_rounds_that_ended_and_the_one_under_way_are_read(tmp_path: Path) -> None:
    """At the mean of the references before and after, with the wait of the whole round."""
    twice = {name: 2 * ns for name, ns in LEVEL.items()}
    read = write(
        tmp_path / "j", {"before": LEVEL}, {"item": "a", "times": 1, "item_ns": 8, "waited_ns": 1, "took_ns": 10},
        {"after": twice, "waited_ns": 5, "stolen_ns": 10, "took_ns": 100}, {"before": LEVEL},
        {"item": "b", "times": 2, "waited_ns": 0, "took_ns": 7},
    )  # fmt: skip
    [(ended, times)] = read.rounds
    assert times == {"a": 1} and ended.taken_ns == {"a": 8}
    assert (ended.wait_ratio, ended.steal_ratio) == (0.05, 0.1)
    assert ended.references_ns == {name: 1.5 * ns for name, ns in LEVEL.items()}
    assert read.open is not None and read.open.times == {"b": 2} and read.open.took_ns == 7


def test_a_line_that_was_cut_off_is_none_and_makes_room(tmp_path: Path) -> None:
    """Killed while it wrote: the next line is whole again."""
    path = tmp_path / "j"
    write(path, {"before": LEVEL}, {"item": "a", "times": 1, "took_ns": 1, "waited_ns": 0})
    with path.open("a") as file:
        file.write('{"item": "b", "ti')
    Journal(path).write(item="c", times=3, took_ns=2, waited_ns=0)
    again = Journal(path)
    assert again.open is not None and again.open.times == {"a": 1, "c": 3}


def test_a_round_goes_on_only_at_its_own_level() -> None:
    """Its halves must have a level in common: 3%, as between rounds."""
    begun = OpenRound([LEVEL])
    assert begun.near({name: 1.02 * ns for name, ns in LEVEL.items()})
    assert not begun.near({name: 1.04 * ns for name, ns in LEVEL.items()})
    assert not begun.near({name: 0.9 * ns for name, ns in LEVEL.items()})


def test_a_session_times_only_what_its_journal_lacks(tmp_path: Path) -> None:
    """With all rounds there it times nothing, and answers with what was timed before it was killed."""
    path = tmp_path / "j"
    write(path, *whole_round(1000), *whole_round(1010), *whole_round(1020))
    before = path.read_bytes()
    rounds = session(path, tmp_path, "a")
    assert [one["times"]["a"]["warm"][0] for one in rounds] == [1000, 1010, 1020]
    assert all(one["good"] for one in rounds) and path.read_bytes() == before


def session(path: Path, folder: Path, *names: str) -> list[dict[str, Any]]:
    """The rounds of a process that times such networks in three rounds, or goes on with what the journal has."""
    network, feeds = write_references(folder)["element-wise"]
    plan = Plan(
        items=[Item(name=name, path=network, feeds=feeds) for name in names],
        cores=sorted(os.sched_getaffinity(0))[-1:], threads=1, method=Method(runs=15, rounds=3, budget_s=0.1),
        sweep_bytes=1 << 20, folder=folder, seed=1, journal=path, attempt="now",
    )  # fmt: skip
    (folder / "plan.json").write_text(plan.model_dump_json())
    command = [sys.executable, "-m", "inferbench_tasks.bricks.measure.child", str(folder / "plan.json")]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[-1]
    return list(json.loads(answer)["rounds"])


def test_a_network_that_failed_costs_the_others_no_round(tmp_path: Path) -> None:
    """b ended its process after three rounds with it: a has its times of all three, and b none."""
    rounds = [
        {**line, "item": name} if "item" in line else line
        for ns in (1000, 1010, 1020)
        for line, name in zip([*whole_round(ns)[:2], *whole_round(ns)[1:]], ["", "a", "b", ""], strict=True)
    ]
    write(tmp_path / "j", *rounds)
    assert [one["times"].keys() for one in session(tmp_path / "j", tmp_path, "a")] == [{"a"}] * 3


def test_rounds_that_do_not_count_are_measured_anew() -> None:
    """Three quiet rounds among two that waited for a core, one that was slower, and one that lacks a network: who goes
    on has three, and its own six more to spare."""
    journal = Journal(None)
    busy = [{**line, "waited_ns": 5} if "waited_ns" in line else line for line in whole_round(1000)]
    twice = dict.fromkeys(NAMES, 2e5)
    slow = [
        {name: twice if name in ("before", "after") else value for name, value in line.items()}
        for line in whole_round(2000)
    ]
    other = [{**line, "item": "z"} if "item" in line else line for line in whole_round(1000)]
    for line in [*busy, *whole_round(1), *slow, *whole_round(2), *other, *busy, *whole_round(3)]:
        journal._take(line)
    assert len(journal.rounds) == 7
    assert [times["a"]["warm"][0] for _, times in journal.usable(["a"])] == [1, 2, 3]
    assert journal.usable(["a", "z"]) == []


def test_a_round_that_was_disturbed_before_it_was_ended_does_not_go_on() -> None:
    """1% of its time without a core, or 5% of its cores', as of a round that ended; nothing is known where the kernel
    does not tell. In twice the time it may be half."""
    assert OpenRound([LEVEL], waited_ns=1, took_ns=100).may_count()
    assert not OpenRound([LEVEL], waited_ns=2, took_ns=100).may_count()
    assert OpenRound([LEVEL], waited_ns=2, took_ns=100).may_count(took_ns=200)
    assert not OpenRound([LEVEL], waited_ns=2, took_ns=100).may_count(took_ns=50)
    assert OpenRound([LEVEL], waited_ns=None, stolen_ns=4, took_ns=100).may_count()
    assert not OpenRound([LEVEL], waited_ns=None, stolen_ns=5, took_ns=100).may_count()
    assert OpenRound([LEVEL], waited_ns=None, stolen_ns=None, took_ns=100).may_count()
    assert OpenRound([LEVEL]).may_count()


def test_what_another_attempt_measured_is_told(tmp_path: Path) -> None:
    """A whole round of it and 60 of 100 ns of another; what this one measured itself is none of that, in whatever
    process."""
    first, second, third = (whole_round(ns) for ns in (1000, 1010, 1020))
    first[0]["by"] = second[0]["by"] = "then"
    third[0]["by"] = "now"
    second[1]["took_ns"] = 60
    again = {"again": LEVEL, "by": "now", "waited_ns": 0, "took_ns": 60}
    write(tmp_path / "j", *first, *second[:2], again, *second[2:], *third)
    read = Journal(tmp_path / "j", "now")
    assert [one.earlier_ns for one, _ in read.rounds] == [100, 60, 0]
    assert [one["earlier_ns"] for one in session(tmp_path / "j", tmp_path, "a")] == [100, 60, 0]


def test_a_round_of_more_than_a_day_ago_is_none(tmp_path: Path) -> None:
    """Though the file was written to since."""
    old, young = whole_round(1000), whole_round(1010)
    old[0]["at"], young[0]["at"] = time.time() - MOST_AGE_S - 1, time.time()
    read = write(tmp_path / "j", *old, *young, {"before": LEVEL, "at": 0.0}, young[1])
    assert [times["a"]["warm"][0] for _, times in read.rounds] == [1010] and read.open is None


def test_one_session_has_the_journal(tmp_path: Path) -> None:
    """Another of the same networks at the same time has none; other networks, settings or methods have their own."""
    method = Method()
    with session_file(tmp_path, ["a", "b"], SETTING, method) as first:
        assert first is not None
        with session_file(tmp_path, ["b", "a"], SETTING, method) as second:
            assert second is None
        with session_file(tmp_path, ["a"], SETTING, method) as other:
            assert other not in (None, first)
    with session_file(tmp_path, ["b", "a"], SETTING, method) as again:
        assert again == first
    with session_file(tmp_path, ["b", "a"], SETTING, method, "run-1") as own:
        assert own not in (None, first)


def test_an_old_journal_is_dropped(tmp_path: Path) -> None:
    """Nobody knows what became of the machine since; also one that nobody asks for again."""
    with session_file(tmp_path, ["a"], SETTING, Method()) as path:
        assert path is not None
    old = time.time() - MOST_AGE_S - 1
    for each in (path, tmp_path / "other.jsonl"):
        each.write_text("{}\n")
        os.utime(each, (old, old))
    (tmp_path / "young.jsonl").write_text("{}\n")
    with session_file(tmp_path, ["a"], SETTING, Method()) as path:
        assert path is not None and not path.exists()
    assert [each.name for each in tmp_path.glob("*.jsonl")] == ["young.jsonl"]


@pytest.mark.parametrize("text", ["", "\n", "no json\n", '{"item": "a", "times": 1}\n'])
def test_a_file_that_is_none_has_nothing(tmp_path: Path, text: str) -> None:
    """An empty one, a broken one, one without a beginning."""
    (tmp_path / "j").write_text(text)
    read = Journal(tmp_path / "j")
    assert read.rounds == [] and read.open is None
    assert Journal(None).rounds == []
