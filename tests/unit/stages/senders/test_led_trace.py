"""A load that its own host sends again for ``trace``: over a real connection, by a clock half a minute ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import CancelledError, InputError, LoadError
from inferbench_tasks.networks.links import far_side
from inferbench_tasks.networks.links.far_side import FarSide
from inferbench_tasks.stages import load, sampled_load, traced_load
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.sampled_load import Sent
from inferbench_tasks.stages.senders import led_trace, trace_sender
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.stages.senders.handles import TraceSender
from inferbench_tasks.tracing.assemble import Asked
from tests.two_clocks import MS, Clock, S

TO = Endpoint(protocol="http", host="192.0.2.1", port=1, model_name="m", secret="only the server's")
BEGAN_NS = time.monotonic_ns()
OTHER = Clock(lambda at_ns: 30 * S + round((at_ns - BEGAN_NS) * 50e-6))


def sent(at_ns: int) -> Sent:
    """One traced request of 6 ms, as its client's clock has it."""
    intended, left, first, done = (OTHER.at(at_ns + after_ms * MS) for after_ms in (0, 1, 5, 6))
    before = {"started_ns": OTHER.at(at_ns), "ended_ns": OTHER.at(at_ns), "worked_ns": {"image": 3}}
    about = {"request": 41, "one_in": 20}
    asked = Asked("a" * 32, "b" * 16, 4, intended, left, first, done, about=about, before=before)
    return Sent([asked], 1, 200, 6.0, 0.5, 240, ("it was late",), 123)


Sends = Callable[..., Sent]


@pytest.fixture
def waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """``waits(send)``: what waits on the load's host, which sends so, in a thread of the test."""
    monkeypatch.setenv(settings.ONE_MACHINE_AS_HOSTS, "1")
    monkeypatch.setattr(far_side, "time", SimpleNamespace(monotonic_ns=lambda: OTHER.at(time.monotonic_ns())))
    monkeypatch.setattr(led_trace, "_QUESTIONS", 60)
    monkeypatch.setattr(led_trace, "EVERY_S", 0.02)
    threads: list[threading.Thread] = []

    def start(send: Sends, home: str = "l" * 32) -> TraceSender:
        monkeypatch.setattr(sampled_load, "send", send)
        side = FarSide("127.0.0.1", 0, "loader", home)
        order: Any = SimpleNamespace(
            load="the load's input", folder=str(tmp_path), data_dir=str(tmp_path), base_dir=str(tmp_path),
            told_path=str(tmp_path / f"told-{len(threads)}"), device_id="", token=None, patience_s=60.0,
        )  # fmt: skip

        def serve() -> None:
            with side:
                trace_sender.serve(order, side)

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return TraceSender(reached=FarWatch.of(side.invitation, ""), host="loader")

    yield start
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def context(folder: Path, cancelled: Callable[[], bool] = lambda: False) -> Context:
    return Context(data_dir=folder / "server", base_dir=folder, cancelled=cancelled)


