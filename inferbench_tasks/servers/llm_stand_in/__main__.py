"""``python -m inferbench_tasks.servers.llm_stand_in``: serve until standard input is closed or a signal comes.

Prints its port. It is no model: it says so in every answer.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import ssl
import sys
import time
from pathlib import Path

from pydantic import ValidationError

from inferbench_tasks.contracts.stand_in_faults import StandInFaults
from inferbench_tasks.servers.llm_stand_in.answer import NO_MODEL
from inferbench_tasks.servers.llm_stand_in.connection import Connection, Server
from inferbench_tasks.servers.llm_stand_in.course import Course
from inferbench_tasks.servers.llm_stand_in.pace import MODEL, Pace, pace_of


def main() -> int:
    """Serve; 2 where the options make no sense."""
    parser = argparse.ArgumentParser(
        description=f"{NO_MODEL}. OpenAI's API, chat and completions, streams or not."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--pace", default="", help="ttft_ms=50,gap_ms=10,tokens_per_chunk=1,... for every request"
    )
    parser.add_argument(
        "--faults", help="JSON: what goes wrong with the server, as a submission's model.faults"
    )
    parser.add_argument("--slots", type=int, default=0, help="requests served at once; 0: all")
    parser.add_argument("--log", type=Path, help="a line of JSON for each request: what was written when")
    parser.add_argument("--certificate", type=Path, help="PEM of certificate and private key: https")
    parser.add_argument("--api-key-env", help="the variable with the key that requests need")
    parser.add_argument(
        "--until-signal",
        action="store_true",
        help="serve until a signal comes, whatever becomes of standard input",
    )
    options = parser.parse_args()
    try:
        pace = pace_of(f"{MODEL}:{options.pace}", Pace())
    except ValueError as error:
        parser.error(f"--pace: {error}")
    assert pace is not None
    try:
        faults = StandInFaults.model_validate_json(options.faults) if options.faults else None
    except ValidationError as error:
        parser.error(f"--faults: {error}")
    key = os.environ.get(options.api_key_env, "") if options.api_key_env else None
    slots = asyncio.Semaphore(options.slots) if options.slots else None
    log = open(options.log, "ab") if options.log else None  # noqa: SIM115 - as long as the process
    tls = None
    if options.certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(options.certificate)
    server = Server(pace, slots, key, log, Course(faults, time.monotonic_ns()))
    asyncio.run(_serve(server, options.host, options.port, tls, until_signal=options.until_signal))
    return 0


async def _serve(
    server: Server, host: str, port: int, tls: ssl.SSLContext | None, *, until_signal: bool
) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    listener = socket.create_server((host, port), backlog=4096)
    listening = await loop.create_server(lambda: Connection(server), sock=listener, ssl=tls)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    if not until_signal and not sys.stdin.isatty():
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        ended = asyncio.create_task(reader.read())
        ended.add_done_callback(lambda _: over.set())
    await over.wait()
    listening.close()
    for task in list(server.tasks):
        task.cancel()
    await asyncio.gather(*server.tasks, return_exceptions=True)


if __name__ == "__main__":
    sys.exit(main())
