"""Our step of a BERT's training, a plain loop's and optimum-benchmark's.

    python -m benchmarks.training.optimum [--starts N] [--environment FOLDER]

The same sizes, batch, threads, precision and optimiser (SGD without momentum, no clipping, no dropout) on both sides;
tokens by chance. optimum-benchmark (0.6.0) brings its own transformers and Trainer, so that it runs in an environment
of its own, which the first call makes (1.5 GB, from the package index) and later ones find again. Starts of both
in turns; the ratio is the mean of the starts' on the logarithm, with Student's 95% interval over them.

The two networks are written twice (transformers' and ours), and what is timed differs: a step of optimum-benchmark's
begins when its batch is there, ours and the plain loop's are whole. What each leaves out is told below the figures.
There is no gate: this is what a user of that package would read, beside what ours says.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

from benchmarks.training.peers import prepare, start, with_interval
from inferbench_tasks.training.job import TrainingJob

PINS = Path(__file__).with_name("optimum-requirements.txt")
USUAL_ENVIRONMENT = (
    Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "inferbench" / "optimum-benchmark"
)
STARTS, PAIRS, WARMUP_STEPS, STEPS, BATCH = 6, 2, 5, 40, 8
LENGTH, CLASSES, LEARNING_RATE = 64, 10, 0.01
#: By our names; transformers' are made of them.
SIZES = {"layers": 4, "hidden": 256, "heads": 4, "intermediate": 1024, "vocabulary": 8192, "length": LENGTH}
LEFT_OUT = (
    "optimum-benchmark leaves out: loading (its steps begin with the batch there), data from files, phases of a step, "
    "CPU time and waits for a core, whether the machine was disturbed, an interval",
    "SuperBench is in no package index under its name, and was not run: by its source its timer starts after loading "
    "too",
)


def job() -> TrainingJob:
    """Ours, by the same settings."""
    return TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "optimum",
            "model": {"name": "bert-base", "arguments": SIZES},
            "data": {"kind": "dummy", "samples": BATCH * (WARMUP_STEPS + STEPS)},
            "train": {
                "batch_size": BATCH,
                "warmup_steps": WARMUP_STEPS,
                "learning_rate": LEARNING_RATE,
                "momentum": 0.0,
            },
        }
    )


def environment(folder: Path) -> Path:
    """The Python of optimum-benchmark's environment, which is made where there is none of these pins."""
    python, done = folder / "bin" / "python", folder / PINS.name
    if folder.exists() and any(folder.iterdir()) and not done.exists():
        raise SystemExit(
            f"--environment {folder}: is no environment of this benchmark, and not empty: name another"
        )
    if not done.exists() or done.read_text() != PINS.read_text():
        print(f"making {folder} by {PINS.name} (some minutes, once)", file=sys.stderr, flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        done.write_text("")  # it is ours from now on, whole or not
        venv.create(folder, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", PINS]
        subprocess.run(list(map(str, pip)), check=True)
        done.write_text(PINS.read_text())
    return python


def optimum_steps_s(python: Path) -> list[float]:
    """Seconds of each step of one start."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {
            "folder": name,
            "bert": {
                "num_hidden_layers": SIZES["layers"],
                "hidden_size": SIZES["hidden"],
                "num_attention_heads": SIZES["heads"],
                "intermediate_size": SIZES["intermediate"],
                "vocab_size": SIZES["vocabulary"],
            },
            "classes": CLASSES,
            "length": LENGTH,
            "batch_size": BATCH,
            "steps": STEPS,
            "warmup_steps": WARMUP_STEPS,
            "learning_rate": LEARNING_RATE,
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": name, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [str(python), "-P", str(Path(__file__).with_name("optimum_side.py")), str(folder / "settings.json")],
            env={**os.environ, **offline}, cwd=folder, stdout=subprocess.PIPE, text=True, check=True, timeout=1800,
        )  # fmt: skip
        steps: list[float] = json.loads(done.stdout.splitlines()[-1])
    return steps


def main() -> int:
    """All starts, then a line for each of the three and one for each ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=STARTS, help="of processes, of each side, at least 2")
    parser.add_argument(
        "--environment", type=Path, default=USUAL_ENVIRONMENT, help="where it is made [%(default)s]"
    )
    options = parser.parse_args()
    if options.starts < 2:
        parser.error("argument --starts: at least 2, for an interval")
    python = environment(options.environment)
    found: dict[str, list[float]] = {"ours": [], "plain": [], "optimum-benchmark": []}
    with tempfile.TemporaryDirectory() as folder:
        prepare(job(), Path(folder))
        for number in range(options.starts):
            pairs = start(1, PAIRS, ("ours", "plain")[number % 2], Path(folder))
            for name in ("ours", "plain"):
                found[name].append(float(np.mean([pair[name][0] for pair in pairs])))
            found["optimum-benchmark"].append(float(np.mean(optimum_steps_s(python))))
            print(f"start {number + 1} of {options.starts}", file=sys.stderr, flush=True)
    print(f"BERT of {SIZES}, batch {BATCH}, one thread, SGD, fp32; {options.starts} starts")
    for name, seconds in found.items():
        print(f"{name}: a step of {1e3 * float(np.mean(seconds)):.2f} ms")
    for peer in ("plain", "optimum-benchmark"):
        mean, low, high = with_interval(np.log(np.divide(found["ours"], found[peer])).tolist())
        print(f"ours by {peer}'s: {mean:.3f} ({low:.3f} to {high:.3f})")
    print("\n".join(LEFT_OUT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
