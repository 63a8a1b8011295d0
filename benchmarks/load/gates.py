"""The gates: a ratio within each round, or a value, whose median over the rounds must lie within a bound."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.load.arrivals import Paced
from benchmarks.load.peers import Measured


@dataclass(frozen=True)
class Gate:
    """A ratio of two clients that must lie on one side of a bound; without ``bound`` it is only shown."""

    name: str
    over: str
    under: str
    bound: float | None
    of: str = "rps"
    at_most: bool = False


GATES = [
    Gate("gRPC requests/s against grpc.aio, canned", "ours grpc", "grpc.aio", 2.0),
    Gate("gRPC CPU per request against grpc.aio", "ours grpc", "grpc.aio", 0.25, "cpu_us", at_most=True),
    Gate("gRPC requests/s against grpc.aio, Triton", "ours triton", "grpc.aio triton", 1.5),
    Gate("gRPC requests/s against perf_analyzer, Triton, small", "ours triton", "perf_analyzer triton", 1.3),
    Gate(
        "gRPC requests/s against perf_analyzer, Triton, image",
        "ours triton image", "perf_analyzer triton image", 1.5,
    ),
    Gate(
        "gRPC requests/s against it, both with shared memory",
        "ours triton image shared", "perf_analyzer triton image shared", 1.2,
    ),
    Gate(
        "gRPC CPU per request against it, the same",
        "ours triton image shared", "perf_analyzer triton image shared", 1.0, "cpu_us", at_most=True,
    ),
    Gate("  ours with shared memory against ours without", "ours triton image shared", "ours triton image", None),
    Gate("HTTP requests/s against locust FastHttpUser", "ours http", "locust", 5.0),
    Gate("HTTP requests/s against aiohttp", "ours http", "aiohttp", 4.0),
    Gate("HTTP requests/s against wrk", "ours http", "wrk", 0.4),
    Gate("gRPC requests/s against h2load", "ours grpc", "h2load", 0.4),
    Gate("  the same with our null server", "ours grpc null", "h2load null", None),
]  # fmt: skip


def report(
    rounds: list[dict[str, Measured]], paced: list[dict[tuple[str, float], Paced]], left_out: list[str]
) -> int:
    """Print the clients, the arrivals, then the gates; 1 if one failed or was not measured."""
    print(f"{'client':<36}{'requests/s by round':<52}{'median':>9}{'CPU us':>9}")
    for name in rounds[0]:
        each = [r[name] for r in rounds]
        values = " ".join(f"{m.rps:,.0f}" for m in each)
        middle = statistics.median(m.rps for m in each)
        print(f"{name:<36}{values:<52}{middle:>9,.0f}{statistics.median(m.cpu_us for m in each):>9.1f}")
    print(f"\n{'arrival at the server':<48}{'p99 by round, us':<40}{'p50':>8}{'p99':>9}")
    for key in paced[0]:
        name = f"{key[0]} at {key[1]:g} requests/s"
        results = [p[key] for p in paced]
        _arrived(f"{name}, from its earliest", [(p.fitted_p50, p.fitted_p99) for p in results])
        arrivals = [(p.arrival_p50, p.arrival_p99) for p in results if p.arrival_p50 and p.arrival_p99]
        if arrivals:
            _arrived(f"{name}, from the intended time", arrivals)
    print(f"\n{'gate':<56}{'bound':>10}{'median':>10}  verdict")
    good = [_ratio(gate, rounds) for gate in GATES]
    for rate in sorted({rate for _, rate in paced[0]}):
        good.append(_arrivals(rate, paced))
        good.append(
            _value(
                f"send lateness p50 at {rate:g} requests/s", "us", 100.0, paced, rate, lambda p: p.sent_p50
            )
        )
        good.append(
            _value(
                f"achieved-rate error at {rate:g} requests/s",
                "%",
                0.5,
                paced,
                rate,
                lambda p: p.rate_error * 100,
            )
        )
    for size in ("triton", "triton image", "triton image shared"):
        _reachable(size, rounds)
    for text in left_out:
        print(f"left out: {text}")
    return 0 if all(good) else 1


def _arrived(name: str, quantiles: list[tuple[float, float]]) -> None:
    p50s, p99s = zip(*quantiles, strict=True)
    values = " ".join(f"{v:,.0f}" for v in p99s)
    print(f"{name:<48}{values:<40}{statistics.median(p50s):>8,.0f}{statistics.median(p99s):>9,.0f}")


def _line(name: str, bound: str, value: str, verdict: str) -> None:
    print(f"{name:<56}{bound:>10}{value:>10}  {verdict}")


def _ratio(gate: Gate, rounds: list[dict[str, Measured]]) -> bool:
    sign = "<=" if gate.at_most else ">="
    bound = "" if gate.bound is None else f"{sign} {gate.bound:g}x"
    if gate.over not in rounds[0] or gate.under not in rounds[0]:
        _line(gate.name, bound, "-", "not measured")
        return gate.bound is None
    ratio = statistics.median(
        getattr(r[gate.over], gate.of) / getattr(r[gate.under], gate.of) for r in rounds
    )
    ok = gate.bound is None or (ratio <= gate.bound if gate.at_most else ratio >= gate.bound)
    _line(gate.name, bound, f"{ratio:.2f}x", "no gate" if gate.bound is None else _verdict(ok))
    return ok


def _reachable(server: str, rounds: list[dict[str, Measured]]) -> None:
    """What a client that costs nothing would reach where server and client share all processors: no gate."""
    ours, theirs = f"ours {server}", f"perf_analyzer {server}"
    if ours in rounds[0] and theirs in rounds[0]:
        server_us = statistics.median(r[ours].server_cpu_us or 0.0 for r in rounds)
        ratio = (server_us + statistics.median(r[theirs].cpu_us for r in rounds)) / server_us
        _line(f"  of perf_analyzer, {server}, by a client without cost", "", f"{ratio:.2f}x", "no gate")
        print(f"    (the server takes {server_us:,.0f} us of CPU for a request)")


def _arrivals(rate: float, paced: list[dict[tuple[str, float], Paced]]) -> bool:
    name = f"arrival p99 against perf_analyzer at {rate:g} requests/s"
    if ("perf_analyzer", rate) not in paced[0]:
        _line(name, "<= 1x", "-", "not measured")
        return False
    ratio = statistics.median(p["ours", rate].fitted_p99 / p["perf_analyzer", rate].fitted_p99 for p in paced)
    _line(name, "<= 1x", f"{ratio:.2f}x", _verdict(ratio <= 1.0))
    return ratio <= 1.0


def _value(
    name: str, unit: str, bound: float, paced: list[dict[tuple[str, float], Paced]], rate: float,
    of: Callable[[Paced], float],
) -> bool:  # fmt: skip
    value = statistics.median(of(p["ours", rate]) for p in paced)
    _line(name, f"<= {bound:g} {unit}", f"{value:.2f} {unit}", _verdict(value <= bound))
    return value <= bound


def _verdict(ok: bool) -> str:
    return "pass" if ok else "FAIL"
