"""The files that MLPerf LoadGen leaves of its accuracy mode, as version 6.0.17 writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from inferbench_tasks.loadgen.mlperf import ACCURACY, DETAIL, SUMMARY


def write_logs(
    folder: Path, answers: Sequence[tuple[int, str]], *, samples: int | None = None, mode: str = "AccuracyOnly",
    errors: Sequence[str] = ("two completions of one query",),
) -> None:  # fmt: skip
    """``answers``: the number of a sample and the hexadecimal digits of its answer, in LoadGen's order."""
    folder.mkdir(parents=True, exist_ok=True)
    count = len(answers) if samples is None else samples
    values: list[tuple[str, str | int]] = [
        ("loadgen_version", "6.0.17 @ d6147c7eb7"),
        ("requested_test_mode", mode),
        ("effective_scenario", "Server"),
        ("effective_test_mode", mode),
        ("effective_accuracy_sample_count", count),
    ]
    lines = [_line(key, value, is_error=False) for key, value in values]
    lines += [_line("error_runtime", text, is_error=True) for text in errors]
    (folder / DETAIL).write_text("\n".join([*lines, ':::MLLOG {"key": "cut off']))
    (folder / SUMMARY).write_text(
        "\nNo warnings encountered during test.\n\nNo errors encountered during test.\n"
    )
    entries = [
        f'{{ "seq_id" : {at}, "qsl_idx" : {number}, "data" : "{data}" }}'
        for at, (number, data) in enumerate(answers)
    ]
    (folder / ACCURACY).write_text("[\n" + ",\n".join(entries) + "\n]\n")


def _line(key: str, value: str | int, *, is_error: bool) -> str:
    return ":::MLLOG " + json.dumps({"key": key, "value": value, "metadata": {"is_error": is_error}})
