"""Parts of an evaluation (``evaluate.parts``) are one configuration by every figure but measures of answers.

Each part is a job with a load of its own, so that eight parts are one server that was measured eight times: eight rows
of a leaderboard would be one configuration beside itself, and the quickest of them the luckiest of eight. Measures of
answers are of each part's own samples, and stand by these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from inferbench_tasks.analysis.evaluations.listed import PART
from inferbench_tasks.analysis.evaluations.together import but_for_part
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.figure import Figure
from inferbench_tasks.perfdb.held import Held, Row, configuration, configuration_of, identity
from inferbench_tasks.perfdb.held_columns import Matching
from inferbench_tasks.perfdb.judged_on import DATA_PATHS
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.submission.digest import LABELS, job_digest
from inferbench_tasks.submission.schema import JobSpec

_JOB = "provenance.job"
#: What of so many evaluated results is known is kept.
_MOST = 100_000
#: So many are asked for by their names at once.
_AT_ONCE = 1_000


def configurations(
    db: PerfDB, index: Held, rows: Matching, figures: Sequence[Figure]
) -> Callable[[Row], str]:
    """The key of the configuration that a row counts for by these figures; ``rows``: all that are asked for."""
    if any(figure.evaluated for figure in figures):
        return configuration
    known = index.kept("parts of evaluations", _MOST)
    evaluated = rows.only(index.present(DATA_PATHS[0], rows))  # held: who never evaluates reads nothing
    missing = [name for name in map(identity, evaluated) if name not in known]
    for at in range(0, len(missing), _AT_ONCE):
        some = missing[at : at + _AT_ONCE]
        found: dict[tuple[str, int], str | None] = dict.fromkeys(some)
        where = {"$and": [{"run_id": {"$in": [run for run, _ in some]}}, {PART: {"$type": "string"}}]}
        for document in map(to_plain, db.find_raw(where, BY_RUN, fields=("run_id", "attempt", _JOB))):
            found[document["run_id"], document["attempt"]] = asked_but_for_part(value_at(document, _JOB))
        known.update(found)  # not before: others may be looking

    def key(row: Row) -> str:
        own, whole = configuration(row), known.get(identity(row))
        return own if whole is None else f"{whole} {own.partition(' ')[2]}"

    return key


def configuration_in(document: Mapping[str, Any], figures: Iterable[Figure] = ()) -> str:
    """The same key of a stored result at hand, which has the whole of its job where it is a part."""
    own, rest = own_configuration(document).split(" ", 1)
    if not any(figure.evaluated for figure in figures) and isinstance(value_at(document, PART), str):
        own = asked_but_for_part(value_at(document, _JOB))
    return f"{own} {rest}"


def own_configuration(document: Mapping[str, Any]) -> str:
    """As ``held.configuration``, of a stored result at hand."""
    digest, device = document["submission"].get("digest"), document["device"]
    network = (document.get("load") or {}).get("network")
    return configuration_of(digest, document["run_id"], device.get("name"), device.get("cores"), network)


def asked_but_for_part(job: Mapping[str, Any]) -> str:
    """The digest of the job that asks all samples: the same for all parts of one evaluation, however often it was run,
    by whichever version, and of nothing that was asked otherwise. Of a job that this version can't read, of its text.
    """
    asked = {name: value for name, value in but_for_part(job).items() if name not in LABELS}
    return _digest(json.dumps(asked, sort_keys=True, default=str))


@lru_cache(maxsize=10_000)
def _digest(asked: str) -> str:
    """Of a job without its labels. All parts have one text, so that a job is read once and not for each of them."""
    try:
        return job_digest(JobSpec.model_validate({**json.loads(asked), "name": "parts"}))
    except (ValueError, InferBenchError):  # of a version or with packages that are not here
        return hashlib.sha256(asked.encode()).hexdigest()
