"""Loads of streams of tokens on the stand-in for a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.loadgen import standalone
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.token_load import TokenOptions, token_figures
from inferbench_tasks.loadgen.token_summary import Each
from tests.llm_stand_in import StandIn


def loaded(
    server: StandIn, folder: Path, model: str = "stand-in", *, arrivals: str = "poisson:60", **options: Any
) -> tuple[LoadPlan, Outcome, dict[str, Any]]:
    """Load it as ``inferbench load run`` does, without the client's ceiling."""
    tokens = options.pop("tokens", {})
    fields = {"duration_s": 0.7, "warmup_s": 0.1, "timeout_ms": 20_000.0, **options}
    fields["client"] = fields.get("client", "fast")
    lengths = {
        "output_tokens": {"kind": "fixed", "value": 12},
        "input_tokens": {"kind": "fixed", "value": 26},
    }
    asked = standalone.Asked(
        url=server.url, arrivals=arrivals, options=fields, model=model, protocol="openai",
        tokens=TokenOptions(**{**lengths, **tokens}),
    )  # fmt: skip
    plan = standalone.plan(asked, folder)
    outcome = apply_load(plan, folder / "samples.parquet")
    each = asked.tokens.each if asked.tokens else Each()
    return plan, outcome, token_figures(plan, outcome, each)
