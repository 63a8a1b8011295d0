"""The times of a suite: sealed, read again, and refused where they can't be what they claim."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.bricks.measure.method import VERSION, Setting
from inferbench_tasks.bricks.measure.references import NAMES
from inferbench_tasks.bricks.suite.answer import Answer, measured_at, read_answer, rounds_of, sessions_of
from inferbench_tasks.bricks.suite.manifest import Wish, canonical, digest_of
from inferbench_tasks.errors import InputError

SETTING = Setting(processor="p", instruction_set="x86_64", cores=1, threads=1, runtime="onnxruntime 1")
NAME = "00112233445566aa"


def answer(ns: int = 1000, level: float = 1.0) -> Answer:
    """One network, three rounds of five runs; the second round is of another level."""
    rounds: list[Any] = [
        {
            "references_ns": dict.fromkeys(NAMES, 100.0 * (level if at == 1 else 1)),
            "wait_ratio": 0.0,
            "times": {NAME: {"warm": [ns] * 5, "streamed": [2 * ns] * 5}},
        }
        for at in range(3)
    ]
    return Answer(
        suite="a" * 64, setting=SETTING, method=Wish(runs=15, rounds=3, budget_s=2.0),
        measured_at="2026-01-01T00:00:00+00:00", sessions=(rounds_of(rounds),),
    ).sealed()  # fmt: skip


def test_times_are_judged_anew_at_their_rounds_levels(tmp_path: Path) -> None:
    """1 us in each round, the second of a machine 2% slower: there it counts 1 / 1.02 us."""
    path = tmp_path / "r.json"
    path.write_bytes(canonical(answer(1000, 1.02)))
    [session] = sessions_of(read_answer(path))
    assert session.timed[NAME].rounds_ns["warm"] == pytest.approx([1000, 1000 / 1.02, 1000])
    assert session.timed[NAME].rounds_ns["streamed"] == pytest.approx([2000, 2000 / 1.02, 2000])


def test_what_the_hypervisor_took_is_in_the_file_where_it_is_known(tmp_path: Path) -> None:
    """4% of each round: the times count. Files of before have no such field, and are read as they were."""
    path = tmp_path / "r.json"
    path.write_bytes(changed(lambda d: [one.update(steal_ratio=0.04) for one in d["sessions"][0]]))
    [session] = sessions_of(read_answer(path))
    assert session.quiet and session.steal_ratios == (0.04, 0.04, 0.04)
    assert b"steal_ratio" not in canonical(answer())


def test_each_changed_byte_is_seen(tmp_path: Path) -> None:
    """Wherever it is, also where the file says the same afterwards."""
    text = canonical(answer())
    path = tmp_path / "r.json"
    for at in range(0, len(text), 7):
        path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        with pytest.raises(InputError):
            read_answer(path)
    path.write_bytes(text.replace(b",", b", ", 1))
    with pytest.raises(InputError, match="was changed"):
        read_answer(path)


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """By somebody who knows how to seal it again."""
    document = json.loads(canonical(answer()))
    change(document)
    document["sha256"] = ""
    bare = json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    document["sha256"] = digest_of(bare)
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def times(document: dict[str, Any], at: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = document["sessions"][0][at]["times"][NAME]
    return found


LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "negative": lambda d: times(d).update(warm=[-1] * 5),
    "zero": lambda d: times(d).update(warm=[0] * 5),
    "NaN": lambda d: times(d).update(warm=[math.nan] * 5),
    "a level that is NaN": lambda d: d["sessions"][0][0]["references_ns"].update({NAMES[0]: math.nan}),
    "a level of zero": lambda d: d["sessions"][0][0]["references_ns"].update({NAMES[0]: 0.0}),
    "no number": lambda d: times(d).update(warm=["1"] * 5),
    "too many runs": lambda d: times(d).update(warm=[1000] * 6),
    "too few runs": lambda d: times(d).update(warm=[1000] * 4),
    "a state too few": lambda d: times(d).pop("streamed"),
    "a network in one round only": lambda d: d["sessions"][0][0]["times"].update({"b" * 16: times(d)}),
    "two rounds": lambda d: d["sessions"][0].pop(),
    "a round of a machine that others had": lambda d: d["sessions"][0][0].update(steal_ratio=0.05),
    "steal that is not known, in another spelling": lambda d: d["sessions"][0][0].update(steal_ratio=None),
    "a round that waited": lambda d: d["sessions"][0][0].update(wait_ratio=0.5),
    "rounds of two levels": lambda d: d["sessions"][0][0].update(references_ns=dict.fromkeys(NAMES, 130.0)),
    "other references": lambda d: d["sessions"][0][0].update(references_ns={"a": 1.0}),
    "another method": lambda d: d["setting"].update(version=VERSION + 1),
    "another runtime": lambda d: d["setting"].update(runtime="openvino 1"),
    "a runtime without a version": lambda d: d["setting"].update(runtime="onnxruntime"),
    "no device": lambda d: d["setting"].update(processor=""),
    "a page for a name": lambda d: d["setting"].update(processor="x" * 201),
    "a name that a terminal obeys": lambda d: d["setting"].update(runtime="onnxruntime 1\x1b[2J"),
    "more cores than a database counts": lambda d: d["setting"].update(cores=10**30),
    "threads without cores": lambda d: d["setting"].update(threads=2),
    "a field of its own": lambda d: d.update(run="rm"),
    "a field of its own, deeper": lambda d: d["setting"].update(run="rm"),
    "a name that climbs": lambda d: d["failed"].update({"../../etc/passwd": "no"}),
    "a network twice": lambda d: d["sessions"].append(d["sessions"][0]),
    "a moment to come": lambda d: d.update(measured_at="2999-01-01T00:00:00+00:00"),
    "no moment": lambda d: d.update(measured_at="yesterday"),
    "another format": lambda d: d.update(format_version=2),
}


def taken(path: Path) -> None:
    read = read_answer(path)
    sessions_of(read)
    measured_at(read)


@pytest.mark.parametrize("name", LIES)
def test_what_no_session_gives_is_refused(name: str, tmp_path: Path) -> None:
    """Also where its digest is right: InputError, before anything of it is used."""
    path = tmp_path / "r.json"
    path.write_bytes(changed(LIES[name]))
    with pytest.raises(InputError):
        taken(path)


def test_the_unchanged_one_is_taken(tmp_path: Path) -> None:
    """So it is the change that is refused above."""
    path = tmp_path / "r.json"
    path.write_bytes(changed(lambda document: None))
    read = read_answer(path)
    assert len(sessions_of(read)) == 1 and measured_at(read).year == 2026
