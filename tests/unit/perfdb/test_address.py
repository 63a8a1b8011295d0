"""The URI: shown without secrets, and moved to another database."""

from __future__ import annotations

import pytest

from inferbench_tasks.perfdb.address import database_of, masked, with_database


@pytest.mark.parametrize(
    "uri",
    [
        "mongodb://me:sEcret@db:27017/x",
        "mongodb://me:sEcret/@db:27017/x",
        "mongodb://me:p@sEcret@db/?replicaSet=a",
        "mongodb+srv://me:sEcret@db/x?tlsCertificateKeyFilePassword=sEcret",
        "mongodb://db/?authMechanismProperties=AWS_SESSION_TOKEN:sEcret&w=1",
        "me:sEcret@db",
    ],
)
def test_no_secret_is_shown(uri: str) -> None:
    """Whatever form the URI has, its password and tokens are not in the masked one."""
    assert "sEcret" not in masked(uri)
    assert "***" in masked(uri)


def test_a_uri_without_secrets_is_shown_whole() -> None:
    """Nothing else is hidden."""
    uri = "mongodb://127.0.0.1:2700/x?replicaSet=a&w=majority"
    assert masked(uri) == uri


@pytest.mark.parametrize(
    ("uri", "moved"),
    [
        ("mongodb://h:1", "mongodb://h:1/new"),
        ("mongodb://h:1/?w=1", "mongodb://h:1/new?w=1"),
        ("mongodb://u:p@h/old?w=1", "mongodb://u:p@h/new?w=1&authSource=old"),
        ("mongodb://u:p@h/old?authSource=admin", "mongodb://u:p@h/new?authSource=admin"),
    ],
)
def test_another_database_of_the_same_server(uri: str, moved: str) -> None:
    """Options stay, and a login against the URI's own database goes on working."""
    assert with_database(uri, "new") == moved
    assert database_of(moved) == "new"


def test_the_default_database() -> None:
    """A URI that names none means ours."""
    assert database_of("mongodb://h:1/?w=1") == "inferbench"
