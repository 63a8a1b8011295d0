"""Links between hosts: both sides for real, over loopback and through a network that delays."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from inferbench_tasks.contracts.link import LinkAround, LinkEnd, MeasuredLink
from inferbench_tasks.errors import InputError, LoadError
from inferbench_tasks.networks import pings
from inferbench_tasks.networks.base import shaping_proxy
from inferbench_tasks.networks.links import measure as measuring
from inferbench_tasks.networks.links import strangers, wire
from inferbench_tasks.networks.links.around import AroundLoad, require_same_host, warnings
from inferbench_tasks.networks.links.far_side import FarSide
from inferbench_tasks.networks.links.invitation import Invitation
from inferbench_tasks.networks.links.measure import clock_of, measure
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.networks.network import Network
from inferbench_tasks.timing.two_clocks import Exchange, bounds_at
from tests.far_side import listening

ME = LinkEnd(host="near", home="n" * 32, address="")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of a fifth of a second."""
    monkeypatch.setattr(measuring, "STREAM_S", 0.2)


def test_a_link_is_measured_from_end_to_end(quick: None) -> None:
    """Both ends, enough round trips for a p99, rates both ways, and clocks that are one: 0 within the error."""
    with listening() as (far, ends), NearSide(far.invitation) as near:
        found = measure(near, ME)
    link = found.link
    assert (link.near.host, link.near.address, link.far.host) == ("near", "127.0.0.1", "far")
    assert link.far.address == "127.0.0.1" and link.far.home == "f" * 32
    assert link.round_trip.count == measuring.MOST_QUESTIONS and link.round_trip.p99_ms is not None
    assert 0 < link.round_trip.min_ms <= link.round_trip.p99_ms <= link.round_trip.max_ms
    assert link.up_mbit_s is not None and link.up_mbit_s > 100
    assert link.down_mbit_s is not None and link.down_mbit_s > 100
    assert link.clock.ahead_s is not None and link.clock.error_s is not None
    assert abs(link.clock.ahead_s) <= link.clock.error_s < 0.05
    bounds = bounds_at(found.exchanges, time.monotonic_ns())
    assert bounds is not None and bounds.low_ns <= 0 <= bounds.high_ns
    assert ends == ["127.0.0.1"]
    assert MeasuredLink.model_validate_json(link.model_dump_json()) == link


def test_a_delay_on_the_way_is_in_the_round_trip_and_not_in_the_clock(tmp_path: Path) -> None:
    """20 ms each way, by a proxy: the shortest trip takes 40, and the true offset, 0, is within an error of 20 ms."""
    network = Network(name="test", source="test", date="2024", latency_ms=20)
    with (
        listening() as (far, _),
        shaping_proxy(network, "127.0.0.1", far.invitation.port, tmp_path / "log") as port,
        NearSide(replace(far.invitation, port=int(port))) as near,
    ):
        link = measure(near, ME, streams=False).link
    assert link.round_trip.min_ms == pytest.approx(40, rel=0.10)
    assert 64 <= link.round_trip.count < measuring.MOST_QUESTIONS and link.round_trip.p99_ms is None
    assert link.up_mbit_s is None and link.down_mbit_s is None
    assert link.clock.ahead_s is not None and link.clock.error_s is not None
    assert abs(link.clock.ahead_s) <= link.clock.error_s
    assert 0.015 < link.clock.error_s < 0.03


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_rate_is_that_of_its_direction(direction: str, tmp_path: Path) -> None:
    """16 Mbit/s one way and 64 the other, by a proxy: each within 10%."""
    network = Network(name="test", source="test", date="2024", latency_ms=2, up_mbit_s=16, down_mbit_s=64)
    with (
        listening() as (far, _),
        shaping_proxy(network, "127.0.0.1", far.invitation.port, tmp_path / "log") as port,
        NearSide(replace(far.invitation, port=int(port))) as near,
    ):
        rate = near.up_mbit_s(2.0) if direction == "up" else near.down_mbit_s(2.0)
    assert rate == pytest.approx(16 if direction == "up" else 64, rel=0.10)


