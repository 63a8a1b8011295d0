"""What questions to Airflow's metadata database have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import Select

#: Of the parameters of one question.
MOST_ASKED = 2000
ENDED = (DagRunState.SUCCESS, DagRunState.FAILED)


def in_questions(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """These values, by ``MOST_ASKED``: a question has at most so many parameters (32,766 on SQLite, 65,535 on
    PostgreSQL)."""
    return (values[first : first + MOST_ASKED] for first in range(0, len(values), MOST_ASKED))


def is_there(query: Select[Any]) -> bool:
    """Whether it has any row."""
    with create_session() as session:
        return session.scalar(query.limit(1)) is not None