def test_what_the_load_s_host_sent_comes_to_this_clock(
    waits: Callable[..., TraceSender], tmp_path: Path
) -> None:
    """As often as it is asked, each time to the server, with the seed and the share that were asked for; requests lie
    where they were to the error that they say, and all else is what was told."""
    orders: list[tuple[Any, ...]] = []
    began_ns: list[int] = []

    def send(inp: Any, ctx: Context, endpoint: Endpoint, seed: str | None, one_in: int) -> Sent:
        orders.append((inp, endpoint, seed, one_in))
        began_ns.append(time.monotonic_ns())
        time.sleep(0.2)
        return sent(began_ns[-1])

    with led_trace.led_trace(waits(send), context(tmp_path)) as there:
        told = [there.send(TO, seed, 20) for seed in (None, "r model 0")]
    assert orders == [("the load's input", TO, None, 20), ("the load's input", TO, "r model 0", 20)]
    for each, at_ns in zip(told, began_ns, strict=True):
        (asked,) = each.asked
        assert 0 < asked.clock_error_ns < 20 * MS
        for moment_ns, after_ms in ((asked.intended_ns, 0), (asked.sent_ns, 1), (asked.done_ns, 6)):
            assert abs(moment_ns - at_ns - after_ms * MS) <= asked.clock_error_ns
        assert asked.before is not None and asked.before["started_ns"] == asked.intended_ns
        assert (asked.about, each.failed, each.requests) == ({"request": 41, "one_in": 20}, 1, 200)
        assert (each.answered, each.doubts) == (240, ("it was late",))
        assert each.epoch_offset_ns != 123  # this host's own
        ahead_ms = (OTHER.at(at_ns) - at_ns) / MS  # it gains from when this file was read
        assert each.clock is not None and each.clock["ahead_ms"] == pytest.approx(ahead_ms, abs=20)
        assert each.clock["round_trip"]["count"] > 100
        least_ppm, most_ppm = each.clock["gains_between_ppm"]
        assert least_ppm <= 50 <= most_ppm and least_ppm <= each.clock["gains_ppm"] <= most_ppm
    until_s = time.monotonic() + 10
    while (tmp_path / "traced").exists():  # it is removed there, once the connection has ended
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_why_it_could_not_send_is_said_with_its_name(
    waits: Callable[..., TraceSender], tmp_path: Path
) -> None:
    """Whatever it was: an error of ours in its words, a fault by its kind."""

    def fails(*order: Any) -> Sent:
        raise LoadError("None of the load's 20 requests was chosen")

    with (
        led_trace.led_trace(waits(fails), context(tmp_path)) as there,
        pytest.raises(LoadError, match="^loader, which the load came from: None of the load's 20 requests"),
    ):
        there.send(TO, "s", 20)

    def breaks(*order: Any) -> Sent:
        raise ZeroDivisionError("by nothing")

    with (
        led_trace.led_trace(waits(breaks), context(tmp_path)) as there,
        pytest.raises(LoadError, match="ZeroDivisionError: by nothing"),
    ):
        there.send(TO, "s", 20)


def test_who_cancels_here_ends_what_is_sent_there(waits: Callable[..., TraceSender], tmp_path: Path) -> None:
    """Once the connection is gone nothing is sent any more."""
    ended = threading.Event()

    def send(inp: Any, ctx: Context, *order: Any) -> Sent:
        while not ctx.cancelled():
            time.sleep(0.01)
        ended.set()
        raise CancelledError("it was ended")

    with (
        pytest.raises(CancelledError),
        led_trace.led_trace(waits(send), context(tmp_path, lambda: True)) as there,
    ):
        there.send(TO, "s", 20)
    assert ended.wait(10)


def test_a_machine_is_no_other_host_for_its_own_server(
    waits: Callable[..., TraceSender], tmp_path: Path
) -> None:
    """What is traced would be of another way than the load's."""
    ctx = context(tmp_path)
    home = settings.home_id(ctx.data_dir)
    with (
        pytest.raises(LoadError, match="came to the server's own host"),
        led_trace.led_trace(waits(lambda *order: sent(0), home), ctx),
    ):
        pytest.fail("it was taken for another host")


def test_a_load_stands_where_nothing_can_wait_to_send_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was measured: the trace says why there is none, and the load does not fail for it."""

    def nowhere() -> str:
        raise InputError("A load from another host needs the address of this one, and it has none")

    monkeypatch.setattr(trace_sender, "reached_address", nowhere)
    inp: Any = SimpleNamespace(run_id="r", devices=())
    told = trace_sender.waiting(inp, context(tmp_path))
    assert told.reached is None
    with (
        pytest.raises(LoadError, match=f"waits on {told.host} to send the load again: .* and it has none"),
        led_trace.led_trace(told, context(tmp_path)),
    ):
        pytest.fail("something waits")


def test_a_load_that_nobody_waits_to_send_again_is_said_to_be_so(tmp_path: Path) -> None:
    """Of one of its own host nobody has to."""
    away: Any = SimpleNamespace(job=SimpleNamespace(traffic=SimpleNamespace(away=True)), load=None)
    with (
        pytest.raises(LoadError, match="have the job begin again"),
        traced_load._sender(away, context(tmp_path)),
    ):
        pytest.fail("somebody waits")
    away.job.traffic.away = False
    with traced_load._sender(away, context(tmp_path)) as there:
        assert there is None


@pytest.mark.parametrize(
    ("away", "trace", "starts"), [(True, {}, True), (True, None, False), (False, {}, False)]
)
def test_it_is_started_where_a_load_of_another_host_is_traced(
    away: bool, trace: Any, starts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nowhere else."""
    started = TraceSender(host="loader")
    monkeypatch.setattr(trace_sender, "waiting", lambda inp, ctx: started)
    inp: Any = SimpleNamespace(job=SimpleNamespace(traffic=SimpleNamespace(away=away), trace=trace))
    assert load._trace_sender(inp, context(tmp_path)) == (started if starts else None)
