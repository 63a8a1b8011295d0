"""When the client's processors worked for each traced request: what a sender keeps of it, and that it is traced."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.clients.answers import AnswerCheck
from inferbench_tasks.clients.base import OK, Call, Client, ClientSettings, Payload
from inferbench_tasks.clients.forwarding import ForwardingSink
from inferbench_tasks.contracts.handles import Endpoint, ProcessorStep
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.live_processing import FAILED, live, times_of
from inferbench_tasks.loadgen.plan import ClientProcessing, LoadPlan, Segment
from inferbench_tasks.loadgen.processed_times import Processed, ProcessedTimes, Worked, read_processed
from inferbench_tasks.processors.pipeline import RAW
from inferbench_tasks.protocols.traceparent import context_of, metadata_of
from inferbench_tasks.requests.ragged import objects, packed
from tests.unit.processors.test_processors import sound

BEFORE = ProcessorStep(kind="audio", settings={"rate_hz": 8000, "samples": 4})
AFTER = ProcessorStep(kind="labels", settings={"names": ["cat", "dog"]})


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    """Of two senders, by the numbers of requests; a processor that stands there twice is one kind, and one that did
    not work took no time."""
    first, second = (ProcessedTimes(["image", "image", "audio"], ["nms"]) for _ in range(2))
    before, after = Worked(10, 50, {"image": 30, "audio": 5}), Worked(90, 99, {"nms": 4})
    first.add(7, Processed(before, after, 80))
    first.add(9, Processed(Worked(11, 51, {"image": 31}), Worked(91, 98, {}), 81))
    second.add(8, Processed(before, after, 82))
    for at, each in enumerate((first, second)):
        each.write(tmp_path / f"{at}.npz")
    assert read_processed([tmp_path / "0.npz", tmp_path / "1.npz"]) == {
        7: Processed(before, after, 80),
        8: Processed(before, after, 82),
        9: Processed(Worked(11, 51, {"image": 31, "audio": 0}), Worked(91, 98, {"nms": 0}), 81),
    }
    ProcessedTimes([], []).write(tmp_path / "none.npz")
    assert read_processed([tmp_path / "none.npz"]) == {}
    with pytest.raises(LoadError, match=r"can't be read from .*missing\.npz"):
        read_processed([tmp_path / "missing.npz"])


class Echo(Client):
    """Answers each request at once, with two scores for each of its samples."""

    sent: list[Payload]
    #: When the answers came, all in one piece.
    came_ns = -1

    async def open(self, connections: int) -> None:
        """There is nothing to connect."""
        self.sent = []

    def send(self, call: Call) -> bool:
        """Its answer comes in the loop's next turn."""
        self.sent.append(call.payload)
        self._loop.call_soon(self._answer, call)
        return True

    def _answer(self, call: Call) -> None:
        self.came_ns = self.came_ns if self.came_ns >= 0 else time.monotonic_ns()
        scores = np.array([[0.1, 0.9]] * call.payload.batch_size, np.float32)
        problem = self._check.problem(call.payload.batch_size, 8, {"scores": scores})
        self._sink.finish(call, problem or OK, self.came_ns)

    def want(self, waiting: int) -> None:
        """There is always room."""

    def abandon(self, call: Call) -> None:
        """It is answered all the same."""

    async def close(self) -> None:
        """There is nothing to close."""


class Ended(ForwardingSink):
    """Keeps the calls that ended, and how."""

    def __init__(self) -> None:
        self.calls: list[tuple[Call, str, int]] = []

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        """Keep it."""
        self.calls.append((call, status, done_ns))

    def explain(self, status: str, text: str) -> None:
        """The test sees it by its status."""


