"""What the instruments of the layer and the library level cost a run of the runtime, interleaved.

python -m benchmarks.mlmodelscope.library_overhead [ROUNDS]

CPU time of the whole process around each run, so that others on the machine disturb little; one thread. A process for
each runtime, model and level, all alive at once and asked in turns: oneDNN is told once per process to print. A round
has three runs of each, of which the median counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.servers.config import ServerConfig, Tracing
from inferbench_tasks.tracing.leveled import overheads
from inferbench_tasks.tracing.spans import Level

MODELS = {"resnet50": "resnet", "mobilenet_v2": "mobilenet"}
ENGINES = {"torchscript": "pt", "openvino": "xml"}
LEVELS: tuple[Level, ...] = ("framework", "layer", "library")
RUNS = 3


def make(folder: Path) -> None:
    """Both models in both formats, with random weights."""
    from importlib import import_module

    import openvino
    import torch

    x = torch.zeros(1, 3, 224, 224)
    for name, module in MODELS.items():
        torch.manual_seed(0)
        built = import_module(f"inferbench_tasks.modelrepo.networks.{module}").build("torch", name, {}).eval()
        torch.jit.freeze(torch.jit.trace(built, x)).save(str(folder / f"{name}.pt"))
        model = openvino.convert_model(built, example_input=x, input=[1, 3, 224, 224])
        openvino.save_model(model, str(folder / f"{name}.xml"), compress_to_fp16=False)


def child(engine: str, model: str, level: Level, folder: Path) -> None:
    """For each line of the input a round; the median CPU time of its runs, ms, to the error output."""
    from inferbench_tasks.servers.engines.base import ENGINES as KNOWN

    tracing = Tracing(
        path=str(folder / f"{engine}.{model}.{level}"),
        framework=True,
        layers=level != "framework",
        library=level == "library",
    )
    config = ServerConfig(
        engine=engine,
        model_name=model,
        model_path=str(folder / f"{model}.{ENGINES[engine]}"),
        inputs=(TensorSpec(name="x", dtype="float32", shape=(3, 224, 224)),),
        outputs=(TensorSpec(name="scores", dtype="float32", shape=(1000,)),),
        address_path="",
        tracing=tracing,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the runtimes, about themselves
        loaded: Any = KNOWN.load(engine)(config)
    x = {"x": np.zeros((1, 3, 224, 224), np.float32)}

    def run() -> float:
        if loaded.source is not None:
            loaded.source.start()
        start_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns()
        loaded.run(x)
        cpu_ns = time.process_time_ns() - cpu_ns
        if loaded.source is not None:
            loaded.source.stop(start_ns, time.monotonic_ns())
        return cpu_ns / 1e6

    for _ in range(4):
        run()
    for _ in sys.stdin:
        print(f"ms {median(run() for _ in range(RUNS))}", file=sys.stderr, flush=True)


def main(rounds: int) -> None:
    """A line for each runtime, model and level: CPU time, ratio, interval over the rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        for engine in ENGINES:
            for model in MODELS:
                for each in overheads(measured(engine, model, rounds, folder), LEVELS):
                    interval = f"{each.low:.3f} to {each.high:.3f}" if each.low and each.high else "-"
                    figures = f"{each.latency_ms:.4g} ms CPU, {each.ratio:.3f} ({interval})"
                    print(engine, model, each.level, figures, flush=True)


def measured(engine: str, model: str, rounds: int, folder: Path) -> list[dict[Level, float]]:
    """Each level's CPU time in each round, ms."""
    command = [sys.executable, "-m", "benchmarks.mlmodelscope.library_overhead", "--child", engine, model]
    pipe = subprocess.PIPE
    children = {
        level: subprocess.Popen(
            [*command, level, str(folder)], stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True
        )
        for level in LEVELS
    }
    found: list[dict[Level, float]] = []
    try:
        for number in range(rounds):
            turn = LEVELS[number % len(LEVELS) :] + LEVELS[: number % len(LEVELS)]
            found.append({level: _ask(children[level]) for level in turn})
    finally:
        for process in children.values():
            process.kill()
            process.communicate()
    return found


def _ask(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    for line in process.stderr:
        if line.startswith("ms "):
            return float(line[3:])
    raise SystemExit("a process ended before it was asked")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], sys.argv[4], Path(sys.argv[5]))  # type: ignore[arg-type]
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
