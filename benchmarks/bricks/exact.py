"""Whether the chained bricks of a corpus' models answer as the whole models do.

    python -m benchmarks.bricks.exact [--corpus paper50] [--view runtime] [-G 1] [--rows FILE] [--minutes 60]

Each architecture is decomposed in a process of its own with ``inferbench bricks decompose --check``: its bricks run one
after the other with the original weights, and every tensor between two bricks is compared with the graph run as a
whole, the last ones with the answer of the model as it is served. Allowed are differences of 1e-4 of the largest value.

Rows are kept (Parquet, with the machine and the libraries' versions); an ended run goes on where it was, and what
failed is tried again. Exit code 1 where a model of the corpus is not proved, 2 where one was not begun.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.bricks import rows as raw_rows
from inferbench_tasks.bricks.chain import TOLERANCE_RATIO
from inferbench_tasks.bricks.corpus import read_corpus

_LIBRARIES = ("onnxruntime", "onnx", "onnx-ir")
_KEPT = ("layers", "bricks", "unique", "measurements", "proved", "edges", "edges_ratio", "answer_ratio")


def main() -> int:
    """Prove what is not proved yet, then the table; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", default="paper50")
    parser.add_argument("--view", default="runtime")
    parser.add_argument("-G", dest="granularity", default="1")
    parser.add_argument("--limit-s", type=float, default=900.0, help="for one model")
    raw_rows.options(parser, "exact", "model")
    options = parser.parse_args()
    where = {
        "view": options.view,
        "granularity": options.granularity,
        **raw_rows.where(*_LIBRARIES),
    }
    models = [entry.model for entry in read_corpus(options.corpus).models]
    end = raw_rows.ends_at(options)
    proved = _proved(options.rows, where)
    for model in models:
        if model in proved or time.monotonic() > end:
            continue
        row = {"model": model, **where, **_row(model, options)}
        raw_rows.keep(options.rows, [row])
        print(f"{model}: {_in_words(row)}", flush=True)
    return _report(models, _rows(options.rows, where))


def _row(model: str, options: argparse.Namespace) -> dict[str, Any]:
    """What one model's decomposition says, or why there is none."""
    command = [
        sys.executable, "-m", "inferbench_tasks.cli.main", "bricks", "decompose", model, "--check",
        "--view", options.view, "-G", options.granularity, "-o", "json",
    ]  # fmt: skip
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit_s, check=False)
    except subprocess.TimeoutExpired:
        return {"proved": False, "error": f"not done after {options.limit_s:g} s"}
    seconds = round(time.monotonic() - began, 1)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return {"proved": False, "error": done.stderr.strip()[-500:] or f"exit code {done.returncode}"}
    return {name: document[name] for name in _KEPT} | {"seconds": seconds}


def _rows(path: Path, where: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The last row of each model at this view, granularity, machine and versions."""
    return {row["model"]: row for row in raw_rows.kept(path, where)}


def _proved(path: Path, where: dict[str, Any]) -> set[str]:
    return {model for model, row in _rows(path, where).items() if row["proved"]}


def _in_words(row: dict[str, Any]) -> str:
    if row.get("error"):
        return f"FAILED, {row['error']}"
    word = "proved" if row["proved"] else "NOT as the whole"
    return (
        f"{word}, {row['bricks']} bricks, {row['edges']} tensors, differences of at most {row['edges_ratio']:.1e} "
        f"between bricks, {row['answer_ratio']:.1e} at the end"
    )


def _report(models: list[str], rows: dict[str, dict[str, Any]]) -> int:
    print(
        f"\n{'model':<26}{'layers':>8}{'bricks':>8}{'unique':>8}{'tensors':>9}{'between':>10}{'answer':>10}"
    )
    for model in models:
        row = rows.get(model)
        if row is None or row.get("error"):
            print(f"{model:<26}{'not run' if row is None else 'FAILED: ' + row['error'][:80]}")
            continue
        print(
            f"{model:<26}{row['layers']:>8}{row['bricks']:>8}{row['unique']:>8}{row['edges']:>9}"
            f"{row['edges_ratio']:>10.1e}{row['answer_ratio']:>10.1e}{'' if row['proved'] else '  NOT PROVED'}"
        )
    proved = [row for model in models if (row := rows.get(model)) and row["proved"]]
    worst = max((max(row["edges_ratio"], row["answer_ratio"]) for row in proved), default=float("nan"))
    begun = [model for model in models if model in rows]
    word = "FAILED" if len(proved) < len(begun) else "passed" if len(begun) == len(models) else "not judged"
    print(
        f"\n{word}: {len(proved)} of {len(models)} architectures answer as the whole "
        f"(allowed {TOLERANCE_RATIO:.0e}); the largest difference of those is {worst:.1e}"
    )
    return {"passed": 0, "FAILED": 1, "not judged": 2}[word]


if __name__ == "__main__":
    sys.exit(main())
