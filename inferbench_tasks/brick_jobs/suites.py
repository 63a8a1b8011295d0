"""Models that are not shown: their unique bricks leave as a suite, and their times come back to where the models are.

What is what stays here, in PerfDB (``brick_suites``): a document for each network of a suite, with the identities of
the bricks that it stands for; a dummy's has none.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from inferbench_tasks.brick_jobs.cutting import ToMeasure
from inferbench_tasks.brick_jobs.machines import SUITE
from inferbench_tasks.brick_jobs.places import Place
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks.measure.levels import level_of
from inferbench_tasks.bricks.measure.session import Session
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.bricks.suite.answer import Answer, measured_at, sessions_of
from inferbench_tasks.bricks.suite.manifest import MOST_FILES, Entry, Wish, file_digest, write_suite
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain, to_stored

SUITES = "brick_suites"
#: References that take so many times what they take there otherwise are of another device than the results claim.
_MOST_LEVEL = 1.5
#: The host that times of a suite are said to be of.
IMPORTED = "an imported suite"


@dataclass
class _Network:
    """One file of the suite. ``of``: what of the owner's it stands for; none for a dummy's."""

    entry: Entry
    network: Path
    inputs: Path
    of: list[ToMeasure]


def write(
    folder: Path,
    own: Iterable[ToMeasure],
    drawn: Iterable[ToMeasure],
    wish: Wish,
    models: Sequence[str],
    db: PerfDB,
) -> dict[str, Any]:
    """Write a suite of the models' bricks and the dummies', and note here what is what; its counts.

    Bricks with the same network and inputs are one. InputError where the folder is not empty, or the suite too large.
    """
    networks: dict[tuple[str, str, Any], _Network] = {}
    for mine, bricks in ((True, own), (False, drawn)):
        for brick in bricks:
            item = brick.item
            content = (file_digest(item.path), file_digest(item.feeds), item.onto)
            if content not in networks:
                entry = Entry(
                    name=secrets.token_hex(8), network=content[0], inputs=content[1], onto=item.onto
                )
                networks[content] = _Network(entry, item.path, item.feeds, [])
            if mine:
                networks[content].of.append(brick)
    if 2 * len(networks) + 1 > MOST_FILES:
        raise InputError(f"{len(networks):,} networks are more than a suite may have; export fewer models")
    shuffled = list(networks.values())
    random.SystemRandom().shuffle(shuffled)
    digest = write_suite(folder, wish, [(one.entry, one.network, one.inputs) for one in shuffled])
    now = db.now()
    documents = [
        {
            "suite": digest, "name": one.entry.name, "identities": [brick.item.name for brick in one.of],
            "key": one.of[0].key if one.of else None, "operators": list(one.of[0].operators) if one.of else [],
            "models": list(models), "created_at": now,
        }
        for one in shuffled
    ]  # fmt: skip
    db.retrying(
        lambda: db.collection(SUITES).insert_many([to_stored(one) for one in documents]),
        "writing a suite's networks",
    )
    own_count = sum(bool(one.of) for one in shuffled)
    return {
        "suite": digest,
        "networks": len(shuffled),
        "own": own_count,
        "dummies": len(shuffled) - own_count,
    }


def taken_in(answer: Answer, db: PerfDB, device: str = "") -> dict[str, Any]:
    """Store a stranger's times of a suite's networks; what was stored.

    InputError, and nothing is stored, for results of a suite that did not leave from here, of other networks than it
    has, another device than ``device`` (part of its name), or of what no session of this method can have given.
    """
    if device.lower() not in answer.setting.processor.lower():
        raise InputError(f"the results are of {answer.setting.processor}, not of {device}", field="device")
    known = {one["name"]: one for one in _networks(db, answer.suite)}
    if not known:
        raise InputError(f"no suite {answer.suite[:12]} was exported from this PerfDB", field="results")
    sessions, at = sessions_of(answer), measured_at(answer)
    timed = {name for session in sessions for name in session.timed}
    if strange := (timed | set(answer.failed)) ^ set(known):
        raise InputError(
            f"the results are not those of the suite's networks: {len(strange)} too many or too few, such as "
            f"{min(strange)}",
            field="results",
        )
    # A host of its own: nobody knows whether it is one of the system's.
    place = Place(f"{SUITE}{answer.sha256[:12]}", IMPORTED)
    results = PerfDBResults(db, answer.setting, place=place)
    here = PerfDBResults(db, answer.setting).base_ns() or sessions[0].base_ns
    for session in sessions:
        level = level_of(session.base_ns, here)
        if not 1 / _MOST_LEVEL <= level <= _MOST_LEVEL:
            raise InputError(
                f"the references took {level:.2f} times what they take on {answer.setting.processor}: these results "
                "are of another device than they claim, or of one beside others' load",
                field="results",
            )
    base = results.set_base_ns(results.base_ns() or sessions[0].base_ns)
    for number, session in enumerate(sessions):
        results.put_references(_session_name(answer, number), session.references_ns, at)
    made = [
        result
        for number, session in enumerate(sessions)
        for result in _results(answer, session.at(base), number, known, at, place)
    ]
    for result in made:
        results.put(result)
    failed = {name: why for name, why in answer.failed.items() if known[name]["identities"]}
    return {
        "suite": answer.suite, "device": answer.setting.processor, "runtime": answer.setting.runtime,
        "threads": answer.setting.threads, "models": known[next(iter(known))]["models"], "stored": len(made),
        "dummies": sum(not one["identities"] for one in known.values()), "failed": failed,
    }  # fmt: skip


def _results(
    answer: Answer,
    session: Session,
    number: int,
    known: Mapping[str, Mapping[str, Any]],
    at: datetime,
    place: Place,
) -> Iterator[Result]:
    """What one session tells of the owner's bricks. A file that is taken in twice is stored once: its session's name is
    of what it says."""
    of = _session_name(answer, number)
    for name, timed in session.timed.items():
        for identity in known[name]["identities"]:
            yield Result(
                identity=identity, key=known[name]["key"], operators=tuple(known[name]["operators"]),
                setting=answer.setting, session=of, home=place.home, host=place.host,
                method=answer.method.method(), measured_at=at,
                rounds_ns={state: tuple(times) for state, times in timed.rounds_ns.items()},
                raw_ns={state: tuple(tuple(each) for each in rounds) for state, rounds in timed.raw_ns.items()},
            )  # fmt: skip


def _session_name(answer: Answer, number: int) -> str:
    return f"{SUITE}{answer.suite[:12]}-{answer.sha256[:12]}/{number}"


def _networks(db: PerfDB, suite: str) -> list[dict[str, Any]]:
    found = db.retrying(
        lambda: list(db.collection(SUITES).find({"suite": suite}, {"_id": 0})), "reading a suite's networks"
    )
    return [dict(to_plain(one)) for one in found]