def test_who_does_not_know_the_secret_is_let_go_and_the_other_still_served() -> None:
    """A wrong secret, one that hangs up, and one that talks rubbish; the secret itself is never sent."""
    with listening() as (far, ends):
        wrong = Invitation.drawn("127.0.0.1", far.invitation.port)
        with pytest.raises(LoadError, match="did not take the secret"), NearSide(wrong):
            pass
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n" * 8):
            with socket.create_connection(("127.0.0.1", far.invitation.port)) as stranger:
                heard = stranger.recv(4096)
                stranger.sendall(data)
                with suppress(OSError):  # it was let go already, with what it said unread
                    stranger.shutdown(socket.SHUT_WR)
                    heard += b"".join(iter(lambda: stranger.recv(4096), b""))
            assert heard.startswith(wire.MAGIC) and len(heard) == len(wire.MAGIC) + wire.NONCE_BYTES
        assert ends == []
        with NearSide(far.invitation) as near:
            assert near.far.host == "far"
    assert ends == ["127.0.0.1"]


def test_strangers_that_say_nothing_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """All places taken by silent ones, and one that says a byte now and then: who knows the secret comes in at once."""
    monkeypatch.setattr(strangers, "PLACES", 4)
    with listening() as (far, ends), ExitStack() as stack:
        place = ("127.0.0.1", far.invitation.port)
        silent = [stack.enter_context(socket.create_connection(place)) for _ in range(6)]
        for one in silent:
            assert wire.receive(one, 1) == wire.MAGIC[:1]
        silent[-1].sendall(b"x")
        began = time.monotonic()
        with NearSide(far.invitation) as near:
            assert near.far.host == "far"
        assert time.monotonic() - began < wire.GREETING_S / 2
    assert ends == ["127.0.0.1"]


def test_a_greeting_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says a byte again and again is let go after it as who says nothing, and the listener's patience holds."""
    monkeypatch.setattr(wire, "GREETING_S", 0.1)
    with listening(patience_s=0.3) as (far, ends):
        with socket.create_connection(("127.0.0.1", far.invitation.port)) as slow:
            slow.settimeout(5.0)
            began = time.monotonic()
            with suppress(OSError):
                for _ in range(wire.ANSWER_BYTES - 1):
                    slow.sendall(b"x")
                    time.sleep(0.02)
            assert time.monotonic() - began < 1.0
    assert ends == [None]


def test_questions_in_words_are_answered_with_bytes() -> None:
    """By who takes them; what nobody takes, and what is longer than words are, ends the connection."""
    ends: list[object] = []
    with FarSide("127.0.0.1", 0, "far", "f" * 32) as far:

        def serve() -> None:
            try:
                far.serve(20.0, answering=lambda words: words.upper().encode() * 3)
            except ConnectionError as error:
                ends.append(error)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with NearSide(far.invitation) as near:
            assert near.ask("a\u00df") == b"ASSASSASS" and near.ask("") == b""
            assert near.exchanges(1, 1.0)[0].round_trip_ns > 0
            with pytest.raises(LoadError, match="was lost"):
                near.ask("x" * 5000)
        thread.join(10)
    assert len(ends) == 1 and "5000 bytes where at most 4096" in str(ends[0])
    with (
        listening() as (deaf, heard),
        NearSide(deaf.invitation) as near,
        pytest.raises(LoadError, match="was lost"),
    ):
        near.ask("who is there")
    assert isinstance(heard[0], ConnectionError) and "an order that nobody knows" in str(heard[0])


def test_the_secret_counts_once() -> None:
    """Once somebody who knows it was there, nobody is heard, while it is measured and after."""
    with listening() as (far, _):
        with NearSide(far.invitation):
            with pytest.raises(LoadError, match="can't be reached"), NearSide(far.invitation):
                pass
        with pytest.raises(LoadError, match="can't be reached"), NearSide(far.invitation):
            pass


