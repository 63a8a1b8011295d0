"""Our step beside a bare script's.

    python -m benchmarks.training.peers [--pairs N] [--starts N] [--minutes M] [--rows FILE]

Epochs of both in turns, in the same processes under torchrun, so that what else the machine does meets both. Where the
allocator puts a network makes one of two equal loops up to 10% faster for as long as it lives, so that there are
several starts, in each of which both are made several times, the other of the two first in turns. The ratio of the
steps is the mean of the starts' means over their pairs, on the logarithm, with Student's 95% interval over the starts;
CPU time beside the wall clock.
The gate: at most 2% by the wall clock, with the whole interval. What its sandbox and monitors cost a run is not in it.

Rows are appended to a file of JSON lines, case by case, the short steps first; a case that is decided there, by this
code on this machine, is not run again.
After ``--minutes`` no case is begun, and each is told as far as it is decided: kept, failed, not told, not run.
Exit 0 only if all are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.training.rows import Row, Rows, conditions
from inferbench_tasks.training.datasets import arrays
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Order

GATE_RATIO = 1.02
KEPT, FAILED = "kept", "failed"
#: Network -> image side and batch: a step of a few ms, and one of some tens.
CASES = {"fashion-cnn": (28, 32), "resnet-18": (32, 16)}
#: Pairs of epochs of each making, even: each is the first in half of them.
PAIRS = {"fashion-cnn": 6, "resnet-18": 2}
#: How often both are made in each start, even for the same reason.
MAKINGS = 4
STARTS = 16
Times = dict[str, tuple[float, float]]


def measured(network: str, processes: int, pairs: int, starts: int, folder: Path) -> list[list[Times]]:
    """Of each start seconds and CPU seconds of a step, of ours and of the plain loop, by pair."""
    side, batch = CASES[network]
    job = TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "peers",
            "model": {"name": network},
            "data": {"kind": "digits", "samples": batch * 12 * processes, "image_size": side},
            "train": {"batch_size": batch},
            "devices": {"processes": processes, "strategy": "ddp" if processes > 1 else "single"},
        }
    )
    prepare(job, folder)
    return [start(processes, pairs, ("ours", "plain")[number % 2], folder) for number in range(starts)]


def prepare(job: TrainingJob, folder: Path) -> None:
    """The files that both read: samples, labels and the job."""
    images, labels = arrays(job, folder)
    np.save(folder / "images.npy", images)
    np.save(folder / "labels.npy", labels)
    order = Order(job=job, images_path=str(folder / "images.npy"), labels_path=str(folder / "labels.npy"))
    (folder / "order.json").write_text(order.model_dump_json())


def start(processes: int, pairs: int, made_first: str, folder: Path) -> list[Times]:
    """One start of both, of what was prepared in ``folder``."""
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
            "--nproc-per-node", str(processes), "-m", "benchmarks.training.beside_plain",
            str(folder / "order.json"), str(MAKINGS), str(pairs), made_first,
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE, text=True, check=True, timeout=1800,
    )  # fmt: skip
    rows: list[Times] = json.loads(done.stdout.splitlines()[-1])
    return rows


def ratio(starts: Sequence[Sequence[Times]], at: int) -> tuple[float, float, float]:
    """Ours by the plain loop's, with its 95% interval; ``at``: 0 the wall clock, 1 CPU time."""
    return with_interval(
        [float(np.mean([np.log(row["ours"][at] / row["plain"][at]) for row in rows])) for rows in starts]
    )


def with_interval(log_ratios: Sequence[float]) -> tuple[float, float, float]:
    """The mean ratio of starts, from the logarithm of each one's, with Student's 95% interval."""
    logs = np.array(log_ratios)
    half = float(stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5)
    low, mean, high = np.exp([logs.mean() - half, logs.mean(), logs.mean() + half])
    return float(mean), float(low), float(high)


def main() -> int:
    """Run what is not decided yet, then a line for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pairs",
        type=int,
        help="of epochs, of each making; of an odd number one of both is first more often [by the network]",
    )
    parser.add_argument("--starts", type=int, default=STARTS, help="of processes, of each case")
    parser.add_argument("--minutes", type=float, help="begin no case after so long")
    parser.add_argument("--rows", type=Path, default=Path(tempfile.gettempdir()) / "training-peers.jsonl")
    options = parser.parse_args()
    started_s = time.monotonic()
    kept = Rows(options.rows, conditions(pairs=options.pairs, starts=options.starts))
    kept.say_others()
    for network, processes in ((network, processes) for network in CASES for processes in (1, 2)):
        late = options.minutes and time.monotonic() - started_s > 60 * options.minutes
        if late or state_of(newest(kept.read(), network, processes)) in (KEPT, FAILED):
            continue
        with tempfile.TemporaryDirectory() as folder:
            pairs = options.pairs or PAIRS[network]
            starts = measured(network, processes, pairs, options.starts, Path(folder))
        row = row_of(network, processes, starts)
        kept.add(row)
        print(f"{network}, {processes} process(es): {state_of(row)}", file=sys.stderr, flush=True)
    found = {(n, p): newest(kept.read(), n, p) for n in CASES for p in (1, 2)}
    for (network, processes), known in found.items():
        print(f"{network}, {processes} process(es): {_said(known)}")
    return 0 if all(state_of(known) == KEPT for known in found.values()) else 1


def row_of(network: str, processes: int, starts: Sequence[Sequence[Times]]) -> Row:
    """What its starts say, and what else the machine did."""
    return {
        "network": network,
        "processes": processes,
        "starts": len(starts),
        "pairs": sum(map(len, starts)),
        "load": os.getloadavg()[0],
        "step_ms": 1e3 * float(np.median([row["plain"][0] for rows in starts for row in rows])),
        "wall": ratio(starts, 0),
        "cpu": ratio(starts, 1),
    }


def newest(rows: Sequence[Row], network: str, processes: int) -> Row | None:
    """The last row of a case."""
    of_case = [row for row in rows if (row["network"], row["processes"]) == (network, processes)]
    return of_case[-1] if of_case else None


def state_of(row: Row | None) -> str:
    """By the interval of the wall clock's ratio."""
    if row is None:
        return "not run"
    _, low, high = row["wall"]
    return KEPT if high <= GATE_RATIO else FAILED if low > GATE_RATIO else "not told"


def _said(row: Row | None) -> str:
    if row is None:
        return state_of(row)
    wall, cpu = row["wall"], row["cpu"]
    return (
        f"a step of {row['step_ms']:.2f} ms, ours {wall[0]:.3f} times as long ({wall[1]:.3f} to {wall[2]:.3f}), CPU "
        f"time {cpu[0]:.3f} ({cpu[1]:.3f} to {cpu[2]:.3f}), {row['pairs']} pairs of {row['starts']} starts at a "
        f"load of {row['load']:.1f}: {state_of(row)}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
