"""The prober: where the time of a request went, stage by stage.

The best way that a backend allows:

- ``per_request``: the server told its spans with every answer. ``transmit`` is the time from the send to the
  answer that lies outside of the spans: network, protocol, event loops on both sides.
- ``server_statistics``: the server counts the time of its spans in total (Triton): means over the window. Where it
  also traces a sample of its requests, the percentiles are theirs; ``traced`` says of how many.
- ``difference``: the server tells nothing (TensorFlow Serving): the time from the send to the answer is one
  block, ``unattributed``.

What the client itself did to each request (``loadgen.live_processing``) is part of ``preprocess`` and
``postprocess``; ``sides`` tells both sides apart. ``unattributed`` also holds what the request waited in the
sender before it left. All parts of one request add up to its end-to-end latency exactly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.client_share import withhold_parts
from inferbench_tasks.loadgen.statistics import NAMES, percentiles
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Block, Measured
from inferbench_tasks.metrics.triton_trace import traced
from inferbench_tasks.monitors.records import Recording

SIDES = ("client", "server")
PARTS = ("preprocess", "transmit", "queue", "inference", "postprocess", "unattributed")
#: Unattributed time below this share of the latency is not worth a reader's attention.
WORTH_SHOWING_RATIO = 0.02
#: Triton's counters, in us: part -> name.
_TRITON = {
    "queue": "nv_inference_queue_duration_us_total",
    "preprocess": "nv_inference_compute_input_duration_us_total",
    "inference": "nv_inference_compute_infer_duration_us_total",
    "postprocess": "nv_inference_compute_output_duration_us_total",
}
_TRITON_REQUESTS = "nv_inference_request_success_total"
#: What servers count of their batches: samples inferred, and runs of the model.
_BATCHES = (
    ("inferbench_server_inferences_total", "inferbench_server_executions_total"),
    ("nv_inference_count_total", "nv_inference_exec_count_total"),
)


class Stages(Block):
    """Time per stage of the pipeline."""

    unit: ClassVar[str] = "ms"
    formula: ClassVar[str] = "server spans; transmit = (done - sent) - spans; unattributed = e2e - all parts"
    path: ClassVar[str] = "stages_ms"

    def compute(self, measured: Measured) -> dict[str, Any]:
        """{part: {mean, p50, p99}, method, coverage_ratio, batch_samples_mean}; parts that nobody told are None."""
        block = breakdown(measured.window, measured.recording, measured.trace_path)
        # Also those that only failures hide: they have no value here either.
        withhold_parts(block, (measured.summary.get("e2e_latency_ms") or {}).get("withheld") or ())
        batch = batch_samples(measured.window, measured.recording)
        return {**block, "batch_samples_mean": batch} if block and batch else block


def breakdown(window: Window, recording: Recording, trace_path: str | None = None) -> dict[str, Any]:
    """See ``Stages.compute``; ``trace_path``: of ``metrics.triton_trace``. {} without a good answer."""
    if not window.answered.any():
        return {}
    parts = per_request(window)
    if parts:
        complete = parts["told"]
        return {
            **{part: _figures(parts[part][complete] / 1e6, window) for part in PARTS},
            "e2e": _figures((window.done_ns - window.intended_ns)[complete] / 1e6, window),
            "sides": {
                part: {side: float(parts[f"{side}_{part}"][complete].mean()) / 1e6 for side in SIDES}
                for part in ("preprocess", "postprocess")
            },
            "method": "per_request",
            "coverage_ratio": float(complete.sum() / window.answered.sum()),
        }
    means = _by_statistics(window, recording)
    if means and trace_path:
        _add_percentiles(means, window, traced(Path(trace_path), window))
    return means or _by_difference(window)


def batch_samples(window: Window, recording: Recording) -> float | None:
    """Mean samples in a run of the model, as the server counted them in the window: requests may be merged.

    None where it counts no such thing.
    """
    for names in _BATCHES:
        series = [recording.get("server_metrics", name) for name in names]
        samples, runs = (one.increase(window.start_ns, window.end_ns) if one else None for one in series)
        if samples and runs:
            return samples / runs
    return None


def per_request(window: Window) -> dict[str, NDArray[Any]]:
    """Each part's time of every record, ns, and ``told``: good answers whose server told all its spans.

    {} if it told none. The parts of a request add up to ``done_ns - intended_ns`` exactly.
    """
    if not window.spans:
        return {}
    spans = window.spans
    complete = window.answered & np.logical_and.reduce([values >= 0 for values in spans.values()])
    if not complete.any():
        return {}
    own = client_spans(window)
    both = {name: spans[name] + own.get(name, 0) for name in spans}
    return {
        **both,
        "transmit": window.done_ns - window.sent_ns - np.sum(list(both.values()), axis=0),
        "unattributed": window.sent_ns - window.intended_ns,
        "told": complete,
        **{f"server_{name}": spans[name] for name in ("preprocess", "postprocess")},
        **{
            f"client_{name}": own.get(name, np.zeros_like(complete, np.int64))
            for name in ("preprocess", "postprocess")
        },
    }


def client_spans(window: Window) -> dict[str, NDArray[Any]]:
    """``preprocess`` and ``postprocess`` on the client, ns per record; {} where it did neither."""
    return {span: values.clip(0) for span, values in window.client_spans.items()}


def _by_statistics(window: Window, recording: Recording) -> dict[str, Any] | None:
    counters = {part: recording.get("server_metrics", name) for part, name in _TRITON.items()}
    requests = recording.get("server_metrics", _TRITON_REQUESTS)
    if requests is None or any(series is None for series in counters.values()):
        return None
    answers = requests.increase(window.start_ns, window.end_ns)
    if not answers:
        return None
    grown = {
        part: series.increase(window.start_ns, window.end_ns) for part, series in counters.items() if series
    }
    if any(value is None for value in grown.values()):
        return None
    means: dict[str, float] = {part: (value or 0.0) / answers / 1e3 for part, value in grown.items()}
    sent, e2e = _client_means(window)
    sides = _sides(window, means["preprocess"], means["postprocess"])
    means |= {part: sum(of.values()) for part, of in sides.items()}
    means["transmit"] = sent - sum(means.values())
    means["unattributed"] = e2e - sent
    return {
        **{part: {"mean": means[part], "p50": None, "p99": None} for part in PARTS},
        "e2e": {"mean": e2e, "p50": None, "p99": None},
        "sides": sides,
        "method": "server_statistics",
        "coverage_ratio": 1.0,
    }


def _add_percentiles(block: dict[str, Any], window: Window, parts: dict[str, NDArray[Any]]) -> None:
    """The spread of each part over the traced requests; the client's own share is added as its median."""
    own = {name: values[window.answered] for name, values in client_spans(window).items()}
    for part, values in parts.items():
        if len(values):
            extra = float(np.median(own[part])) if part in own else 0.0
            spread = _figures((values + extra) / 1e6, window)
            block[part] |= {"p50": spread["p50"], "p99": spread["p99"]}
    block["traced"] = len(parts.get("queue", ()))


