"""In what the settings of an invocation's runs differ: a sweep over runtimes, threads or precisions has several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferbench_tasks.brick_jobs.result import BricksResult


def differing(results: Sequence[BricksResult]) -> dict[str, str]:
    """Run id -> what sets its setting apart from others' of these runs; "" for all where there is one setting."""
    known = {result.run_id: _said(result) for result in results if result.setting}
    names = [name for name in _NAMES if len({said[name] for said in known.values()}) > 1]
    return {run_id: ", ".join(said[name] for name in names) for run_id, said in known.items()}


_NAMES = ("processor", "runtime", "precision", "threads")


def _said(result: BricksResult) -> Mapping[str, str]:
    threads = result.setting.get("threads", 1)
    return {
        "processor": str(result.setting.get("processor", "")),
        "runtime": str(result.setting.get("runtime", "")),
        "precision": result.precision,
        "threads": f"{threads} thread" + ("" if threads == 1 else "s"),
    }
