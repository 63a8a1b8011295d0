"""The indexes: what a leaderboard, a list, or a search over 100,000 results goes through.

``benchmarks/perfdb`` measures each kind of question. MongoDB makes an index once; asking again is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.database import Database

from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import judged_on
from inferbench_tasks.perfdb.fields import SETTINGS

#: Of results of every kind.
WRITTEN_ONCE = IndexModel([("run_id", ASCENDING), ("attempt", DESCENDING)], unique=True, name="run")
LATEST = ("created_at", DESCENDING)
#: Have indexes of their own, or are seldom asked for.
_ELSEWHERE = {
    "run_id", "attempt", "job_id", "invocation_id", "created_at", "backend.version", "model.task", "model.dataset",
    "submission.login",
}  # fmt: skip
_SETTINGS = [*(f.path for f in SETTINGS if f.path not in _ELSEWHERE), "verdict"]
#: These begin the lists of an index each.
LEADING = frozenset({"model.name", "backend.kind", "submission.user", "submission.name"})
_DECIDED_BY_NEWEST = frozenset({*_SETTINGS, "created_at"}) - LEADING
_IDENTITY = ("run_id", "attempt")
#: The index of what is held of valid results; it begins with the verdict.
HELD = "held"
#: The settings that are held of every valid result beside the figures.
_HELD_SETTINGS = (
    "created_at", *_IDENTITY, "submission.digest", "submission.name", "submission.user", "model.name", "model.task",
    "model.dataset", "format", "backend.kind", "device.kind", "device.name", "load.batch_size",
    "load.arrivals.rate_rps",
)  # fmt: skip
#: What tells, with the batch size, which load a run was offered (``perfdb.offered``).
_LOAD = ("load.arrivals", "load.network", "load.expect", "load.duration_s")
#: What tells whether a result is of a model at all (``perfdb.no_model``), and which samples it was judged on.
_ASKED = (
    "provenance.job.serve.dummy_weights", "provenance.job.evaluate.samples", "load.seed",
    "extensions.evaluation.samples_digest",
)  # fmt: skip
#: MongoDB allows 32 fields in an index, the verdict among them, and 64 indexes of a collection, its own of ``_id`` and
#: those that earlier versions made among them: there is room for so many figures that metrics bring, two indexes each.
_MOST_FIELDS, _MOST_BROUGHT = 32, 3
#: What few runs have in their results.
_SELDOM_DONE = [{f"extensions.{name}": {"$exists": True}} for name in ("trace", "evaluation")]
#: Figures with this number or a larger one are of few runs: they have no index of their own.
_SELDOM = 32


@cache
def held_indexes() -> dict[str, tuple[str, ...]]:
    """What ``held`` reads of every valid result, by the index that has it.

    Three hold the figures of the table by their numbers (``Figure.held``), one the load, one the server's version, one
    what was asked of what. An index can't be changed where it exists, so the names of those that grow with the table
    say how far they go. What metrics bring has one each.
    """
    figures = sorted(
        (figure for figure in FIGURES.values() if figure.held), key=lambda figure: figure.held or 0
    )
    room = _MOST_FIELDS - 1 - len(_HELD_SETTINGS)
    seldom = [figure for figure in figures if (figure.held or 0) >= _SELDOM]
    figures = figures[: len(figures) - len(seldom)]
    first, second = figures[:room], figures[room:]
    fields_by_index = {
        HELD: (*_HELD_SETTINGS, *(figure.field_path for figure in first)),
        f"held_to_{figures[-1].held}": (
            *_IDENTITY,
            "device.cores",
            *(figure.field_path for figure in second),
        ),
        f"held_seldom_to_{seldom[-1].held}": (
            *_IDENTITY,
            *(figure.field_path for figure in seldom),
            *judged_on.DATA_PATHS,
        ),
        "held_load_expected": (*_IDENTITY, *_LOAD),
        "held_software": (*_IDENTITY, "backend.version"),
        "held_asked": (*_IDENTITY, *_ASKED),
    }
    return fields_by_index | {f"held_{figure.name}": (*_IDENTITY, figure.field_path) for figure in _brought()}


def _brought() -> list[Figure]:
    """The figures that metrics bring, as far as MongoDB has room; the others are read from documents, slower."""
    brought = {figure.name for figure in FIGURES.brought().values()}
    return [figure for figure in FIGURES.values() if figure.name in brought and not figure.held][
        :_MOST_BROUGHT
    ]


@cache
def held_paths() -> tuple[str, ...]:
    """All that is held, in the order in which the indexes have it."""
    return tuple(dict.fromkeys(path for paths in held_indexes().values() for path in paths))


def _newest(*leading: str) -> list[tuple[str, int]]:
    """Keys for lists, newest first, of equal leading fields.

    All settings follow, so that the other conditions are decided on the index's keys: a rare one does
    not read every document.
    """
    rest = [(path, ASCENDING) for path in _SETTINGS if path not in leading]
    return [*((path, ASCENDING) for path in leading), LATEST, *rest]


def index_of_newest(filter: Mapping[str, Any]) -> str | None:
    """Which index lists the newest results that match; None leaves it to MongoDB.

    A dozen indexes begin with the verdict. MongoDB tries each, twice, before it remembers which was the best, and all
    but one read and sort every document of that verdict. Where another field begins a list of its own, or names few
    results, that is the better one.
    """
    paths = set(_paths(filter))
    return "newest" if "verdict" in paths and paths <= _DECIDED_BY_NEWEST else None


def _paths(filter: Mapping[str, Any]) -> Iterator[str]:
    for path, condition in filter.items():
        if path == "$and":
            for part in condition:
                yield from _paths(part)
        else:
            yield path


@cache
def indexes() -> dict[str, list[IndexModel]]:
    """The indexes of each collection, by its name."""
    # Any figure may be sorted by.
    numbered = (figure for figure in FIGURES.values() if figure.held and figure.held < _SELDOM)
    figures = [figure.field_path for figure in (*numbered, *_brought())]
    return {
        "results": [
            WRITTEN_ONCE,
            IndexModel(_newest(), name="newest"),
            IndexModel(_newest("model.name"), name="newest_of_model"),
            IndexModel(_newest("backend.kind"), name="newest_of_backend"),
            *(IndexModel([(path, ASCENDING)], name=path) for path in (*figures, "load.batch_size")),
            *(
                IndexModel([("verdict", ASCENDING), *((path, ASCENDING) for path in paths)], name=name)
                for name, paths in held_indexes().items()
            ),
            # Lists of valid results, of a model or of all, the best first.
            IndexModel(
                [("verdict", 1), ("model.name", 1), ("summary.e2e_latency_ms.p99", 1)], name="board_latency"
            ),
            IndexModel(
                [("verdict", 1), ("model.name", 1), ("summary.throughput_rps", -1)], name="board_throughput"
            ),
            IndexModel([("verdict", 1), ("summary.e2e_latency_ms.p99", 1)], name="best_latency"),
            IndexModel([("verdict", 1), ("summary.throughput_rps", -1)], name="best_throughput"),
            IndexModel([("backend.settings.$**", 1)], name="settings"),
            IndexModel([("submission.user", 1), LATEST], name="user"),
            IndexModel([("submission.name", 1), LATEST], name="submission"),
            # The history of one job: regression runs.
            IndexModel([("job_id", 1), LATEST], name="job"),
            IndexModel([("invocation_id", 1), ("run_id", 1)], name="invocation"),
            # Few runs are traced or evaluated: a list of them reads no others.
            IndexModel([LATEST], name="traced_or_evaluated", partialFilterExpression={"$or": _SELDOM_DONE}),
        ],
        "traces": [IndexModel([LATEST], name="created")],
        # Nobody watches what has been silent for so long.
        "progress": [IndexModel([("at", ASCENDING)], name="silent", expireAfterSeconds=3600)],
        "runs": [
            IndexModel([("started_at", DESCENDING)], name="started"),
            IndexModel([("invocation_id", 1), ("_id", 1)], name="invocation"),
            IndexModel([("status", 1), ("started_at", DESCENDING)], name="status"),
            IndexModel([("job_id", 1), ("started_at", DESCENDING)], name="job"),
            # What a login has taken of the devices and of the disk.
            IndexModel([("submission.login", 1), ("updated_at", DESCENDING)], name="login"),
        ],
        "models": [
            IndexModel([("name", 1), ("version", DESCENDING)], unique=True, name="version"),
            IndexModel([("digest", 1)], name="digest"),
            IndexModel([LATEST], name="created"),
        ],
        "manifests": [IndexModel([("kind", 1), ("name", 1)], name="name")],
        "brick_results": [
            IndexModel(
                [("setting_id", 1), ("identity", 1), ("session", 1)], unique=True, name="written_once"
            ),
            IndexModel(
                [("setting_id", 1), ("usable", 1), ("identity", 1), ("measured_at", DESCENDING)],
                name="newest_usable",
            ),
            # How much is known of which device, and what: counted on the index's keys.
            IndexModel([("usable", 1), ("setting_id", 1), ("whole", 1), ("identity", 1)], name="known"),
            IndexModel([("whole", 1), ("usable", 1), ("measured_at", DESCENDING)], name="measured"),
            IndexModel([("key", 1), ("measured_at", DESCENDING)], name="key"),
        ],
        "brick_references": [
            IndexModel([("setting_id", 1), ("session", 1)], unique=True, name="written_once"),
            IndexModel([("setting_id", 1), ("measured_at", DESCENDING)], name="newest"),
        ],
        "verified_remedies": [IndexModel([("run", 1), ("created_at", DESCENDING)], name="run")],
        "brick_suites": [IndexModel([("suite", 1), ("name", 1)], unique=True, name="network")],
        "brick_cuts_failed": [
            IndexModel([("runtime", 1), ("instruction_set", 1), ("made_from", 1)], name="where")
        ],
        "decompositions": [
            IndexModel([("whole", 1), ("granularity", 1)], name="whole"),
            IndexModel([("model", 1), ("created_at", DESCENDING)], name="model"),
            IndexModel([("parts", 1)], name="parts"),
            IndexModel([("made_from", 1)], name="made_from"),
            IndexModel([("sources.source", 1)], name="source"),
        ],
        "invocations": [
            IndexModel([("started_at", DESCENDING)], name="started"),
            IndexModel([("submission.name", 1), ("started_at", DESCENDING)], name="submission"),
        ],
    }


def ensure(database: Database[dict[str, Any]]) -> None:
    """Make the indexes that are missing."""
    for collection, models in indexes().items():
        database[collection].create_indexes(models)
