"""The gateway's looking whose token is in force, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.provider.joining import gateway as module
from inferbench_tasks.provider.joining.accounts import Embedded
from inferbench_tasks.provider.joining.gateway import Gateway
from inferbench_tasks.provider.joining.plan import Plan
from inferbench_tasks.provider.joining.tokens import FILE, FOLDER
from inferbench_tasks.provider.system.config import EXECUTION_URL


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """One that listens nowhere, and finds neither broker nor PerfDB."""
    monkeypatch.setenv("AIRFLOW__CELERY__BROKER_URL", "redis://:x@127.0.0.1:1/0")
    monkeypatch.setenv(EXECUTION_URL, "http://127.0.0.1:1/execution/")
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    Plan("127.0.0.1", 1, ["127.0.0.1"], str(tmp_path), str(tmp_path)).write(tmp_path)
    return Gateway(tmp_path, tmp_path, Embedded(tmp_path))


@pytest.mark.parametrize("fault", ["damaged", "EMFILE"])
def test_tokens_that_can_t_be_read_let_nobody_in_and_cut_all(
    gateway: Gateway, tmp_path: Path, fault: str
) -> None:
    """It goes on looking, and lets in who is in force as soon as they can be read again."""
    token, _ = gateway.tokens.create("a", timedelta(days=1), "f" * 64)
    gateway.tokens.joined(token.token_id, "0" * 32, "h")
    assert gateway._admits(token.token_id)
    path = tmp_path / FOLDER / FILE
    good = path.read_text()
    seen: list[list[str]] = []

    def cut(active: Collection[str]) -> list[str]:
        seen.append(list(active))
        if len(seen) == 3:
            broken.undo()
            path.write_text(good)
        if len(seen) >= 5:
            raise asyncio.CancelledError
        return []

    gateway.relay.cut = cut  # type: ignore[method-assign]
    broken = pytest.MonkeyPatch()
    try:
        if fault == "damaged":
            path.write_text("[{")
        else:
            refuse(broken, path)
        assert not gateway._admits(token.token_id)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(asyncio.wait_for(gateway._look(), 30))
    finally:
        broken.undo()
    assert seen == [[], [], [], [token.token_id], [token.token_id]]


def refuse(broken: pytest.MonkeyPatch, path: Path) -> None:
    """Reading that file fails as it does where no descriptor is left."""
    read_text = Path.read_text

    def refused(self: Path, *args: Any, **more: Any) -> str:
        if self == path:
            raise OSError(24, os.strerror(24))
        return read_text(self, *args, **more)

    broken.setattr(Path, "read_text", refused)


@pytest.mark.parametrize("error", [None, RuntimeError("looked no more")])
def test_a_gateway_that_looks_no_more_serves_no_more(error: Exception | None) -> None:
    """Its process ends, with the error, and is started again."""
    ended: list[str] = []

    async def serve() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("served")

    async def look() -> None:
        if error:
            raise error

    if error is None:
        asyncio.run(module._until_one_ends(serve(), look()))
    else:
        with pytest.raises(RuntimeError, match="looked no more"):
            asyncio.run(module._until_one_ends(serve(), look()))
    assert ended == ["served"]


def test_a_user_that_was_made_while_others_were_settled_stays(tmp_path: Path) -> None:
    """Tokens are read after PerfDB's users: each user that was there had its token written down before."""
    asked: list[str] = []

    class Found(Embedded):
        @contextmanager
        def _client(self) -> Any:  # type: ignore[override]
            def command(name: str, value: object) -> dict[str, Any]:
                asked.append(f"{name} {value}")
                return {"users": [{"user": "worker-new"}, {"user": "worker-gone"}, {"user": "inferbench"}]}

            yield {"admin": SimpleNamespace(command=command)}

    def active() -> Any:
        asked.append("tokens")
        return [SimpleNamespace(user="worker-new")]

    Found(tmp_path).settle(active)
    assert asked == ["usersInfo 1", "tokens", "dropUser worker-gone"]
