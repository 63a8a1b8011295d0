"""The search for capacity on the stand-in, whose knee is known: slots / the time that a request holds one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from inferbench_tasks.analysis.search.capacity import CapacitySearch
from inferbench_tasks.loadgen import standalone
from inferbench_tasks.loadgen.token_load import TokenOptions
from inferbench_tasks.loadgen.token_summary import Each
from tests.llm_stand_in import StandIn, stand_in

SLOTS, TTFT_MS, GAP_MS, TOKENS = 8, 64.0, 6.0, 27
#: Far above what a free slot takes: only who waits in line is not good.
BOUND_MS = 150.0
LOAD_S, WARMUP_S = 15.0, 2.0


def load(server: StandIn, rate_rps: float, duration_s: float, folder: Path) -> dict[str, Any]:
    """One load as ``inferbench load run`` makes it; its document, by the certificate of the traffic alone."""
    asked = standalone.Asked(
        url=server.url, arrivals=f"constant:{rate_rps}", protocol="openai", model="stand-in",
        options={"duration_s": duration_s, "warmup_s": WARMUP_S, "timeout_ms": 120_000.0, "shards": 1},
        tokens=TokenOptions(
            input_tokens={"kind": "fixed", "value": 26}, output_tokens={"kind": "fixed", "value": TOKENS}
        ),
    )  # fmt: skip
    plan = standalone.plan(asked, folder)
    result = standalone.apply(
        plan,
        folder,
        folder.parent / "ceilings",
        False,
        lambda *_: None,
        lambda: False,
        Each(ttft_ms=BOUND_MS),
    )
    return {**result.document(), **result.stimulus.as_stored()}


def knee_rps(log: list[dict[str, Any]]) -> float:
    """What the slots can take, by the log: a slot is held from the first token less its time to come, to the last."""
    held = [(entry["chunks"][-1][0] - entry["chunks"][0][0]) / 1e9 + TTFT_MS / 1e3 for entry in log]
    return float(SLOTS / mean(held))


def capacity(rounds: int) -> Iterator[tuple[str, str, bool | None]]:
    """From starts below and above the knee: the answer against the log's knee, and the runs that it took."""
    for start in (0.35, 0.8, 1.6)[: max(1, rounds)]:
        with (
            tempfile.TemporaryDirectory(prefix="inferbench-llm-") as name,
            stand_in(
                Path(name), "--pace", f"ttft_ms={TTFT_MS},gap_ms={GAP_MS}", "--slots", str(SLOTS)
            ) as server,
        ):
            nominal = SLOTS / ((TTFT_MS + (TOKENS - 1) * GAP_MS) / 1e3)
            search = CapacitySearch(nominal * start, 0.95, LOAD_S, most_runs=12)
            while (turn := search.next()) is not None:
                folder = Path(name) / f"load-{len(search.steps)}"
                folder.mkdir()
                step = search.tell(load(server, *turn, folder))
                print(f"    {step.level:.2f}: {step.outcome}; {step.reason}", flush=True)
            knee, answer = knee_rps(server.log()), search.answer()
        error = None if answer.value is None else answer.value / knee - 1
        text = (
            f"{answer.reason}" if error is None else f"{answer.value:.2f}/s, knee {knee:.2f}/s, {error:+.1%}"
        )
        good = error is not None and abs(error) <= 0.05 and answer.runs <= 8
        yield f"capacity, from {start:g} of the knee", f"{text}, {answer.runs} runs", good
