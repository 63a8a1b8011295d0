"""Servers of the user's own, in place of those that ``up`` starts: they must answer before anything is started."""

from __future__ import annotations

import os

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.system.config import BROKER_URL, METADATA_DB

_TIMEOUT_S = 5


def require() -> None:
    """InputError if the metadata database or the broker that the environment names can't be used."""
    if url := os.environ.get(METADATA_DB):
        _require_database(url)
    if url := os.environ.get(BROKER_URL):
        _require_broker(url)


def _require_database(url: str) -> None:
    import sqlalchemy
    from sqlalchemy.exc import SQLAlchemyError

    allowed = "allowed is postgresql+psycopg2://USER:PASSWORD@HOST:PORT/DATABASE, of a database that exists"
    try:
        parsed = sqlalchemy.make_url(url)
    except SQLAlchemyError:
        raise InputError(f"{METADATA_DB} is no URL of a database; {allowed}.") from None
    if parsed.drivername != "postgresql+psycopg2":
        raise InputError(f"{METADATA_DB} begins with {parsed.drivername}://; {allowed}.")
    engine = sqlalchemy.create_engine(parsed, connect_args={"connect_timeout": _TIMEOUT_S})
    try:
        with engine.connect():
            pass
    except SQLAlchemyError as error:
        address = parsed.render_as_string(hide_password=True)
        raise InputError(f"{METADATA_DB} ({address}): {_first_line(error)}; {allowed}.") from None
    finally:
        engine.dispose()


def _require_broker(url: str) -> None:
    import redis

    try:
        with redis.Redis.from_url(
            url, socket_connect_timeout=_TIMEOUT_S, socket_timeout=_TIMEOUT_S
        ) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        raise InputError(
            f"{BROKER_URL}: {_first_line(error)}; allowed is redis://[:PASSWORD@]HOST:PORT, without a database."
        ) from None


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]
