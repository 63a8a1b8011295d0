"""The gates beside AIPerf and GuideLLM: whole tools on the same stand-in, in turns within each round."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.llm.peers import TOOLS, Ask
from benchmarks.llm.runs import busy
from inferbench_tasks.loadgen.null_server import EVENT_BYTES, null_server
from tests.llm_stand_in import StandIn, stand_in

Line = tuple[str, str, bool | None]
Each = dict[str, list[float]]


@contextmanager
def _server(pace: str, slots: int = 0) -> Iterator[tuple[StandIn, Path]]:
    with tempfile.TemporaryDirectory(prefix="inferbench-llm-") as name, ExitStack() as stack:
        folder = Path(name)
        yield stack.enter_context(stand_in(folder, "--pace", pace, "--slots", str(slots))), folder


def _per_token(pace: str, rounds: int, tokens: int, tools: tuple[str, ...]) -> Each:
    """CPU us of each tool for a token: of 200 requests with so many each without that of as many with 2."""
    used: Each = {name: [] for name in tools}
    with _server(pace) as (server, folder):
        TOOLS["ours"](Ask(server.url, 4, 2, users=2), folder)  # measures the client's ceiling
        for _ in range(rounds):
            for name in tools:
                short, long = (TOOLS[name](Ask(server.url, 200, n, users=100), folder) for n in (2, tokens))
                used[name].append((long.cpu_s - short.cpu_s) / (long.tokens - short.tokens) * 1e6)
    return used


def _ratios(used: Each, bounds: Mapping[str, float]) -> Iterator[Line]:
    for name, bound in bounds.items():
        ratio = median(mine / theirs for mine, theirs in zip(used["ours"], used[name], strict=True))
        text = (
            f"{median(used['ours']):.1f} us, {median(used[name]):.1f} us: {ratio:.3f} (at most {bound:.3f})"
        )
        yield f"CPU for a token beside {name}, whole tools", text, ratio <= bound


def cpu(rounds: int) -> Iterator[Line]:
    """100 streams, a token each 20 ms."""
    used = _per_token("ttft_ms=20,gap_ms=20", rounds, 400, ("ours", "AIPerf", "GuideLLM"))
    yield from _ratios(used, {"AIPerf": 1 / 8, "GuideLLM": 1 / 8})


def flood(rounds: int) -> Iterator[Line]:
    """100 streams, as fast as the stand-in writes."""
    used = _per_token("ttft_ms=0,gap_ms=0", rounds, 2000, ("ours", "AIPerf"))
    yield from _ratios(used, {"AIPerf": 1 / 15})


def rate(rounds: int) -> Iterator[Line]:
    """Tokens/s of a tool on one core from a server that only writes events; ours with how long they waited.

    All of the tool's processes are on that core; the rate is of the load alone.
    """
    rates: Each = {"ours": [], "AIPerf": []}
    delays = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inferbench-llm-")))
        url = f"http://{stack.enter_context(null_server('openai', 1000 * EVENT_BYTES)).url}"
        TOOLS["ours"](Ask(url, 4, 1000, users=2), folder)
        for _ in range(rounds):
            for name, values in rates.items():
                told = TOOLS[name](Ask(url, 400, 1000, users=32, cores="1"), folder)
                values.append(told.tokens_per_s)
                if told.stamp_delay_ms is not None:
                    delays.append(told.stamp_delay_ms)
    ratio = median(mine / theirs for mine, theirs in zip(rates["ours"], rates["AIPerf"], strict=True))
    mine, delay = median(rates["ours"]), median(delays)
    text = f"{mine:,.0f}/s, chunks wait p99 {delay:.1f} ms; AIPerf {median(rates['AIPerf']):,.0f}/s: {ratio:.1f} x"
    yield "tokens/s on one core", text, ratio >= 8 and mine >= 40_000 and delay < 5


def times(rounds: int) -> Iterator[Line]:
    """TTFT (from the send) and time per token, p50 and p99, against the log; 800 requests of 32 tokens, 60 a second."""
    off: dict[tuple[int, str, str], list[float]] = {}
    with _server("ttft_ms=30,gap_ms=10") as (server, folder):
        TOOLS["ours"](Ask(server.url, 4, 2, users=2), folder)
        for _ in range(rounds):
            for others in (0, 4):
                for name, tool in TOOLS.items():
                    before = len(server.log())
                    with busy(others):
                        told = tool(Ask(server.url, 800, 32, rate_rps=60), folder)
                    truth = _truth([entry for entry in server.log()[before:] if len(entry["chunks"]) == 32])
                    for figure, quantile in truth:
                        reported = getattr(told, figure)[quantile]
                        key = (others, name, f"{figure} {quantile}")
                        off.setdefault(key, []).append(abs(reported - truth[figure, quantile]))
    errors = {key: median(values) for key, values in off.items()}
    for (others, name, figure), error in errors.items():
        good = None
        if name == "ours":
            peers = [errors[others, peer, figure] for peer in TOOLS if peer != "ours"]
            good = error <= (1.0 if others else 0.2) and error <= min(peers) / 2
        yield f"error of {figure}, {others} busy processes, {name}", f"{error:.3f} ms", good


def _truth(log: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """From the moment at which the stand-in read a request to those right before it wrote its chunks."""
    moments = np.array([[moment for moment, _ in entry["chunks"]] for entry in log])
    received = np.array([entry["received_ns"] for entry in log])
    series = {
        "ttft_ms": (moments[:, 0] - received) / 1e6,
        "tpot_ms": (moments[:, -1] - moments[:, 0]) / (moments.shape[1] - 1) / 1e6,
    }
    return {
        (name, quantile): float(np.quantile(values, q, method="inverted_cdf"))
        for name, values in series.items()
        for quantile, q in (("p50", 0.5), ("p99", 0.99))
    }


def queue(rounds: int) -> Iterator[Line]:
    """10 requests/s for a server that takes half a second each, one at a time: AIPerf's p99 with one user."""
    with _server("ttft_ms=500,role=false") as (server, folder):
        ask = Ask(server.url, 20, 1, users=1, rate_rps=10, poisson=False)
        told = [TOOLS["AIPerf"](ask, folder) for _ in range(rounds)]
    exact = 8_100.0  # of twenty: the last waits for nineteen of 0.5 s and comes 1.9 s after the first
    p99 = median(one.latency_ms["p99"] for one in told)
    yield (
        "10 requests/s, one user: AIPerf's p99",
        f"{p99:,.0f} ms, exact {exact:,.0f} ms: {exact / p99:.1f} x",
        None,
    )