def sent_through(
    folder: Path, payloads: list[Payload], raw: list[bytes], seed: str | None
) -> tuple[list[Payload], list[tuple[Call, str, int]], ProcessedTimes | None]:
    """What leaves of these requests with the client's processors around it, how they ended, and what was kept."""
    np.savez(folder / "inputs.npz", x=np.zeros((len(raw), 4), np.float32))
    np.savez(folder / "raw.npz", allow_pickle=False, **packed({RAW: objects(raw)}))
    plan = LoadPlan(
        folder=str(folder),
        endpoint=Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="m"),
        inputs_path=str(folder / "inputs.npz"),
        segments=(Segment(kind="closed", start_ns=0, end_ns=1, concurrency=1),),
        measure_start_ns=0, measure_end_ns=1, timeout_ns=1_000_000_000, connections=1, initial_connections=1,
        processing=ClientProcessing(before=(BEFORE,), after=(AFTER,), raw_path=str(folder / "raw.npz")),
        trace_seed=seed,
    )  # fmt: skip
    times, sink, made = times_of(plan), Ended(), []

    def echo(*args: Any) -> Client:
        made.append(Echo(*args))
        return made[0]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        check = AnswerCheck(lambda _: {})
        client = live(plan, echo, times)(ClientSettings(plan.endpoint, 1), loop, sink, check)
        await client.open(1)
        for number, payload in enumerate(payloads):
            assert client.send(Call(number, 0, payload))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(run())
    return made[0].sent, sink.calls, times


def test_a_traced_request_says_so_behind_the_clients_processors(tmp_path: Path) -> None:
    """What is sent was written anew, by its processor's tensor: the second of three requests carries its context in
    one header, and its moments alone are kept, one behind the other. The third can't be processed, and is not sent."""
    metadata = metadata_of(context_of("seed", 1))
    payloads = [Payload(b"", 0, 1), Payload(b"", 1, 1, metadata), Payload(b"", 2, 1, metadata)]
    raw = [sound([1, 2, 3, 4]), sound([5, 6, 7, 8]), b"no sound"]
    sent, ended, times = sent_through(tmp_path, payloads, raw, "seed")
    assert [status for _, status, _ in ended] == [FAILED, OK, OK] or [s for _, s, _ in ended] == [
        OK,
        OK,
        FAILED,
    ]
    plain, traced = sent
    header = f"\r\ntraceparent: {context_of('seed', 1)}\r\n".encode()
    assert plain.metadata == () and b"traceparent" not in plain.wire
    assert traced.metadata == metadata and traced.wire.count(header) == 1
    assert traced.wire.startswith(b"POST /v2/models/m/infer HTTP/1.1\r\n")
    assert len(traced.wire) == len(plain.wire) + len(header) - 2
    assert times is not None
    times.write(tmp_path / "kept.npz")
    ((number, kept),) = read_processed([tmp_path / "kept.npz"]).items()
    call, _, done_ns = next(each for each in ended if each[0].request_id == 1)
    before, after = kept.before, kept.after
    assert number == 1
    assert (
        before.started_ns
        < before.ended_ns
        <= kept.answered_ns
        <= after.started_ns
        < after.ended_ns
        <= done_ns
    )
    assert 0 < before.worked_ns["audio"] <= before.ended_ns - before.started_ns == call.client_spans[0]
    assert 0 < after.worked_ns["labels"] <= after.ended_ns - after.started_ns == call.client_spans[1]


def test_a_load_that_is_not_traced_keeps_nothing(tmp_path: Path) -> None:
    """Its requests are sent and answered, and nobody writes when they were processed."""
    sent, ended, times = sent_through(tmp_path, [Payload(b"", 0, 1)], [sound([1, 2, 3, 4])], None)
    assert len(sent) == 1 and [status for _, status, _ in ended] == [OK] and times is None


def test_answers_that_came_together_wait_for_each_other(tmp_path: Path) -> None:
    """Two of one moment, as of one piece that is read from a connection: both were there then, and the second is begun
    with once the first was processed, which is no part of its way from the server."""
    payloads = [Payload(b"", number, 1, metadata_of(context_of("seed", number))) for number in (0, 1)]
    _, _, times = sent_through(tmp_path, payloads, [sound([1, 2, 3, 4]), sound([5, 6, 7, 8])], "seed")
    assert times is not None
    times.write(tmp_path / "kept.npz")
    kept = read_processed([tmp_path / "kept.npz"])
    first, second = kept[0], kept[1]
    assert first.answered_ns == second.answered_ns <= first.after.started_ns
    assert first.after.ended_ns <= second.after.started_ns
