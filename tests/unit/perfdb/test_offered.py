"""The load that a run was offered, as words that are equal for equal loads."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.perfdb.offered import (
    UNKNOWN,
    in_words_of_now,
    named,
    of_requests,
    offered,
    sets_rate,
    spoken,
)


@pytest.mark.parametrize(
    ("load", "text"),
    [
        ({"arrivals": {"kind": "poisson", "rate_rps": 800.0}, "batch_size": 1}, "poisson, 800 samples/s"),
        ({"arrivals": {"kind": "poisson", "rate_rps": 100.0}, "batch_size": 8}, "poisson, 800 samples/s"),
        ({"arrivals": {"kind": "constant", "rate_rps": 800.0}}, "constant, 800 samples/s"),
        ({"arrivals": {"kind": "closed_loop", "concurrency": 4, "think_time_ms": 0.0}, "batch_size": 2},
         "closed_loop, 8 samples in flight"),
        ({"arrivals": {"kind": "closed_loop", "concurrency": 1}}, "closed_loop, 1 sample in flight"),
        ({"arrivals": {"kind": "single_stream"}, "batch_size": 4}, "single_stream, 4 samples in flight"),
        ({"arrivals": {"kind": "multi_stream", "samples_per_query": 8}}, "multi_stream, 8 samples in flight"),
        ({"arrivals": {"kind": "offline", "requests": 500}, "batch_size": 8}, "offline, 4,000 samples"),
        ({"arrivals": {"kind": "gamma", "rate_rps": 10.0, "cv": 2.5}, "network": "wifi"},
         "gamma, cv 2.5, 10 samples/s, network wifi"),
        ({"arrivals": {"kind": "ramp", "start_rate_rps": 10.0, "end_rate_rps": 50.0}, "network": "lan"},
         "ramp, end 50 samples/s, start 10 samples/s"),
        ({"arrivals": {"kind": "max_rate", "start_rate_rps": 100.0, "resolution_ratio": 0.05, "limit_s": 600.0,
                       "objective": "p99_ms <= 20"}, "batch_size": 8}, "max_rate, p99_ms <= 20"),
        ({}, UNKNOWN),
    ],
)  # fmt: skip
def test_a_load_is_told_in_samples(load: dict[str, Any], text: str) -> None:
    """Arrivals with their settings and the network; the same rate of samples is the same load whatever its requests."""
    assert offered(load) == text


def test_what_does_not_make_a_load_harder_is_no_part_of_it() -> None:
    """Duration, seed, client and protocol may differ within one load whose figures do not follow from its length."""
    load = {
        "arrivals": {"kind": "poisson", "rate_rps": 80.0},
        "duration_s": 10.0,
        "seed": 1,
        "client": "fast",
    }
    assert offered(load) == offered(load | {"duration_s": 60.0, "seed": 2, "client": "reference"})


def test_a_batch_of_another_length_is_another_load() -> None:
    """At 100 samples/s the p99 of 1,000 that are there at once is 9.9 s and of 10,000 it is 99 s, by the same server;
    1,000 requests of ten are 10,000 samples.
    """

    def offline(requests: int, size: int) -> str:
        load = {"arrivals": {"kind": "offline", "requests": requests}, "batch_size": size}
        assert offered(load | {"duration_s": 60.0}) == offered(load | {"duration_s": 600.0})
        return offered(load)

    assert offline(1000, 1) == "offline, 1,000 samples" != offline(10_000, 1) == offline(1000, 10)


SPIKE = {
    "kind": "spike",
    "base_rate_rps": 10.0,
    "spike_rate_rps": 100.0,
    "spike_at_s": 5.0,
    "spike_for_s": 2.0,
}
DIURNAL = {"kind": "diurnal", "rate_rps": 10.0, "amplitude_ratio": 0.5, "period_s": 60.0}


@pytest.mark.parametrize(
    ("arrivals", "text"),
    [
        (SPIKE, "spike, base 20 samples/s, spike_at_s 5, spike_for_s 2, spike 200 samples/s"),
        (
            {"kind": "ramp", "start_rate_rps": 10.0, "end_rate_rps": 50.0},
            "ramp, end 100 samples/s, start 20 samples/s",
        ),
        (DIURNAL, "diurnal, amplitude_ratio 0.5, period_s 60, 20 samples/s"),
        ({"kind": "trace", "path": "a.csv"}, "trace, path a.csv, 2 samples in flight"),
    ],
)
def test_a_load_that_changes_with_time_has_a_length(arrivals: dict[str, Any], text: str) -> None:
    """2 s of a peak are a fifth of 10 s and a thirtieth of 60 s: of a p99 they are all or nothing."""
    load = {"arrivals": arrivals, "batch_size": 2, "duration_s": 10.0, "network": "wifi"}
    assert offered(load) == f"{text}, network wifi, for 10 s" != offered(load | {"duration_s": 60.0})
    assert offered(load | {"expect": "overload"}) == f"{text}, network wifi, overload for 10 s"
    ended = load | {"arrivals": arrivals | {"max_requests": 700}}
    assert "ended after 1,400 samples" in offered(ended) and sets_rate(offered(ended)) is True


def test_two_traces_of_one_name_are_two_loads() -> None:
    """By the file's SHA-256, where the result has it; one of before has the path alone."""
    trace = {"kind": "trace", "path": "a.csv"}
    one, other = (
        offered({"arrivals": trace | {"digest": digit * 64}, "duration_s": 10.0}) for digit in ("a", "b")
    )
    assert one == "trace, digest aaaaaaaaaaaa, path a.csv, for 10 s" != other
    assert offered({"arrivals": trace, "duration_s": 10.0}) == "trace, path a.csv, for 10 s"


