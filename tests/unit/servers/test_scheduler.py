"""The dynamic batcher, with an engine that remembers what it was given."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.servers.config import Batching
from inferbench_tasks.servers.scheduler import Batch, Execution, Scheduler
from inferbench_tasks.servers.statistics import Statistics

Start = Callable[..., tuple[Scheduler, "Doubler", Statistics]]


class Doubler:
    """Doubles its input; ``go`` holds it back, so that a test decides when requests can queue up."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, ...]] = []
        self.entered = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        self.entered.set()
        assert self.go.wait(10)
        x = np.asarray(inputs["x"], dtype=np.float32)
        self.batches.append(x.shape)
        if (x < 0).any():
            raise ValueError("negative")
        return {"y": x * 2}


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[Scheduler] = []

    def make(
        batching: Batching | None, engine: Doubler | None = None
    ) -> tuple[Scheduler, Doubler, Statistics]:
        engine = engine or Doubler()
        statistics = Statistics()
        made.append(Scheduler([engine], batching, statistics))
        return made[-1], engine, statistics

    yield make
    for scheduler in made:
        scheduler.close()


def ask(scheduler: Scheduler, *shapes: tuple[int, ...], values: float = 1.0) -> list[Callable[[], Execution]]:
    """Queue one request per shape; each result waits for its answer."""
    waits: list[Callable[[], Execution]] = []
    for shape in shapes:
        done = threading.Event()
        execution = Execution({"x": np.full(shape, values, np.float32)}, shape[0], lambda _, d=done: d.set())  # type: ignore[misc]
        scheduler.submit(execution)

        def wait(execution: Execution = execution, done: threading.Event = done) -> Execution:
            assert done.wait(10)
            return execution

        waits.append(wait)
    return waits


def held_back(scheduler: Scheduler, engine: Doubler, *shapes: tuple[int, ...]) -> list[Execution]:
    """Queue requests while a first one occupies the engine, then let go."""
    engine.go.clear()
    engine.entered.clear()
    first = ask(scheduler, (1, 9))
    deadline = time.monotonic() + 10
    assert engine.entered.wait(deadline - time.monotonic())
    waits = ask(scheduler, *shapes)
    engine.go.set()
    first[0]()
    return [wait() for wait in waits]


def test_without_batching_each_request_is_executed_by_itself(start: Start) -> None:
    """Rows that a client brings together stay together; nothing else is joined."""
    scheduler, engine, statistics = start(None)
    held_back(scheduler, engine, (1, 3), (2, 3), (1, 3))
    assert engine.batches[1:] == [(1, 3), (2, 3), (1, 3)]
    document = statistics.document("m", "1")
    assert document["execution_count"] == 4
    assert document["inference_count"] == 5


def test_waiting_requests_are_joined_up_to_the_maximum(start: Start) -> None:
    """Five requests of one row, at most four at once: a batch of four and one of one."""
    scheduler, engine, statistics = start(Batching(max_batch_size=4, max_delay_ms=0))
    answers = held_back(scheduler, engine, *[(1, 3)] * 5)
    assert engine.batches[1:] == [(4, 3), (1, 3)]
    assert all(a.outputs is not None and a.outputs["y"].tolist() == [[2.0] * 3] for a in answers)
    sizes = {
        b["batch_size"]: b["compute_infer"]["count"] for b in statistics.document("m", "1")["batch_stats"]
    }
    assert sizes == {4: 1, 1: 2}


