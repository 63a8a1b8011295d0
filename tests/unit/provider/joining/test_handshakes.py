"""Connections on their way to TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from inferbench_tasks.provider.joining import handshakes
from inferbench_tasks.provider.joining.authority import CERTIFICATE, Authority
from inferbench_tasks.provider.joining.handshakes import Handshakes, Loop


def test_an_address_has_few_and_all_together_have_some_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ends makes room."""
    monkeypatch.setattr(handshakes, "MOST_OF_ONE", 1)
    monkeypatch.setattr(handshakes, "MOST", 2)
    several = Handshakes()
    with several.one("a") as first, several.one("a") as second, several.one("b") as other:
        assert (first, second, other) == (True, False, True)
        with several.one("c") as third:
            assert not third
    with several.one("a") as again:
        assert again


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readexactly(4))
    await writer.drain()
    writer.close()


async def scenario(folder: Path, silent: int, closed: int) -> None:
    """So many connections say nothing; so many of them are closed, and then one that speaks TLS is answered."""
    authority = Authority.of(folder)
    authority.server(folder / "server.pem", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    trusting = ssl.create_default_context(cafile=folder / CERTIFICATE)
    async with asyncio.timeout(60), await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        place = server.sockets[0].getsockname()
        pairs = [await asyncio.open_connection(*place) for _ in range(silent)]
        ways = [asyncio.create_task(reader.read()) for reader, _ in pairs]
        for ended, way in enumerate(asyncio.as_completed(ways), start=1):
            assert await way == b""
            if ended == closed:
                break
        assert sum(way.done() for way in ways) == closed
        for _, writer in pairs:
            writer.close()
        await asyncio.gather(*ways)
        while True:
            try:
                reader, writer = await asyncio.open_connection(*place, ssl=trusting)
            except OSError:
                await asyncio.sleep(0.01)
                continue
            writer.write(b"ping")
            assert await reader.read() == b"ping"
            writer.close()
            break


def run(folder: Path, silent: int, closed: int) -> None:
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(scenario(folder, silent, closed))


def test_silent_connections_beyond_the_bound_are_closed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those within it stay, and when they have gone others get in."""
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 600.0)
    monkeypatch.setattr(handshakes, "MOST_OF_ONE", 3)
    run(tmp_path, silent=10, closed=7)


def test_a_silent_connection_is_closed_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to do anything for it."""
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 0.2)
    run(tmp_path, silent=3, closed=3)
