"""Servers of the user's own must answer before the system is started."""

from __future__ import annotations

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.system import own_servers
from inferbench_tasks.provider.system.config import BROKER_URL, METADATA_DB
from tests.load_servers import free_port

POSTGRES = "postgresql+psycopg2://air:secret@127.0.0.1"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense", "no URL of a database"),
        ("mysql://air@127.0.0.1/airflow", "begins with mysql://; allowed is postgresql"),
        (f"{POSTGRES}:{{port}}/airflow", "Connection refused.*allowed is postgresql"),
    ],
)
def test_a_database_that_can_not_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, url: str, told: str
) -> None:
    """What is wrong with the metadata database and what is allowed, without the password."""
    monkeypatch.setenv(METADATA_DB, url.format(port=free_port()))
    with pytest.raises(InputError, match=told) as caught:
        own_servers.require()
    assert METADATA_DB in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["nonsense", "redis://:secret@127.0.0.1:{port}"])
def test_a_broker_that_can_not_be_used_is_named(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """What is wrong with the broker and what is allowed, without the password."""
    monkeypatch.setenv(BROKER_URL, url.format(port=free_port()))
    with pytest.raises(InputError, match="allowed is redis://") as caught:
        own_servers.require()
    assert "secret" not in str(caught.value)


def test_nothing_is_asked_for_without_own_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system brings its own; none has to answer."""
    monkeypatch.delenv(METADATA_DB, raising=False)
    monkeypatch.delenv(BROKER_URL, raising=False)
    own_servers.require()