def test_each_request_gets_its_own_rows(start: Start) -> None:
    """The answers of a batch are given out in the order and the sizes of its requests."""
    scheduler, engine, _ = start(Batching(max_batch_size=8, max_delay_ms=0))
    engine.go.clear()
    engine.entered.clear()
    first = ask(scheduler, (1, 9))
    assert engine.entered.wait(10)
    waits = [ask(scheduler, (rows, 2), values=value)[0] for rows, value in ((1, 1.0), (3, 2.0), (2, 3.0))]
    engine.go.set()
    first[0]()
    answered = [wait() for wait in waits]
    outputs = [each.outputs for each in answered]
    assert [o["y"].tolist() for o in outputs if o] == [[[2.0] * 2], [[4.0] * 2] * 3, [[6.0] * 2] * 2]
    assert engine.batches[1:] == [(6, 2)]
    assert {each.batch for each in answered} == {Batch(number=1, requests=3, rows=6)}
    assert first[0]().batch == Batch(number=0, requests=1, rows=1)


def test_only_compatible_requests_are_joined(start: Start) -> None:
    """Another shape ends a batch; order is kept."""
    scheduler, engine, _ = start(Batching(max_batch_size=8, max_delay_ms=0))
    held_back(scheduler, engine, (1, 3), (1, 3), (1, 4), (1, 3))
    assert engine.batches[1:] == [(2, 3), (1, 4), (1, 3)]


def test_a_preferred_size_goes_at_once(start: Start) -> None:
    """Three waiting and two preferred: two go at once, though the delay is long; the third waits for it."""
    scheduler, engine, _ = start(Batching(max_batch_size=8, max_delay_ms=400, preferred_batch_sizes=(2,)))
    answers = held_back(scheduler, engine, (1, 3), (1, 3), (1, 3))
    assert engine.batches[1:] == [(2, 3), (1, 3)]
    assert answers[2].queue_ns >= 400e6
    assert answers[1].queue_ns < answers[2].queue_ns


def test_a_lonely_request_waits_for_the_delay_and_no_longer_than_needed(start: Start) -> None:
    """The delay bounds how long a batch is held open; a full one does not wait."""
    scheduler, engine, _ = start(Batching(max_batch_size=2, max_delay_ms=60))
    lonely = ask(scheduler, (1, 3))[0]()
    assert lonely.queue_ns >= 60e6
    full = ask(scheduler, (2, 3))[0]()
    assert full.queue_ns < 60e6
    assert engine.batches == [(1, 3), (2, 3)]


def test_more_rows_than_the_maximum_are_refused(start: Start) -> None:
    """Such a request could never be executed."""
    scheduler, _, _ = start(Batching(max_batch_size=4, max_delay_ms=0))
    with pytest.raises(RequestProblem, match="batch size 5 given, max_batch_size is 4"):
        ask(scheduler, (5, 3))


def test_a_failing_engine_fails_the_requests_of_that_batch_only(start: Start) -> None:
    """The instance goes on after an error, which every request of the batch gets."""
    scheduler, _, statistics = start(Batching(max_batch_size=4, max_delay_ms=20))
    bad = [wait() for wait in ask(scheduler, (1, 3), (1, 3), values=-1.0)]
    assert [str(b.error) for b in bad] == ["negative", "negative"]
    assert ask(scheduler, (1, 3))[0]().outputs is not None
    assert statistics.document("m", "1")["inference_stats"]["fail"]["count"] == 2


def test_an_output_that_can_not_be_split_is_an_error(start: Start) -> None:
    """A model that loses the batch axis must not hand one client another's rows."""

    class Summing(Doubler):
        def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
            return {"y": super().run(inputs)["y"].sum(axis=0)}

    scheduler, engine, _ = start(Batching(max_batch_size=4, max_delay_ms=0), Summing())
    answers = held_back(scheduler, engine, (1, 3), (1, 3))
    assert all("can't be split" in str(a.error) for a in answers)


def test_instances_share_the_queue() -> None:
    """With two instances, a second request does not wait for the first."""
    engines = [Doubler(), Doubler()]
    for engine in engines:
        engine.go.clear()
    scheduler = Scheduler(engines, None, Statistics())
    waits = ask(scheduler, (1, 3), (1, 3))
    assert all(engine.entered.wait(10) for engine in engines)
    for engine in engines:
        engine.go.set()
    for wait in waits:
        wait()
    scheduler.close()
