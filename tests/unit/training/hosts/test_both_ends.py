"""The two hosts of a training talk to each other: what each tells of its ranks, and what ends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.errors import CancelledError, InferBenchError, LoadError, StageError
from inferbench_tasks.launchers.base import LOOPBACK
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.far_side import FarSide
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.training import launch
from inferbench_tasks.training.hosts import first, on_host, second
from inferbench_tasks.training.hosts.first import Begun, FirstRanks
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import answer_path

JOB = TrainingJob.model_validate(
    {
        "kind": "training",
        "name": "x",
        "data": {"kind": "digits"},
        "devices": {"count": 2, "hosts": 2, "strategy": "ddp"},
    }
)
SERVER = ServerHandle(launcher="process", pid=1, started_ns=1, log_path="the.log", config_path="c")


class Ranks:
    """The ranks of a host without any: they run until ``over``, and end as ``failure`` says."""

    def __init__(self) -> None:
        self.over, self.ended = threading.Event(), threading.Event()
        self.failure = ""

    @contextmanager
    def training(self, *_: object, **more: object) -> Iterator[ServerHandle]:
        try:
            yield SERVER
        finally:
            self.ended.set()

    def wait(self, server: ServerHandle, folder: Path, ctx: Context) -> None:
        while not self.over.wait(0.01):
            if ctx.cancelled():
                raise CancelledError("Cancelled while its ranks ran.")
        if self.failure:
            raise StageError(self.failure)


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    made = Ranks()
    monkeypatch.setattr(on_host, "training", made.training)
    monkeypatch.setattr(launch, "wait", made.wait)
    return made


def order(folder: Path, patience_s: float = 20.0) -> first.Order:
    return first.Order(
        job=JOB, run_id="r", address=LOOPBACK, host="one", home="first-home", order_path=str(folder / "order.json"),
        data_dir=str(folder), base_dir=str(folder), told_path=str(folder / "told"), patience_s=patience_s,
    )  # fmt: skip


def test_the_first_host_tells_where_to_meet_and_how_its_ranks_do(ranks: Ranks, tmp_path: Path) -> None:
    """A port; nothing while all is well; how they failed; and at the end whether each rank left its word."""
    there = FirstRanks(order(tmp_path))
    begun = Begun.model_validate_json(there.begin())
    assert begun.port > 0 and begun.error == "" and there.state() == ""
    ranks.over.set()
    assert there.end() == "The run ended without a word of rank-0.json; see the.log"
    assert ranks.ended.is_set()
    answer_path(tmp_path, 0).write_text("{}")
    again = FirstRanks(order(tmp_path))
    again.begin()
    assert again.end() == ""


def test_ranks_of_the_first_host_that_fail_are_told_of(ranks: Ranks, tmp_path: Path) -> None:
    """At the next question, and at the end; what is longer than an answer may be is cut."""
    ranks.failure = "rank 0 was killed " + "x" * 10_000
    there = FirstRanks(order(tmp_path))
    there.begin()
    ranks.over.set()
    deadline = time.monotonic() + 10
    while not there.state() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert there.state() == there.end() and there.state().startswith("rank 0 was killed")
    assert len(there.state()) < 4096


def test_what_keeps_them_from_starting_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever it is."""

    def fails(*_: object, **more: object) -> Any:
        raise InferBenchError("no such program")

    monkeypatch.setattr(on_host, "training", fails)
    there = FirstRanks(order(tmp_path))
    assert Begun.model_validate_json(there.begin()).error == "InferBenchError: no such program"
    assert there.end() == "its ranks were never started"


@contextmanager
def standing(folder: Path) -> Iterator[FarWatch]:
    """The first host's process as a thread."""
    told = order(folder)
    Path(told.told_path).unlink(missing_ok=True)
    with FarSide(LOOPBACK, 0, told.host, told.home) as far:
        thread = threading.Thread(target=lambda: _quietly(told, far))
        thread.start()
        try:
            yield FarWatch.of(far.invitation, "m.parquet")
        finally:
            thread.join(30)
        assert not thread.is_alive()


