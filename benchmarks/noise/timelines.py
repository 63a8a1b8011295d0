"""Made-up timelines: a server with a queue, once undisturbed and once with pauses, and what the monitors see of them.

The same arrivals and the same work in both, so that what the quiet windows should say is known exactly.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.layout import OK
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.monitors.records import Recording, Series

STEP_NS = 40_000_000
_WARMUP_S = 2.0
#: What others use of the CPU on a quiet machine, cores.
_BACKGROUND_CORES = 0.01

Pauses = NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """``servers`` work in parallel on one queue at ``utilisation``; work times are lognormal with that ``sigma``."""

    name: str
    rate_rps: float
    utilisation: float
    sigma: float = 0.3
    servers: int = 1


LOADS = (
    Load("nearly idle", 400, 0.1), Load("light", 300, 0.3), Load("half", 300, 0.5), Load("busy", 300, 0.7),
    Load("two workers", 300, 0.6, servers=2), Load("heavy tail", 300, 0.3, sigma=1.0),
    Load("fast", 1500, 0.3), Load("slow", 60, 0.4), Load("constant work", 300, 0.5, sigma=0.01),
    Load("four workers", 500, 0.5, sigma=0.6, servers=4),
)  # fmt: skip


@dataclass(frozen=True)
class Work:
    """When requests arrive, s, and how long each takes to be worked on, s."""

    arrival_s: NDArray[np.float64]
    work_s: NDArray[np.float64]
    servers: int
    duration_s: float


def work_of(load: Load, duration_s: float, rng: np.random.Generator) -> Work:
    """Poisson arrivals, with those of a warm-up before 0."""
    count = rng.poisson(load.rate_rps * (duration_s + _WARMUP_S))
    arrival_s = np.sort(rng.uniform(-_WARMUP_S, duration_s, count))
    mean_s = load.utilisation * load.servers / load.rate_rps
    noise = np.exp(load.sigma * rng.standard_normal(count) - load.sigma**2 / 2)
    return Work(arrival_s, mean_s * noise, load.servers, duration_s)


def pauses(
    taken_ratio: float, length_s: float, duration_s: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Rows of (begin, end), s: about that share of the time is taken, in pieces of that length at random moments."""
    if taken_ratio <= 0:
        return np.empty((0, 2))
    gap_s = length_s * (1 - taken_ratio) / taken_ratio
    count = int(3 * duration_s / (length_s + gap_s)) + 10
    begin = np.cumsum(rng.exponential(gap_s, count)) + np.arange(count) * length_s
    return np.column_stack([begin, begin + length_s])[begin < duration_s]


def window_of(work: Work, stops: NDArray[np.float64]) -> Window:
    """The records of the load on a machine where nobody works during ``stops``."""
    # Time as the workers have it: it stands still during a stop.
    lengths = np.diff(stops, axis=1).ravel()
    before = np.concatenate([[0.0], np.cumsum(lengths)])

    def worked(t_s: NDArray[np.float64]) -> NDArray[np.float64]:
        index = np.searchsorted(stops[:, 0], t_s, "right")
        inside = np.minimum(t_s - stops[index - 1, 0], lengths[index - 1]) if len(stops) else 0.0
        return np.where(index > 0, t_s - before[index - 1] - inside, t_s) if len(stops) else t_s

    free = [-np.inf] * work.servers
    done = np.empty(len(work.arrival_s))
    for index, (at, takes) in enumerate(zip(worked(work.arrival_s), work.work_s, strict=True)):
        done[index] = max(at, heapq.heappop(free)) + takes
        heapq.heappush(free, done[index])
    resumes = stops[:, 0] - before[:-1]  # each stop's place in working time
    done_s = done + before[np.searchsorted(resumes, done, "left")] if len(stops) else done
    return _window(work, done_s)


def _window(work: Work, done_s: NDArray[np.float64]) -> Window:
    intended_ns = (work.arrival_s * 1e9).astype(np.int64)
    n = len(intended_ns)
    zeros = np.zeros(n, np.int64)
    return Window(
        start_ns=0, end_ns=int(work.duration_s * 1e9), request_id=np.arange(n), shard=zeros,
        intended_ns=intended_ns, sent_ns=intended_ns, first_byte_ns=zeros - 1, done_ns=(done_s * 1e9).astype(np.int64),
        batch_size=zeros + 1, status=zeros, status_names=[OK], phase=zeros, phase_names=["measure"], spans={},
        client_spans={}, ok=np.ones(n, np.bool_), measured=intended_ns >= 0, mislabelled=0,
    )  # fmt: skip


def recording_of(work: Work, stops: NDArray[np.float64]) -> Recording:
    """What the monitors see: a wait shows whole, in the step in which it ends; others used the CPU meanwhile."""
    end_s = float(max(work.duration_s, stops[-1, 1] if len(stops) else 0.0)) + 1.0
    t_ns = np.arange(int(-_WARMUP_S * 1e9), int(end_s * 1e9), STEP_NS)
    longest_s = np.zeros(len(t_ns))
    foreign_s = (t_ns - t_ns[0]) / 1e9 * _BACKGROUND_CORES
    for begin, end in stops:
        step = int(np.searchsorted(t_ns, end * 1e9))
        longest_s[step] = max(longest_s[step], end - begin)
        foreign_s += np.clip(t_ns / 1e9 - begin, 0.0, end - begin)
    series = {
        ("wait", "server_longest_s"): Series(t_ns, longest_s),
        ("wait", "sender_longest_s"): Series(t_ns, np.zeros(len(t_ns))),
        ("wait", "foreign_s_total"): Series(t_ns, foreign_s),
    }
    return Recording(series, {})