def test_a_load_that_is_named_without_its_length_is_each_of_them() -> None:
    """As links and scripts of before named it; one that says a length is that one alone."""
    loads = ["offline, 1,000 samples", "offline, 4,000 samples", "offline, network wifi, 1,000 samples",
             "spike, base 20 samples/s, for 10 s", "spike, base 20 samples/s, ended after 9 samples, for 10 s",
             "poisson, 8 samples/s", "closed_loop, 1,000 samples in flight"]  # fmt: skip
    assert [*filter(named("offline"), loads)] == loads[:2]
    assert [*filter(named("offline, 4,000 samples"), loads)] == loads[1:2]
    assert [*filter(named("offline, network wifi "), loads)] == loads[2:3]
    assert [*filter(named("spike, base 20 samples/s"), loads)] == loads[3:5]
    assert [*filter(named("closed_loop"), loads)] == [*filter(named("poisson"), loads)] == []


def test_inputs_in_shared_memory_are_told_with_the_protocol() -> None:
    """Results of before there was another transport were over the network."""
    assert spoken({"protocol": "grpc"}) == spoken({"protocol": "grpc", "transport": "network"}) == "grpc"
    assert spoken({"protocol": "grpc", "transport": None}) == "grpc"
    assert spoken({"protocol": "http", "transport": "shared_memory"}) == "http, inputs in shared memory"
    assert spoken({}) is None


def test_a_figure_of_a_request_depends_on_its_size() -> None:
    """800 requests/s of one sample are no more work than 100 of eight."""
    assert of_requests("poisson, 800 samples/s", 8) == "poisson, 800 samples/s, in requests of 8"


def test_an_arrival_process_with_lists_is_told_too() -> None:
    """A package's arrivals may have settings that can't be hashed."""
    load = {"arrivals": {"kind": "steps", "rates": [10.0, 20.0]}, "batch_size": 1}
    assert offered(load) == "steps, rates [10.0, 20.0]"


def test_the_latencies_of_an_overload_depend_on_its_length() -> None:
    """Half as long an overload has half the p99: it is no better server, and no load that others kept up with."""
    load = {"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "duration_s": 10.0}
    overload = load | {"expect": "overload"}
    assert offered(overload) == "poisson, 80 samples/s, overload for 10 s"
    assert len({offered(load), offered(overload), offered(overload | {"duration_s": 20.0})}) == 3


def test_loads_that_differ_in_the_seventh_digit_differ() -> None:
    """1,000,000 and 1,000,000.25 requests/s are two loads; three samples at 0.1/s are one at 0.3/s, though binary
    numbers are not.
    """

    def at(rate_rps: float, size: int = 1) -> str:
        return offered({"arrivals": {"kind": "poisson", "rate_rps": rate_rps}, "batch_size": size})

    assert at(1_000_000.25) == "poisson, 1000000.25 samples/s" != at(1_000_000.0)
    assert at(0.1, 3) == at(0.3) == "poisson, 0.3 samples/s"
    assert at(1_234_567.0) == "poisson, 1234567 samples/s" and at(2e6) == "poisson, 2e+06 samples/s"


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ({"arrivals": {"kind": "poisson", "rate_rps": 8.0}}, True),
        ({"arrivals": {"kind": "poisson", "rate_rps": 8.0}, "expect": "overload", "duration_s": 20.0}, False),
        ({"arrivals": {"kind": "closed_loop", "concurrency": 8}}, False),
        ({"arrivals": {"kind": "single_stream"}}, False),
        ({"arrivals": {"kind": "offline", "requests": 500}}, False),
        ({"arrivals": {"kind": "max_rate", "objective": "p99_ms <= 20"}}, False),
        ({"arrivals": {"kind": "of_a_package_that_is_not_here"}}, False),
        ({}, False),
    ],
)
def test_an_open_loop_alone_says_how_much_is_answered(load: dict[str, Any], says: bool) -> None:
    """Elsewhere a server answers as fast as it can, and what it uses follows from that."""
    assert sets_rate(offered(load)) is says


def test_a_load_in_the_words_of_before_is_the_load_of_now() -> None:
    """Links and scripts have "1 samples in flight"; other numbers that end in 1 were never said otherwise."""
    now = offered({"arrivals": {"kind": "closed_loop", "concurrency": 1}, "network": "wifi"})
    assert now == "closed_loop, 1 sample in flight, network wifi"
    assert in_words_of_now("closed_loop, 1 samples in flight, network wifi ") == now == in_words_of_now(now)
    for text in (
        "closed_loop, 11 samples in flight",
        "closed_loop, 1,001 samples in flight",
        "poisson, 1 samples/s",
    ):
        assert in_words_of_now(text) == text
