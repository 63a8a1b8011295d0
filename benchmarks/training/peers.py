"""Our step beside a bare script's: ``python -m benchmarks.training.peers [--pairs N]``.

Epochs of both in turns, in the same processes under torchrun, so that what else the machine does meets both. The ratio
of their steps is the mean over pairs on the logarithm, with Student's 95% interval; CPU time beside the wall clock. The
gate: at most 2% by the wall clock, with the whole interval. What its sandbox and monitors cost a run is not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

from inferbench_tasks.training.datasets import arrays
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Order

GATE_RATIO = 1.02
#: Network -> image side and batch: a step of a few ms, and one of some tens.
CASES = {"fashion-cnn": (28, 32), "resnet-18": (32, 16)}


def measured(network: str, processes: int, pairs: int, folder: Path) -> list[dict[str, tuple[float, float]]]:
    """Seconds and CPU seconds of a step, of ours and of the plain loop, by pair."""
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
    images, labels = arrays(job, folder)
    np.save(folder / "images.npy", images)
    np.save(folder / "labels.npy", labels)
    order = Order(job=job, images_path=str(folder / "images.npy"), labels_path=str(folder / "labels.npy"))
    (folder / "order.json").write_text(order.model_dump_json())
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
            "--nproc-per-node", str(processes), "-m", "benchmarks.training.beside_plain",
            str(folder / "order.json"), str(pairs),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE, text=True, check=True, timeout=1800,
    )  # fmt: skip
    rows: list[dict[str, tuple[float, float]]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def ratio(rows: list[dict[str, tuple[float, float]]], at: int) -> tuple[float, float, float]:
    """Ours by the plain loop's, with its 95% interval; ``at``: 0 the wall clock, 1 CPU time."""
    logs = np.log([row["ours"][at] / row["plain"][at] for row in rows])
    half = float(stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5)
    low, mean, high = np.exp([logs.mean() - half, logs.mean(), logs.mean() + half])
    return float(mean), float(low), float(high)


def main() -> int:
    """A line for each case; 1 where the gate fails or the interval does not tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    pairs, kept = parser.parse_args().pairs, True
    print(f"load {os.getloadavg()[0]:.1f}; {pairs} pairs of epochs each")
    for network in CASES:
        for processes in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                rows = measured(network, processes, pairs, Path(folder))
            wall, cpu = ratio(rows, 0), ratio(rows, 1)
            state = "kept" if wall[2] <= GATE_RATIO else "failed" if wall[1] > GATE_RATIO else "not told"
            kept = kept and state == "kept"
            step_ms = 1e3 * float(np.median([row["plain"][0] for row in rows]))
            print(
                f"{network}, {processes} process(es): a step of {step_ms:.2f} ms, ours {wall[0]:.3f} times as long "
                f"({wall[1]:.3f} to {wall[2]:.3f}), CPU time {cpu[0]:.3f} ({cpu[1]:.3f} to {cpu[2]:.3f}): {state}",
                flush=True,
            )
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