def test_who_listens_proves_that_it_is_who_wrote_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else on that port, who says what the far side would say, is found out; so is any other server."""
    monkeypatch.setattr(wire, "TIMEOUT_S", 1.0)

    def impostor(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(wire.greeting(nonce := bytes(wire.NONCE_BYTES)))
            assert wire.proof_for(b"guessed", nonce, wire.receive(connection, wire.ANSWER_BYTES)) is None
            connection.sendall(bytes(wire.PROOF_BYTES))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=impostor, args=(listener,), daemon=True)
        thread.start()
        drawn = Invitation.drawn("127.0.0.1", listener.getsockname()[1])
        with pytest.raises(LoadError, match="does not know the secret"), NearSide(drawn):
            pass
        thread.join(10)
    with pings.echo() as port:
        other = Invitation.drawn("127.0.0.1", port)
        with pytest.raises(LoadError), NearSide(other):
            pass


def test_nobody_came() -> None:
    """It says so after its patience, and the port is free again."""
    with listening(patience_s=0.2) as (far, ends):
        pass
    assert ends == [None]
    with (
        pytest.raises(LoadError, match="is `inferbench links listen` still waiting there"),
        NearSide(far.invitation),
    ):
        pass


def test_a_peer_that_goes_away_in_the_middle_is_no_measurement() -> None:
    """The far side says who it was."""
    with listening() as (far, ends), NearSide(far.invitation) as near:
        near.exchanges(3, 1.0)
        near._connection.shutdown(socket.SHUT_RDWR)
    assert len(ends) == 1 and "went away in the middle" in str(ends[0])


def test_a_link_that_is_lost_under_a_load_keeps_what_was_measured_before(quick: None) -> None:
    """With the reason why there is no second; it is a warning beside the load's figures."""
    with listening() as (far, _), NearSide(far.invitation) as near:
        around = AroundLoad(near, ME)
        near._connection.shutdown(socket.SHUT_RDWR)
        link = around.ended()
    assert link.before == around.before.link and link.after is None and link.drift_ppm is None
    (warning,) = warnings(link)
    assert warning.startswith('the link was measured before the load only: the link to "far"')


def test_a_link_before_and_after_a_load(quick: None) -> None:
    """Both, and what one clock gained on the other meanwhile: 0 of one and the same."""
    with listening() as (far, _), NearSide(far.invitation) as near:
        around = AroundLoad(near, ME)
        time.sleep(0.5)
        link = around.ended()
    assert link.after is not None and link.after.measured_at > link.before.measured_at
    assert link.drift_ppm is not None and link.drift_ppm[0] <= 0 <= link.drift_ppm[1]
    assert LinkAround.model_validate_json(link.model_dump_json()) == link


def around(first_ms: float, last_ms: float) -> LinkAround:
    """A link whose round trips had these medians."""

    def one(ms: float) -> MeasuredLink:
        return MeasuredLink.model_validate(
            {
                "near": ME, "far": ME, "measured_at": "2026-01-01T00:00:00.000+00:00", "up_mbit_s": None,
                "down_mbit_s": None, "clock": {"ahead_s": None, "error_s": None, "reason": "x"},
                "round_trip": {
                    "count": 100, "min_ms": ms, "p50_ms": ms, "p90_ms": ms, "p99_ms": None, "max_ms": ms
                },
            }
        )  # fmt: skip

    return LinkAround(before=one(first_ms), after=one(last_ms))


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "words"), [(20, 26, 1), (26, 20, 1), (20, 24, 0), (0.1, 0.25, 0)]
)
def test_a_link_that_was_another_at_the_end_is_said(first_ms: float, last_ms: float, words: int) -> None:
    """By more than a quarter, and more than what a host's own wakings do."""
    assert len(warnings(around(first_ms, last_ms))) == words


