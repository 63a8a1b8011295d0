"""The valid results' settings and figures, held by this process: what questions about all results are answered from.

Reading 100,000 documents takes MongoDB seconds; here they are read once, from indexes that have all that is held,
and then MongoDB's change stream tells what was written or deleted since, by whomever. Each answer is of what PerfDB
holds at that moment. What is not held (a path below an open field) is asked of PerfDB, slower.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from itertools import chain
from operator import itemgetter
from typing import Any
from weakref import WeakKeyDictionary, proxy

from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from inferbench_tasks.dotted import outermost, value_at
from inferbench_tasks.perfdb.fields import Field
from inferbench_tasks.perfdb.held_changes import Changes
from inferbench_tasks.perfdb.held_columns import CONFIGURATION, LOAD, Columns, Mask, Matching
from inferbench_tasks.perfdb.held_columns import Row as Row
from inferbench_tasks.perfdb.indexes import held_indexes, held_paths
from inferbench_tasks.perfdb.newest_first import place_of, within
from inferbench_tasks.perfdb.offered import BETWEEN_HOSTS, offered
from inferbench_tasks.perfdb.queries import holds
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

VALID = {"verdict": "valid"}
_CONFIGURATION = ("submission.digest", "device.name", "device.cores", "load.network")
_LOAD = ("batch_size", "arrivals", "network", "expect", "duration_s")
#: What the first index begins with.
_CREATED, _RUN, _ATTEMPT = range(3)
_BATCH = 5000
#: Of no more results than this a path that is not held is asked by their names.
_FEW = 1000
#: So many such paths are kept, those that were read last: anybody may name any.
_MOST_ASKED = 8
#: So many results are here to stay: Python's collector, which stops everything, need not look through them each time.
_MANY = 5000
#: Of so many kinds others keep what they made of results.
_MOST_KINDS = 40
#: Of more new results than this at once the arrays are made anew: each would be put in its place in each of them.
_AT_ONCE = 30
_created = itemgetter(_CREATED)
#: Which results there are: the shortest of the indexes that name each valid one.
_NAMES = "held_software"


def identity(row: Row) -> tuple[str, int]:
    """Run and attempt: which result it is."""
    return row[_RUN], row[_ATTEMPT]


def configuration(row: Row) -> str:
    """The same for results of the same job on as many cores of the same device, between the same hosts."""
    key: str = row[CONFIGURATION]
    return key


def load_of(row: Row) -> str:
    """The load that the run was offered, in words: equal for equal loads."""
    load: str = row[LOAD]
    return load


def configuration_of(
    digest: str | None, run_id: str, device: str | None, cores: float | None, network: str | None = None
) -> str:
    """The key of a configuration; it begins with the job's digest. A run without one is a configuration of its own.

    ``network``: of its load; it counts where it lies between hosts, of which the digest does not tell.
    """
    hosts = f", {network}" if network and network.startswith(BETWEEN_HOSTS) else ""
    return f"{digest or run_id} {device}" + (f", {cores:g} cores" if cores else "") + hosts


class Held:
    """Use ``held``. Safe in several threads."""

    def __init__(self, db: PerfDB) -> None:
        # Weakly: ``_held`` keeps this as long as the PerfDB lives.
        self._db: PerfDB = proxy(db)
        self._lock = threading.Lock()
        self._at = {path: index for index, path in enumerate(held_paths())}
        self._rows: dict[tuple[str, int], Row] = {}
        self._columns: Columns | None = None
        #: Paths that are not held, once they were asked for: each result's value, None where it lacks it.
        self._asked: dict[str, dict[tuple[str, int], Any]] = {}
        #: What was made of these results by others, by its kind; that which was asked for last stands last.
        self._kept: dict[Hashable, dict[Any, Any]] = {}
        self._changes: Changes | None = None

    def rows(self, filter: Mapping[str, Any] | None = None) -> Matching:
        """The valid results that match a filter (as ``queries.parse`` makes them), newest first."""
        with self._lock:
            try:
                if not self._follow():
                    self._db.retrying(self._load, "reading all results")
            except BaseException:
                self._stop_following()  # what was told or read is taken in by halves: the next has all read again
                raise
            if self._columns is None:
                # Two sorts, for one goes down and the other up.
                by_name = sorted(self._rows.values(), key=identity)
                self._columns = Columns(sorted(by_name, key=_created, reverse=True))
            matching = Matching(self._columns, self._at)
        for path, condition in _conditions(filter or {}):
            matching = self._that_match(matching, path, condition)
        return matching

    def any(self, path: str, rows: Matching) -> bool:
        """Whether any of these rows has a value there."""
        return bool(self.present(path, rows).any())

    def present(self, path: str, rows: Matching) -> Mask:
        """Which of these rows have a value there."""
        return rows.present(path, self.values(path))

    def kept(self, kind: Hashable, most: int) -> dict[Any, Any]:
        """What somebody made of results that are held, of that kind, to be made once: by the identity of a result, or
        several of them. What is of one that was changed or deleted is given up.

        Ask for it before reading what is put into it. It is begun anew once there are more than ``most``.
        """
        with self._lock:
            kept = self._kept.pop(kind, None)
            self._kept[kind] = kept if kept is not None and len(kept) <= most else {}
            while len(self._kept) > _MOST_KINDS:
                del self._kept[next(iter(self._kept))]
            return self._kept[kind]

    def columns(self, *paths: str) -> Callable[[Row], tuple[Any, ...]]:
        """How to get several fields of a row at once."""
        if all(path in self._at for path in paths) and len(paths) > 1:
            return itemgetter(*(self._at[path] for path in paths))
        each = [self.values(path) for path in paths]
        return lambda row: tuple(value(row) for value in each)

    def values(self, path: str) -> Callable[[Row], Any]:
        """How to get a field of a row; None where the result lacks it."""
        if path in self._at:
            return itemgetter(self._at[path])
        value_by_run = self._read_of_all(path)
        return lambda row: value_by_run.get(identity(row))

    def _read_of_all(self, path: str) -> dict[tuple[str, int], Any]:
        """Asked of PerfDB once; then of results that were written since."""
        with self._lock:
            known, rows = self._asked.get(path), self._rows
            if known is not None and len(known) == len(rows):  # it is of none but these
                self._asked[path] = self._asked.pop(path)
                return known
            missing = list(rows.keys() if known is None else rows.keys() - known.keys())
        where: dict[str, Any] = {"$and": [VALID, {path: {"$ne": None}}]}
        if known is not None and len(missing) <= _FEW:
            where["$and"].append({"run_id": {"$in": [run for run, _ in missing]}})
        documents = self._db.find_raw(where, BY_RUN, fields=_fields(path))
        value = Field("", path, "any", "").value
        found = {(d["run_id"], d["attempt"]): value(to_plain(d)) for d in documents}
        whole = {**(known or {}), **{key: found.get(key) for key in missing}}
        with self._lock:
            if rows is self._rows:  # else some changed meanwhile: it is kept of none that did
                self._asked.pop(path, None)
                self._asked[path] = whole
                while len(self._asked) > _MOST_ASKED:
                    del self._asked[next(iter(self._asked))]
        return whole

    def _that_match(self, rows: Matching, path: str, condition: dict[str, Any]) -> Matching:
        if path in VALID:  # the same of all
            there = all(holds(sign, bound, VALID[path]) for sign, bound in condition.items())
            return rows if there else rows.within(slice(0, 0))
        if path not in self._at:
            documents = self._db.find_raw({"$and": [VALID, {path: condition}]}, BY_RUN, fields=_fields())
            matching = {(d["run_id"], d["attempt"]) for d in documents}
            return rows.only(rows.passing(lambda row: identity(row) in matching))
        at = self._at[path]
        if at == _CREATED and (span := within(rows.columns.rows, _created, condition)) is not None:
            return rows.within(span)
        return rows.only(
            rows.judged(at, lambda value: all(holds(sign, bound, value) for sign, bound in condition.items()))
        )

    # -- what is held -------------------------------------------------------------------------------

    def _stop_following(self) -> None:
        if self._changes is not None:
            self._changes.close()
        self._changes = None

    def _load(self) -> None:
        self._stop_following()
        results = self._db.collection("results")
        # Opened before the first reading, so that nothing is missed between the two. MongoDB refuses a path beside the
        # group that it is part of.
        self._changes = Changes(results, outermost((*held_paths(), "verdict")))
        known: dict[Any, Any] = {}
        self._rows, self._asked, self._kept = {}, {}, {}
        first, *others = held_indexes()
        beside = [
            {(run, attempt): values for run, attempt, *values in _read(results, index)} for index in others
        ]
        for row in _read(results, first):
            more = [beside_by_run.get(identity(row)) for beside_by_run in beside]
            # What was written between the readings is not in each: the changes tell of it.
            if None not in more:
                values = chain(row, *(values for values in more if values))
                self._put([_one_of_equals(value, known) for value in values])
        self._columns = None
        if len(self._rows) >= _MANY:
            gc.collect()
            gc.freeze()

    def _follow(self) -> bool:
        """Take in what happened since; False if all has to be read again."""
        told = None if self._changes is None else self._changes.told()
        if told is None:
            return False
        there = None
        if told.others:
            try:
                there = {(run, attempt) for run, attempt, *_ in _read(self._db.collection("results"), _NAMES)}
            except PyMongoError:  # the server is away
                return False
        now = dict(told.now) | dict.fromkeys(() if there is None else self._rows.keys() - there)
        if changed := now.keys() & self._rows.keys():
            self._rows = dict(self._rows)  # others look at the old ones
            self._give_up(changed)
        if len(now) > _AT_ONCE:
            self._columns = None
        for name, document in now.items():
            valid = document is not None and document.get("verdict") == "valid"
            if document is not None and valid and (there is None or name in there):
                self._put_in_place(name, [value_at(document, path) for path in held_paths()])
            else:
                self._take_out(name)
        return True

    def _give_up(self, changed: Set[tuple[str, int]]) -> None:
        """What was made of these: in mappings of their own, for somebody may still put what was into the old ones."""
        self._asked = {path: value_by_run.copy() for path, value_by_run in self._asked.items()}
        for value_by_run in self._asked.values():
            for name in changed:
                value_by_run.pop(name, None)
        self._kept = {
            # Their owners may be filling them.
            kind: {
                of: made
                for of, made in made_by.copy().items()
                if of not in changed and changed.isdisjoint(of)
            }
            for kind, made_by in self._kept.items()
        }

    def _put_in_place(self, name: tuple[str, int], values: list[Any]) -> None:
        old = self._rows.get(name)
        if old is not None and old[_CREATED] != values[_CREATED]:
            self._take_out(name)
        row = self._put(values)
        if self._columns is not None:
            at, again = place_of(self._columns.rows, row, _created, identity)
            self._columns = self._columns.with_row(row, at, again=again)

    def _take_out(self, name: tuple[str, int]) -> None:
        row = self._rows.pop(name, None)
        if row is not None and self._columns is not None:
            at, _ = place_of(self._columns.rows, row, _created, identity)
            self._columns = self._columns.without(at)

    def _put(self, values: list[Any]) -> Row:
        digest, device, cores, network = (values[self._at[path]] for path in _CONFIGURATION)
        load = offered({name: values[self._at[f"load.{name}"]] for name in _LOAD})
        row = (*values, load, configuration_of(digest, values[_RUN], device, cores, network))
        self._rows[identity(row)] = row
        return row


_held: WeakKeyDictionary[PerfDB, Held] = WeakKeyDictionary()
_lock = threading.Lock()


def held(db: PerfDB) -> Held:
    """What this process holds of that PerfDB; read when it is first asked."""
    with _lock:
        return _held.setdefault(db, Held(db))


def _conditions(filter: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    if "$and" in filter:
        return [condition for part in filter["$and"] for condition in _conditions(part)]
    return list(filter.items())


def _one_of_equals(value: Any, known: dict[Any, Any]) -> Any:
    """Most texts and arrivals repeat: one object for equal ones."""
    if isinstance(value, str):
        return known.setdefault(value, value)
    if isinstance(value, dict):
        try:  # with the types, for 1 is True
            return known.setdefault(tuple((name, type(of), of) for name, of in value.items()), value)
        except TypeError:  # lists or mappings among its values
            return value
    return value


def _read(results: Collection[dict[str, Any]], index: str) -> Iterator[Row]:
    """The values that an index has of every valid result."""
    row = [f"${path}" for path in held_indexes()[index]]
    pipeline: list[dict[str, Any]] = [{"$match": VALID}, {"$project": {"_id": 0, "row": row}}]
    for document in results.aggregate(pipeline, hint=index, batchSize=_BATCH):
        yield tuple(document["row"])


def _fields(*more: str) -> list[str]:
    return ["run_id", "attempt", *more]
