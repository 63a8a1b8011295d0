"""The gates of streamed tokens: ``python -m benchmarks.llm.gates [--rounds 5] [--minutes 60] [GATE ...]``.

Every truth is the stand-in's own log, or what a queue of known service must do. A gate that is missed is printed so,
and one for which a peer is not there or no time was left.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np

from benchmarks.llm import against
from benchmarks.llm.capacity import capacity
from benchmarks.llm.peers import PeerError
from benchmarks.llm.runs import Run, busy, run

Line = tuple[str, str, bool | None]


def waits(intended_ns: np.ndarray, service_ns: np.ndarray) -> np.ndarray:
    """Time in the system of a queue with one server, in the order of arrival (Lindley 1952)."""
    free = -np.inf
    out = []
    for moment, service in zip(np.sort(intended_ns).astype(float), service_ns, strict=True):
        free = max(moment, free) + service
        out.append(free - moment)
    return np.array(out)


def queue(rounds: int) -> Iterator[Line]:
    """10 requests/s, 0.5 s each, one user: the p99 from the intended moment against the queue's exact value."""
    errors, texts = [], []
    for seed in range(1, rounds + 1):
        pace = "ttft_ms=500,role=false"
        one = run("constant:10", pace, tokens=1, seconds=2.0, connections=1, seed=seed, expect="overload")
        intended = one.rows("intended_ns")
        exact = _p99(waits(intended, np.full(len(intended), 5e8))) / 1e6
        ours = _p99(one.rows("done_ns") - intended) / 1e6
        from_send = _p99(one.rows("done_ns") - one.rows("sent_ns")) / 1e6
        errors.append(ours / exact - 1)
        texts.append(f"p99 {ours:.0f} ms, exact {exact:.0f} ms; from the send {from_send:.0f} ms")
    worst = max(errors, key=abs)
    yield "queue: error of p99", f"worst {worst:+.2%}; last: {texts[-1]}", abs(worst) <= 0.02


def _p99(values: np.ndarray) -> float:
    return float(np.quantile(values, 0.99, method="inverted_cdf"))


def chunks(rounds: int) -> Iterator[Line]:
    """Tokens per chunk 1, 2, 4, 8, as the first chunk is too or of one token: TPOT and tokens/s against the log."""
    paces = [f"tokens_per_chunk={size}" for size in (1, 2, 4, 8)]
    paces += ["tokens_per_chunk=8,first_tokens=1", "tokens_per_chunk=8,first_tokens=1,usage_each=true"]
    errors: dict[str, list[tuple[float, float]]] = {pace: [] for pace in paces}
    for number in range(rounds):
        for pace in paces:
            size = int(pace.split(",")[0].partition("=")[2])
            one = run(
                "poisson:10", f"ttft_ms=60,gap_ms={5 * size},{pace}", tokens=67, seconds=5.0, warmup_s=1.0,
                seed=number + 1, expect="overload",
            )  # fmt: skip
            errors[pace].append((_tpot(one)[0] / _tpot(one)[1] - 1, _rate(one)))
    for pace, pairs in errors.items():
        tpot, rate = (max((pair[side] for pair in pairs), key=abs) for side in (0, 1))
        good = abs(tpot) <= 0.01 and abs(rate) <= 0.01
        yield f"{pace}: largest error of TPOT, of tokens/s", f"{tpot:+.3%}, {rate:+.3%}", good


def _tpot(one: Run) -> tuple[float, float]:
    """Ours and the log's mean of all requests, ms."""
    streams = one.streams
    after = streams["output_tokens"] - streams["first_chunk_tokens"]
    ours = (streams["last_token_ns"] - streams["first_token_ns"]) / after / 1e6
    truth = [
        (entry["chunks"][-1][0] - entry["chunks"][0][0]) / sum(n for _, n in entry["chunks"][1:]) / 1e6
        for entry in one.log
    ]
    return float(ours.mean()), float(np.mean(truth))


def _rate(one: Run) -> float:
    """The error of the reported tokens/s."""
    start, end = one.outcome.measure_start_ns, one.outcome.measure_end_ns
    written = sum(n for entry in one.log for moment, n in entry["chunks"] if start < moment <= end)
    return float(one.tokens["output_tokens_per_s"] / (written / one.window_s) - 1)


def stamps(rounds: int) -> Iterator[Line]:
    """Stamps of first and last chunk after the stand-in began to write them, alone and beside four busy processes."""
    late: dict[tuple[int, str], list[np.ndarray]] = {}
    for number in range(rounds):
        for others in (0, 4):
            for client in ("fast", "reference"):
                with busy(others):
                    one = run(
                        "poisson:20",
                        "ttft_ms=30,gap_ms=10",
                        tokens=32,
                        seconds=5.0,
                        client=client,
                        seed=number + 1,
                    )
                first = np.array([entry["chunks"][0][0] for entry in one.log])
                delay = (np.sort(one.streams["first_token_ns"]) - np.sort(first)) / 1e6
                late.setdefault((others, client), []).append(delay)
    for (others, client), delays in late.items():
        p50, p99 = (median(float(np.quantile(delay, q)) for delay in delays) for q in (0.5, 0.99))
        limit = 1.0 if others else 0.2
        text = f"p50 {p50:.3f} ms, p99 {p99:.3f} ms"
        good = p99 <= limit if client == "fast" else None
        yield f"first token's stamp, {others} busy processes, {client}", text, good


def sender(rounds: int) -> Iterator[Line]:
    """The sender's CPU for each token, (long - short) / tokens: 100 streams, a token each 20 ms."""
    used: dict[str, list[float]] = {"fast": [], "reference": []}
    for number in range(rounds):
        for client, values in used.items():
            short, long = (
                run(
                    "closed_loop:100", "ttft_ms=20,gap_ms=20", tokens=tokens, seconds=8.0, client=client,
                    seed=number + 1,
                )
                for tokens in (2, 200)
            )  # fmt: skip
            counts = [one.tokens["output_tokens_per_s"] * one.window_s for one in (short, long)]
            requests = [one.summary["throughput_rps"] * one.window_s for one in (short, long)]
            each = short.cpu_s / requests[0]  # of a request with two tokens
            values.append((long.cpu_s - each * requests[1]) / (counts[1] - 2 * requests[1]) * 1e6)
    ratios = [ours / theirs for ours, theirs in zip(used["fast"], used["reference"], strict=True)]
    text = (
        f"{median(used['fast']):.1f} us, httpx {median(used['reference']):.1f} us, ratio {median(ratios):.2f}"
    )
    yield "sender's CPU for a token", text, None


GATES: dict[str, Callable[[int], Iterator[Line]]] = {
    "capacity": capacity,
    "queue": queue,
    "chunks": chunks,
    "stamps": stamps,
    "sender": sender,
    "cpu": against.cpu,
    "flood": against.flood,
    "rate": against.rate,
    "times": against.times,
    "peers_queue": against.queue,
}


def main() -> None:
    """Run the gates that are named, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gates", nargs="*", choices=[[], *GATES], help="all unless named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0, help="no gate begins after so many")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    for name in options.gates or GATES:
        if time.monotonic() > until:
            print(f"{name}: NOT MEASURED, {options.minutes:g} minutes are over", flush=True)
            continue
        try:
            for what, value, good in GATES[name](options.rounds):
                verdict = {True: "kept", False: "MISSED", None: ""}[good]
                print(f"{what:<70} {value}  {verdict}", flush=True)
        except PeerError as error:
            print(f"{name}: NOT MEASURED, {error}", flush=True)
        print(f"{'':<70} load average {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