def _quietly(told: first.Order, far: FarSide) -> None:
    with suppress(ConnectionError):  # the other side goes away where the test wants it
        first.serve(told, far)


@pytest.mark.parametrize("politely", [True, False])
def test_the_first_ranks_end_with_the_connection(ranks: Ranks, tmp_path: Path, politely: bool) -> None:
    """Whether the other host says goodbye or is gone."""
    with standing(tmp_path) as watch:
        near = NearSide(watch.invitation)
        near.__enter__()
        assert near.tell(wire.BEGIN) and not ranks.ended.is_set()
        near.__exit__(None, None, None) if politely else near._connection.close()
        assert ranks.ended.wait(10)


def trained(folder: Path, watch: FarWatch, cancelled: Callable[[], bool] = lambda: False) -> Any:
    home = folder / "second"
    home.mkdir(exist_ok=True)
    ctx = Context(data_dir=home, base_dir=home, cancelled=cancelled)
    return second.train(JOB, "r", home / "order.json", ctx, watch, ())


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions come quickly, and the link is not measured."""
    monkeypatch.setattr(second, "EVERY_S", 0.02)
    monkeypatch.setattr(second, "_TELLS_WITHIN_S", 0.5)
    monkeypatch.setattr(second, "AroundLoad", lambda near, me: None)
    monkeypatch.setenv(settings.ONE_MACHINE_AS_HOSTS, "1")


@contextmanager
def two_sides(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Ranks, Ranks]]:
    """The first host's ranks and the second's: who waits in the main thread is the second."""
    there, here = Ranks(), Ranks()

    def side() -> Ranks:
        return here if threading.current_thread() is threading.main_thread() else there

    monkeypatch.setattr(on_host, "training", lambda *one, **more: side().training())
    monkeypatch.setattr(launch, "wait", lambda *one: side().wait(*one))
    yield there, here
    assert there.ended.is_set() and here.ended.is_set()


@pytest.mark.usefixtures("fast")
def test_a_failure_on_either_host_ends_both_and_names_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the host's own name; of the second host's the first one's word is waited for, and missing said nothing of."""
    with two_sides(monkeypatch) as (there, here), standing(tmp_path) as watch:
        there.failure = "rank 0 was killed"
        there.over.set()
        with pytest.raises(StageError, match="ended on both hosts. On one: rank 0 was killed$"):
            trained(tmp_path, watch)
    with two_sides(monkeypatch) as (there, here), standing(tmp_path) as watch:
        here.failure = "rank 1 was killed"
        here.over.set()
        with pytest.raises(StageError, match="ended on both hosts. On .*: rank 1 was killed$"):
            trained(tmp_path, watch)


@pytest.mark.usefixtures("fast")
def test_a_cancelled_training_ends_on_both_hosts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And is no failure."""
    with two_sides(monkeypatch), standing(tmp_path) as watch, pytest.raises(CancelledError):
        trained(tmp_path, watch, lambda: True)


@pytest.mark.usefixtures("fast")
def test_a_first_host_that_can_not_begin_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second host starts nothing then."""

    def fails(*_: object, **more: object) -> Any:
        raise StageError("no core left")

    monkeypatch.setattr(on_host, "training", fails)
    with (
        standing(tmp_path) as watch,
        pytest.raises(StageError, match="ranks of one did not start: StageError: no core left"),
    ):
        trained(tmp_path, watch)


def test_two_halves_on_one_machine_are_refused(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By its kernel's boot id, whatever their data directories; before any rank starts."""
    if not settings.boot_id():
        pytest.skip("this kernel tells no boot id")
    with (
        standing(tmp_path) as watch,
        pytest.raises(LoadError, match="Both halves of the run came to one host"),
    ):
        trained(tmp_path, watch)
    assert not ranks.ended.is_set()