def test_a_file_of_a_link_is_closed_to_others_and_never_quoted(tmp_path: Path) -> None:
    """Written once with mode 600; read back as it was; refused where others may read it, and where it is none."""
    path = tmp_path / "link.txt"
    invitation = Invitation.drawn("192.0.2.11", 4711)
    invitation.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Invitation.read(str(path)) == invitation
    assert invitation.secret.hex() not in repr(invitation)
    with pytest.raises(InputError, match="can't be written"):
        invitation.write(path)
    path.chmod(0o640)
    with pytest.raises(InputError, match="open to other users"):
        Invitation.read(str(path))
    for text in (
        invitation.text[:-1],
        invitation.text.replace("4711", "70000"),
        "",
        "secret-of-something-else",
    ):
        with pytest.raises(InputError) as refused:
            Invitation.parse(text)
        assert "secret-of" not in str(refused.value) and invitation.secret.hex()[:60] not in str(
            refused.value
        )
    with pytest.raises(InputError, match="No such file"):
        Invitation.read(str(tmp_path / "none"))


@pytest.mark.parametrize("address", ["leader.example", "0.0.0.0", "::", "192.0.2"])
def test_a_link_is_listened_on_at_one_address(address: str) -> None:
    """No name, which may mean another host over there, and not all addresses at once."""
    with pytest.raises(InputError, match="IP address|every address"):
        FarSide(address, 0, "far", "f" * 32)


def test_an_address_of_another_host_can_not_be_listened_on() -> None:
    """The reason is the system's."""
    with pytest.raises(InputError, match=r"192\.0\.2\.7 port 0 can't be listened on: "):
        FarSide("192.0.2.7", 0, "far", "f" * 32)


def test_a_link_to_another_host_than_the_server_s_is_refused() -> None:
    """Another network would be measured; a name counts by its addresses."""
    drawn = Invitation.drawn("127.0.0.1", 1)
    require_same_host(drawn, "localhost")
    require_same_host(drawn, "127.0.0.1")
    with pytest.raises(InputError, match="listen on the address that the load goes to"):
        require_same_host(drawn, "127.0.0.2")


def test_clocks_that_were_set_meanwhile_tell_no_offset() -> None:
    """A Unix clock that was set, here or there, and a CLOCK_MONOTONIC that contradicts itself: no figure, and why."""
    exchanges = [Exchange(0, 100, 110, 200), Exchange(1000, 1100, 1110, 1200)]
    still, moved = {"offset_ns": 0, "error_ns": 5}, {"offset_ns": 2_000_000, "error_ns": 5}
    assert clock_of(exchanges, (still, still), (still, still)).reason == ""
    for after in ((moved, still), (still, moved)):
        told = clock_of(exchanges, (still, still), after)
        assert (told.ahead_s, told.error_s, told.reason) == (None, None, measuring.SET_MEANWHILE)
    jumped = [exchanges[0], Exchange(1000, 10**9, 10**9 + 10, 1200)]
    assert clock_of(jumped, (still, still), (still, still)).reason == measuring.CONTRADICT


def test_the_error_of_a_clock_has_all_that_is_not_known_in_it() -> None:
    """Half the round trip, what the clocks may have drifted, both readings of Unix time, and what they moved."""
    exchanges = [Exchange(0, 1_000_100, 1_000_110, 200)]
    before, after = {"offset_ns": 7, "error_ns": 5}, {"offset_ns": 10, "error_ns": 5}
    told = clock_of(exchanges, (before, before), (after, after))
    bounds = bounds_at(exchanges, 200)
    assert bounds is not None and told.ahead_s == pytest.approx(bounds.middle_ns / 1e9, abs=1e-12)
    assert told.error_s == pytest.approx((bounds.error_ns + 4 * 5 + 2 * 3) / 1e9, abs=1e-12)


def test_a_stream_s_rate_is_of_its_settled_part() -> None:
    """What came in the first third of the time is not counted: here a burst that a buffer had ready."""
    here, there = socket.socketpair()
    with here, there:

        def send() -> None:
            for _ in range(40):
                there.sendall(bytes([1]) * wire.CHUNK)
            for _ in range(20):
                time.sleep(0.02)
                there.sendall(bytes([1]) * wire.CHUNK)
            there.sendall(bytes(wire.CHUNK))

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        counted = wire.receive_stream(here)
        thread.join(10)
    assert 10 * wire.CHUNK <= counted.size <= 16 * wire.CHUNK
    assert counted.mbit_s == pytest.approx(wire.CHUNK * 8e-6 / 0.02, rel=0.25)