def _by_difference(window: Window) -> dict[str, Any]:
    good = window.answered
    own = {name: values[good] / 1e6 for name, values in client_spans(window).items()}
    e2e = (window.done_ns - window.intended_ns)[good] / 1e6
    return {
        **dict.fromkeys(PARTS),
        **{part: _figures(values, window) for part, values in own.items()},
        "unattributed": _figures(e2e - sum(own.values()), window),
        "e2e": _figures(e2e, window),
        "method": "difference",
        "coverage_ratio": 0.0,
        "reason": "the backend tells no times of its own: what is not the client's can't be told apart",
    }


def _sides(window: Window, preprocess_ms: float, postprocess_ms: float) -> dict[str, dict[str, float]]:
    """Means, ms, of the parts that both sides have; the server's are given."""
    own = client_spans(window)
    return {
        part: {"client": float(own[part][window.answered].mean()) / 1e6 if own else 0.0, "server": server_ms}
        for part, server_ms in (("preprocess", preprocess_ms), ("postprocess", postprocess_ms))
    }


def _client_means(window: Window) -> tuple[float, float]:
    good = window.answered
    sent = float((window.done_ns - window.sent_ns)[good].mean()) / 1e6
    return sent, float((window.done_ns - window.intended_ns)[good].mean()) / 1e6


def _figures(values: NDArray[Any], window: Window) -> dict[str, Any]:
    exact = percentiles(values, (0.5, 0.99), window.failed_ratio)
    return {"mean": float(values.mean()), **{NAMES[q]: value for q, value in exact.items()}}
