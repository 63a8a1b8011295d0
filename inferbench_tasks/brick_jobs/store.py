"""Bricks' times in PerfDB: written once, found by setting and identity; the same protocol as the files' store.

``brick_levels`` has one document for each setting and host, with the references' times that all times of that host are
relative to; ``brick_references`` one for each session that counted, with these as they were then; ``brick_results`` one
for each session that measured a brick or a whole model. Of several hosts of one setting each time says whose it is
(``home``, ``host``), and is relative to its own host's level: two hosts of one processor differ in clocks and memory,
and no reference tells what one would take on the other. A host is a machine, of one data directory or of several
(``machines.py``). How models are cut: ``decompositions.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from pymongo.client_session import ClientSession

from inferbench_tasks.brick_jobs import levels, machines
from inferbench_tasks.brick_jobs.chosen import Wanted, aware, chosen
from inferbench_tasks.brick_jobs.cutting import ToMeasure
from inferbench_tasks.brick_jobs.decompositions import Decompositions
from inferbench_tasks.brick_jobs.levels import Level, Levels
from inferbench_tasks.brick_jobs.machines import LEVELS as LEVELS
from inferbench_tasks.brick_jobs.machines import REFERENCES as REFERENCES
from inferbench_tasks.brick_jobs.machines import RESULTS as RESULTS
from inferbench_tasks.brick_jobs.machines import Machines
from inferbench_tasks.brick_jobs.places import Place, leading_place
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.measure.session import Session, Timed
from inferbench_tasks.bricks.results import WHOLE, Result, setting_id
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.under_lease import HeldLease
from inferbench_tasks.perfdb.values import to_plain, to_stored


def session_name(run_id: str, attempt: int | str) -> str:
    """What the results of an attempt at a shard say that they are of."""
    return f"{run_id}/{attempt}"


#: So many identities are asked for at once.
_AT_ONCE = 5_000
#: What tells which of several times is used.
_TOLD = {"identity": 1, "method": 1, "measured_at": 1, "home": 1}


class PerfDBResults(Decompositions):
    """Those of one setting. ``lease``: what a stage measures under; once that is lost, what a session measured is not
    written, and LeaseLostError is raised. ``place``: the host whose times come before others', and whose level it is;
    who only reads leaves it out: the leader then.
    """

    def __init__(
        self, db: PerfDB, setting: Setting, lease: HeldLease | None = None, place: Place | None = None
    ) -> None:
        super().__init__(db, setting)
        self._id, self._lease, self._given = setting_id(setting), lease, place
        self.place = place or Place()
        #: The level that what is put is told at; None until one was asked for.
        self._at: str | None = None
        self._levels_read: Levels | None = None

    @cached_property
    def own(self) -> Place | None:
        """Whose times come first; None where nobody ever led, and all are of one host."""
        return self._given or leading_place(self._db)

    @cached_property
    def _machines(self) -> Machines:
        return machines.read(self._db)

    def _levels(self, level: str | None) -> Levels:
        """With that level, which may be of a moment ago."""
        if self._levels_read is None or not self._levels_read.has(level):
            self._levels_read = levels.read(self._db, self._id, self._machines)
        return self._levels_read

    @property
    def _level_id(self) -> str:
        return f"{self._id}/{self.place.home}" if self.place.home else self._id

    def now(self) -> datetime:
        """By PerfDB's clock, of which the moments of what is stored are."""
        return self._db.now()

    def base_ns(self) -> dict[str, float] | None:
        """The base of this host's level; None before its first session. Without a host the leader's, else the first."""
        self._levels_read = None
        level = self._level(self._levels(None))
        self._at = level.id if level else None
        return dict(level.references_ns) if level else None

    def _level(self, known: Levels) -> Level | None:
        if self._given is not None or len(known.all) > 1:
            own = self.own
            level = known.of(self._machines.of(own.home)) if own else None
            if level is not None or self._given is not None:
                return level
        return next(iter(known.all), None)

    def set_base_ns(self, base_ns: dict[str, float], at: datetime | None = None) -> dict[str, float]:
        """Set it unless it is set; the one that counts."""
        if (there := self.base_ns()) is not None:
            return there
        values = {"setting": self.setting, "references_ns": base_ns, "created_at": at or self._db.now()}
        values |= {"setting_id": self._id, **self._whose()}

        def insert() -> None:
            self._db.collection(LEVELS).update_one(
                {"_id": self._level_id}, {"$setOnInsert": to_stored(values)}, upsert=True
            )

        self._db.retrying(insert, "writing bricks' level")
        return self.base_ns() or base_ns

    def _whose(self) -> dict[str, str]:
        return {"home": self.place.home, "host": self.place.host}

    def at_base(self, session: Session, name: str, at: datetime | None = None) -> Session:
        """A session that counts, at this host's base; what its references took is kept under its name. ``at``: when
        it was measured.

        That is written under the lease: all of the session was measured while it was held, and its base may count.
        """
        self.put_references(name, session.references_ns, at)
        return session.at(self.set_base_ns(session.base_ns, at))

    def put_references(
        self, session: str, references_ns: Mapping[str, float], measured_at: datetime | None = None
    ) -> None:
        """Keep what the references took in a session, once."""
        where = {"setting_id": self._id, "session": session}
        values = {"references_ns": dict(references_ns), "measured_at": measured_at or self._db.now()}
        values |= self._whose()

        def insert(within: ClientSession | None) -> None:
            self._db.collection(REFERENCES).update_one(
                where, {"$setOnInsert": to_stored(values)}, upsert=True, session=within
            )

        self._db.write_once(insert, "writing a session's references", self._lease)

    def get(self, identity: str, wanted: Wanted | None = None) -> Result | None:
        """The one of a brick, or of a whole model, that ``chosen`` chooses, with its raw times."""
        where = {"setting_id": self._id, "identity": identity, "usable": True}

        def found() -> dict[str, Any] | None:
            there = self._db.collection(RESULTS)
            one = self._chosen(list(there.find(where, _TOLD).sort("measured_at", 1)), wanted).get(identity)
            return there.find_one({"_id": one["_id"]}) if one else None

        one = self._db.retrying(found, "reading a brick's result")
        return self._results([one]).get(identity) if one else None

    def get_many(self, identities: Iterable[str], wanted: Wanted | None = None) -> dict[str, Result]:
        """The one of each that ``chosen`` chooses, of those that there are; without raw times."""
        return self._results(self._chosen(self._among(identities, {"usable": True}), wanted).values())

    def _chosen(
        self, found: list[dict[str, Any]], wanted: Wanted | None = None
    ) -> dict[str, Mapping[str, Any]]:
        """Those of which nobody knows the host may be of a worker that goes on measuring: they are nobody's own."""
        own = self.own if any(map(self._machine_of, found)) else None
        return chosen(found, self._machine_of, self._machines.of(own.home) if own else None, wanted)

    def _machine_of(self, document: Mapping[str, Any]) -> str:
        return self._machines.of(self._machines.home_of(document, self._id))

    def usable(self, wanted: Wanted) -> set[str]:
        """The identities with a time that may be used again; ``get_many`` has it for who wants the same."""
        where = {"setting_id": self._id, "usable": True}
        found = self._db.retrying(
            lambda: list(self._db.collection(RESULTS).find(where, _TOLD).sort("measured_at", 1)),
            "reading bricks' results",
        )
        return {identity for identity, one in self._chosen(found, wanted).items() if wanted.allows(one)}

    def of_runs(self, run_ids: Iterable[str], identities: Iterable[str]) -> dict[str, Result]:
        """What the sessions of these runs measured, disturbed or not; see ``session_name``."""
        starts = "|".join(re.escape(session_name(run_id, "")) for run_id in run_ids)
        return self._results(
            self._among(identities, {"session": {"$regex": f"^({starts})"}}) if starts else []
        )

    def _among(self, identities: Iterable[str], more: Mapping[str, Any]) -> list[dict[str, Any]]:
        wanted = list(dict.fromkeys(identities))
        found: list[dict[str, Any]] = []
        for start in range(0, len(wanted), _AT_ONCE):
            where = {"setting_id": self._id, "identity": {"$in": wanted[start : start + _AT_ONCE]}}
            found += self._find({**where, **more})
        return found

    def put(self, result: Result) -> None:
        """Write it once: the same brick of the same session stays as it is. A whole model's cuts are added."""
        values = to_stored(result.model_dump(exclude={"parts", "needs", "from_hosts"}))
        values |= {"setting_id": self._id, "whole": result.identity.startswith(WHOLE)}
        values["usable"] = result.disturbed is None
        if self._at is not None:
            values["level"] = self._at
        if "measured_at" not in result.model_fields_set:  # a moment ago, by a clock that may be wrong
            values["measured_at"] = self._db.now()

        def insert(within: ClientSession | None) -> None:
            self._db.collection(RESULTS).insert_one(dict(values), session=within)

        self._db.write_once(insert, "writing a brick's result", self._lease)
        for granularity, parts in result.parts.items():
            self.put_cut(result.identity, granularity, parts, result.needs[granularity], {})

    def whole_names(self) -> list[str]:
        """The identities of whole models that were measured at this setting."""
        where = {"usable": True, "setting_id": self._id, "whole": True}
        return self._db.retrying(
            lambda: self._db.collection(RESULTS).distinct("identity", where), "reading models' results"
        )

    def wholes(self) -> list[Result]:
        """Whole models that were measured at this setting."""
        found = self._find({"setting_id": self._id, "whole": True, "usable": True})
        return list(self._results(self._chosen(found).values()).values())

    def _find(self, where: Mapping[str, Any]) -> list[dict[str, Any]]:
        return self._db.retrying(
            lambda: list(self._db.collection(RESULTS).find(where, {"raw_ns": 0}).sort("measured_at", 1)),
            "reading bricks' results",
        )

    def _results(self, found: Iterable[Mapping[str, Any]]) -> dict[str, Result]:
        """By identity, the last of each; whole models with their cuts."""
        newest = {document["identity"]: document for document in found}
        cuts = self._cuts_by_whole([identity for identity in newest if identity.startswith(WHOLE)])
        return {identity: self._result(one, cuts.get(identity, {})) for identity, one in newest.items()}

    def _result(self, document: Mapping[str, Any], cuts: Mapping[str, Any]) -> Result:
        """As it is stored, but that it names its host where that is known, and is at its machine's level."""
        plain = {
            name: value for name, value in to_plain(dict(document)).items() if name in Result.model_fields
        }
        plain["measured_at"] = aware(plain["measured_at"])
        plain["home"] = self._machines.home_of(document, self._id)
        plain["host"] = self._machines.host_of(document, self._id)
        apart = self._levels(document.get("level")).apart(document)
        if apart != 1:
            plain["rounds_ns"] = {
                state: [ns / apart for ns in times] for state, times in plain["rounds_ns"].items()
            }
        return Result.model_validate({"raw_ns": {}, **plain, **cuts})


def result_of(
    one: ToMeasure,
    timed: Timed,
    setting: Setting,
    method: Method,
    session: str,
    disturbed: str | None,
    at: datetime,
    place: Place,
) -> Result:
    """What a session measured of a network; ``at``: when, of all that it measured; ``place``: and where."""
    return Result(
        identity=one.item.name, key=one.key, operators=one.operators, setting=setting, session=session, method=method,
        measured_at=at, rounds_ns={state: tuple(times) for state, times in timed.rounds_ns.items()},
        raw_ns={state: tuple(tuple(each) for each in rounds) for state, rounds in timed.raw_ns.items()},
        disturbed=disturbed, home=place.home, host=place.host,
    )  # fmt: skip
