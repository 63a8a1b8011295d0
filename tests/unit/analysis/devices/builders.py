"""Results of one model on several devices, as PerfDB gives them back."""

from __future__ import annotations

from typing import Any

from tests.unit.perfdb.builders import result

MODEL = {"name": "m", "digest": "aa" * 32, "source_digest": "5c" * 32, "precision": "fp32", "task": "images"}
CPU = {"kind": "cpu", "name": "AMD EPYC 7R32", "cores": 2.0}
T4 = {"kind": "gpu", "name": "Tesla T4", "cores": 4.0}


def run(
    run_id: str, device: dict[str, Any], p99: float | None, per_s: float | None, *, batch: int = 1,
    users: int = 1, arrivals: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **changes: Any,
) -> dict[str, Any]:  # fmt: skip
    """A run of so many users who wait; of equal job and device two are runs of one configuration."""
    load = arrivals or {"kind": "closed_loop", "concurrency": users}
    latency = {"p99": p99, "p50": None if p99 is None else p99 / 2}
    made = result(
        run_id,
        submission={"name": "s", "digest": f"{batch}-{users}"},
        model={**MODEL, **(model or {})},
        backend={"kind": "onnxruntime", "version": "1", "settings": {}},
        device=device,
        load={"arrivals": load, "batch_size": batch, "protocol": "http"},
        summary={"e2e_latency_ms": latency, "throughput_samples_per_s": per_s},
        **changes,
    )
    return made.model_dump()
