"""When Airflow read its DAG files, and asking it to read some now."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.models.dag import DagModel
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.errors import ParseImportError
from airflow.utils.session import create_session
from sqlalchemy import select


def last_read() -> dict[str, tuple[float, float]]:
    """DAG file -> (when it was last read to its end, when that reading began), for each that has DAGs; Unix time."""
    with create_session() as session:
        rows = session.execute(
            select(DagModel.relative_fileloc, DagModel.last_parsed_time, DagModel.last_parse_duration).where(
                DagModel.last_parsed_time.is_not(None)
            )
        ).all()
    moments: dict[str, tuple[float, float]] = {}
    for name, end, seconds in rows:
        assert end is not None  # see the query
        reading = (end.timestamp(), end.timestamp() - (seconds or 0.0))
        moments[str(name)] = max(moments.get(str(name), reading), reading)
    return moments


def read_again(dag_files: Iterable[str], known: frozenset[str]) -> None:
    """Ask the dag-processor to read these files of the DAGs folder now; ``known``: all that are ours.

    It looks at its folder anew for that, and forgets the import errors of what it does not find there: the broken
    YAMLs. Then all files are read again, so that they come back.
    """
    names = set(dag_files)
    if not names:
        return
    with create_session() as session:
        broken = session.scalars(select(ParseImportError.filename)).all()
        if any(str(name).endswith((".yaml", ".yml")) for name in broken):
            names |= known
        requested = set(session.scalars(select(DagPriorityParsingRequest.relative_fileloc)).all())
        for name in sorted(names - requested):
            session.add(DagPriorityParsingRequest("dags-folder", name))
