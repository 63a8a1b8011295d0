"""Engines of our server asked by traced requests within the test's process, put together as the stage does."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.protocols.traceparent import TraceContext
from inferbench_tasks.servers.config import Tracing
from inferbench_tasks.servers.engines.base import ENGINES, TellsLayers
from inferbench_tasks.servers.scheduler import Execution
from inferbench_tasks.servers.tracing import Recorder, TracedEngine
from inferbench_tasks.tracing.assemble import Asked, Assembled, assemble
from tests.serving_cases import Case, server_config


def traced(
    engine: str,
    case: Case,
    folder: Path,
    requests: int,
    round_: int = 0,
    *,
    library: bool = False,
    device: str = "cpu",
) -> Assembled:
    """An engine that was warmed up and asked by others before the traced requests, with what its source tells.

    Each traced request's answer is the case's, to 1e-4 of its largest value: else AssertionError. ``library``: of what
    the layers ran too.
    """
    path = folder / "told.json"
    tracing = Tracing(path=str(path), framework=True, layers=True, library=library)
    config = server_config(case, folder, tracing=tracing).model_copy(
        update={"engine": engine, "device": device}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the runtimes, about themselves
        loaded = ENGINES.load(engine)(config)
    assert isinstance(loaded, TellsLayers) and loaded.source is not None
    row = {name: array[:1] for name, array in case.samples.items()}
    for _ in range(2):
        loaded.run(row)
    recorder = Recorder(path, framework=True)
    recorded = TracedEngine(loaded, recorder, loaded.source)
    for _ in range(3):
        recorded.run(row)
    asked = []
    for number in range(requests):
        context = TraceContext(f"{round_ * requests + number + 1:032x}", f"{number + 1:016x}")
        start_ns = time.monotonic_ns()
        execution = Execution(
            row, 1, lambda _: None, enqueued_ns=start_ns, queue_ns=0, input_ns=0, output_ns=0
        )
        answer = recorded.run(row)
        end_ns = time.monotonic_ns()
        for at, (name, wanted) in enumerate(case.reference.items()):
            # A conversion may rename an output; a model may have more than are asked for.
            given = answer[name] if name in answer else list(answer.values())[at]
            allowed = 1e-4 * float(np.abs(wanted).max())
            answered: Any = given
            np.testing.assert_allclose(
                answered, wanted[:1], rtol=0, atol=allowed, err_msg=f"{engine}: {name}"
            )
        execution.infer_ns = end_ns - start_ns
        recorder.request([str(context).encode()], (start_ns, start_ns, start_ns, end_ns, end_ns), execution)
        asked.append(Asked(context.trace_id, context.span_id, number, start_ns, start_ns, end_ns, end_ns))
    recorder.write([loaded.source])
    return assemble(asked, json.loads(path.read_bytes()), 0, round_, "library" if library else None)
