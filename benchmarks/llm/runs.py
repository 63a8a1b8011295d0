"""Loads of the stand-in, with the figures as they are reported and the stand-in's own log of the same requests."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.loadgen import standalone
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.token_load import TokenOptions, token_figures
from inferbench_tasks.loadgen.token_records import STREAMS, read_table
from inferbench_tasks.loadgen.token_summary import Each
from tests.llm_stand_in import stand_in


@dataclass(frozen=True)
class Run:
    """``log``: of the load's requests, in the order of their first tokens; ``streams``: our records in that order."""

    outcome: Outcome
    summary: dict[str, Any]
    tokens: dict[str, Any]
    log: list[dict[str, Any]]
    streams: dict[str, Any]
    cpu_s: float

    @property
    def window_s(self) -> float:
        """The measured window's length."""
        return (self.outcome.measure_end_ns - self.outcome.measure_start_ns) / 1e9

    def rows(self, name: str) -> np.ndarray:
        """A column of the requests' records."""
        return np.array(self.outcome.table().column(name).to_pylist())


def run(
    arrivals: str, pace: str, *, tokens: int, seconds: float, slots: int = 0, warmup_s: float = 0.0,
    client: str = "fast", seed: int = 1, **options: Any,
) -> Run:  # fmt: skip
    """One load of a stand-in of its own."""
    with tempfile.TemporaryDirectory(prefix="inferbench-llm-") as name, ExitStack() as stack:
        folder = Path(name)
        server = stack.enter_context(stand_in(folder, "--pace", pace, "--slots", str(slots)))
        asked = standalone.Asked(
            url=server.url, arrivals=arrivals, protocol="openai", model="stand-in",
            options={
                "duration_s": seconds, "warmup_s": warmup_s, "timeout_ms": 120_000.0, "client": client, "seed": seed,
                "shards": 1, **options,
            },
            tokens=TokenOptions(
                input_tokens={"kind": "fixed", "value": 26}, output_tokens={"kind": "fixed", "value": tokens}
            ),
        )  # fmt: skip
        plan = standalone.plan(asked, folder / "load")
        outcome = apply_load(plan, folder / "samples.parquet")
        summary = summarise(
            outcome.table(), measure_start_ns=outcome.measure_start_ns, measure_end_ns=outcome.measure_end_ns
        )
        figures = token_figures(plan, outcome, Each())
        streams, _ = read_table(folder / "streams.parquet", STREAMS)
        order = np.argsort(streams["first_token_ns"])
        log = sorted(server.log(), key=lambda entry: entry["chunks"][0][0])
        outcome.table()  # the folder goes: what is read later is read now
        loaded = _Kept(outcome)
        cpu_s = sum(usage.cpu_s for usage in outcome.applied.usages)
        return Run(loaded, summary, figures, log, {k: v[order] for k, v in streams.items()}, cpu_s)


class _Kept:
    """An outcome whose records are in memory."""

    def __init__(self, outcome: Outcome) -> None:
        self._table = outcome.table()
        self.measure_start_ns = outcome.measure_start_ns
        self.measure_end_ns = outcome.measure_end_ns

    def table(self) -> Any:
        """All records."""
        return self._table


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many other processes that want a core each."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
