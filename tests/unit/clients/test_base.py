"""Which client there is for a protocol, and what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks import extras
from inferbench_tasks.clients.base import client_factory
from inferbench_tasks.errors import InputError, MissingExtraError
from tests.load_servers import endpoint, load_plan


def test_a_client_without_the_protocol_is_refused() -> None:
    """The message lists those that have it."""
    with pytest.raises(
        InputError, match="'tritonclient' does not speak grpc_tfs; these do: fast, reference$"
    ):
        client_factory("grpc_tfs", "tritonclient")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_missing_library_is_told_before_a_load(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the load is planned, with the command that installs it."""
    monkeypatch.setattr(extras, "missing", lambda extra: ["tritonclient"] if extra == "reference" else [])
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"pip install 'inferbench\[reference\]'"):
        load_plan(
            tmp_path,
            endpoint(protocol, 1),
            client="tritonclient",
            arrivals={"kind": "poisson", "rate_rps": 1},
        )
