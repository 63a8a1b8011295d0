"""The overhead of our server, measured by ordinary loads of a model of no work.

Of two sizes of requests: one user after the other gives what is added to a request; many users at once the highest rate
that the server and the way to it manage, which is taken as the time that its event loop is busy with each; requests
after pauses of many lengths what it takes to wake those who sleep: the event loop, the instance and the sender.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.brick_jobs.under_load.overhead import (
    PAUSES_NS,
    Conditions,
    Overhead,
    asleep_of,
    point_of,
)
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import StageError
from inferbench_tasks.loadgen.layout import OK
from inferbench_tasks.loadgen.records import codes, column, read_samples
from inferbench_tasks.submission.schema import JobSpec, Submission

#: Numbers (4 bytes) in a request: hardly any, and those of a picture of 224 x 224 in three colours.
NUMBERS = (1, 3 * 224 * 224)
#: Users of the highest rate: more do not raise it, they wait.
USERS = 16
SECONDS, WARMUP_S = 6.0, 1.0
#: Calls of the runtime over which their median is taken.
_CALLS = 1000
#: Longer than the other loads: of each length of pause there are to be enough.
PAUSES_S, PAUSES = 20.0, "pauses.csv"
_LOADS: tuple[Mapping[str, Any], ...] = (
    {"kind": "single_stream"}, {"kind": "closed_loop", "concurrency": USERS},
    {"kind": "trace", "path": PAUSES, "column": "at", "unit": "ns"},
)  # fmt: skip
LOAD_NAMES = ("one user", "many users", "pauses")
#: What helps where one of them is not valid: mostly others' work on the cores.
REMEDY = (
    "Nothing is kept of it: ask again when the machine is quiet (`uptime` tells), or, with --device, of a processor on "
    "which it was measured; `inferbench bricks predict MODEL` needs none of it"
)

#: Runs one job of that submission, beside these files; its result as PerfDB has it, None where it has none.
RunJob = Callable[[JobSpec, Path], Mapping[str, Any] | None]


def write_model(path: Path, numbers: int) -> Path:
    """An ONNX model that gives the first of ``numbers`` numbers of each sample."""
    import onnx
    from onnx import TensorProto, helper

    ends = {"starts": [0], "ends": [1], "axes": [1]}
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", *ends], ["y"])],
        "no-work",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", numbers])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
        [helper.make_tensor(name, TensorProto.INT64, [1], value) for name, value in ends.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def write_pauses(path: Path) -> Path:
    """Moments for ``PAUSES_S`` seconds whose gaps are of all lengths of ``PAUSES_NS``, each doubling as often as the
    others, in a random order that is always the same."""
    rng = np.random.default_rng(0)
    low, high = np.log(PAUSES_NS[0]), np.log(PAUSES_NS[-1])
    count = int(2 * PAUSES_S * 1e9 * (high - low) / (PAUSES_NS[-1] - PAUSES_NS[0]))
    at = np.cumsum(np.exp(rng.uniform(low, high, count)))
    path.write_text("\n".join(["at", "0", *map(str, at[at < PAUSES_S * 1e9].astype(np.int64))]) + "\n")
    return path


def call_ns(path: Path, numbers: int) -> float:
    """The median time of a call of that model on one core, its input and output bound as those of bricks are."""
    import onnxruntime as ort

    options: Any = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session: Any = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding: Any = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(np.zeros((1, numbers), np.float32)))
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(np.zeros((1, 1), np.float32)))
    times = []
    for _ in range(_CALLS):
        began_ns = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        times.append(time.perf_counter_ns() - began_ns)
    return float(np.median(times))


def job(conditions: Conditions, model: str, arrivals: Mapping[str, Any]) -> JobSpec:
    """The load of one such model."""
    return Submission.model_validate(
        {
            "name": "no-work",
            "model": {"kind": "file", "path": model},
            "requests": {"kind": "random", "samples": 16},
            "serve": {"backend": conditions.backend},
            "load": {
                "arrivals": dict(arrivals), "warmup_s": WARMUP_S,
                "duration_s": PAUSES_S if arrivals["kind"] == "trace" else SECONDS,
                "protocol": conditions.protocol, "client": conditions.client,
            },
        }
    )  # fmt: skip


def measured(
    conditions: Conditions, folder: Path, run: RunJob, runs_dir: Callable[[str], Path],
    tell: Callable[[str, float, float | None], None],
) -> Overhead:  # fmt: skip
    """Measure it here, in six loads. StageError, with what helps, where one of them has no result, or is invalid."""
    points, runs, why = [], [], []
    total = len(_LOADS) * len(NUMBERS)
    write_pauses(folder / PAUSES)
    for at, numbers in enumerate(NUMBERS):
        file = write_model(folder / f"no-work-{numbers}.onnx", numbers)
        loads = []
        for which, arrivals in enumerate(_LOADS):
            tell("what the server adds", len(_LOADS) * at + which, total)
            result = run(job(conditions, file.name, arrivals), folder)
            verdict = Verdict.of(result) if result else None
            if result is None or verdict is None or not (verdict.valid or verdict.bounds_only):
                busy = verdict is not None and verdict.measured
                raise StageError(
                    f"what the server adds could not be measured: {verdict or 'no result'} (the load of "
                    f"{LOAD_NAMES[which]}, {4 * numbers} bytes){'. ' + REMEDY if busy else ''}"
                )
            if not verdict.valid:
                why.append(str(verdict))
            runs.append(str(result["run_id"]))
            loads.append(_Answered.of(runs_dir(runs[-1]) / "samples.parquet"))
        alone, many, paused = loads
        call, most_rps = call_ns(file, numbers), many.rate_rps()
        points.append(
            point_of(
                4 * (numbers + 1), alone.latency_ns, alone.instance_ns, most_rps, call,
                tuple(asleep_of(paused.idle_ns, paused.latency_ns, paused.instance_ns, 1e9 / most_rps, call)),
            )
        )  # fmt: skip
    return Overhead(
        conditions=conditions, points=tuple(points), runs=tuple(runs), disturbed="; ".join(dict.fromkeys(why)) or None
    )  # fmt: skip


@dataclass(frozen=True)
class _Answered:
    """Of the measured requests that were answered, ns: when, how long nothing was under way before they were meant to
    leave, whole time, the instance's part."""

    done_ns: Any
    idle_ns: Any
    latency_ns: Any
    instance_ns: Any

    @classmethod
    def of(cls, path: Path) -> _Answered:
        table = read_samples(path)
        good = np.ones(len(table), bool)
        for name, wanted in (("phase", "measure"), ("status", OK)):
            numbers, names = codes(table, name)
            good &= numbers == names.index(wanted) if wanted in names else False
        done, began = column(table, "done_ns")[good], column(table, "intended_ns")[good]
        if len(done) < 100:
            raise StageError(
                f"what the server adds could not be measured: {len(done)} requests were answered. {REMEDY}"
            )
        order = np.argsort(began, kind="stable")
        done, began, instance = done[order], began[order], column(table, "server_inference_ns")[good][order]
        # Before the first one was the warm-up: nobody knows.
        idle = np.concatenate([[-1], began[1:] - np.maximum.accumulate(done)[:-1]])
        return cls(done, idle, done - began, instance)

    def rate_rps(self) -> float:
        """Answers per second."""
        return (len(self.done_ns) - 1) / float(self.done_ns.max() - self.done_ns.min()) * 1e9
