"""Triton's trace: the moments of a sample of its requests, on the same CLOCK_MONOTONIC as our records.

See Triton's "Trace" extension (``--trace-config``, level TIMESTAMPS). The parts are those of its statistics:
queue = COMPUTE_START - QUEUE_START, preprocess to COMPUTE_INPUT_END, inference to COMPUTE_OUTPUT_START,
postprocess to COMPUTE_END.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.window import Window

log = logging.getLogger(__name__)

_MOMENTS = {
    "queue": ("QUEUE_START", "COMPUTE_START"),
    "preprocess": ("COMPUTE_START", "COMPUTE_INPUT_END"),
    "inference": ("COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    "postprocess": ("COMPUTE_OUTPUT_START", "COMPUTE_END"),
}
_NEEDED = {name for pair in _MOMENTS.values() for name in pair}
Parts = dict[str, NDArray[np.int64]]


def traced(file: Path, window: Window) -> Parts:
    """Each part's time of the traced requests that were queued in the window, ns; {} if there are none.

    ``transmit`` is of those requests alone that can be told apart: the only one of ours that was under way.
    """
    moments = [trace for trace in _read(file).values() if trace.keys() >= _NEEDED]
    inside = [m for m in moments if window.start_ns <= m["QUEUE_START"] < window.end_ns]
    if not inside:
        return {}
    parts: Parts = {
        part: np.array([m[end] - m[start] for m in inside], np.int64)
        for part, (start, end) in _MOMENTS.items()
    }
    total = np.sum(list(parts.values()), axis=0)
    parts["transmit"] = _transmit(window, np.array([m["QUEUE_START"] for m in inside]), total)
    return parts


def _transmit(window: Window, queued_ns: NDArray[Any], inside_ns: NDArray[Any]) -> NDArray[np.int64]:
    """Time between send and answer that is not Triton's, of the requests that were alone."""
    own = {span: values.clip(0) for span, values in window.client_spans.items()}
    sent = (window.sent_ns + own.get("preprocess", 0))[window.ok]
    done = (window.done_ns - own.get("postprocess", 0))[window.ok]
    order = np.argsort(sent)
    sent, done = sent[order], done[order]
    latest = np.maximum.accumulate(done) if len(done) else done
    matches = []
    for at_ns, spent_ns in zip(queued_ns, inside_ns, strict=True):
        index = int(np.searchsorted(sent, at_ns, "right")) - 1
        alone = index >= 0 and done[index] > at_ns and (index == 0 or latest[index - 1] <= at_ns)
        if alone:
            matches.append(done[index] - sent[index] - spent_ns)
    return np.array(matches, np.int64)


def _read(file: Path) -> dict[int, dict[str, int]]:
    """Moments by request; Triton writes ``file.0``, ``file.1`` ... as they become full."""
    traces: dict[int, dict[str, int]] = {}
    for path in file.parent.glob(file.name + "*"):
        try:
            entries = json.loads(path.read_text())
        except (OSError, ValueError):
            log.info("a trace is not complete path=%s", path)  # the last one, until the server ends
            continue
        for entry in entries:
            for stamp in entry.get("timestamps", ()):
                traces.setdefault(entry["id"], {})[stamp["name"]] = stamp["ns"]
    return traces
