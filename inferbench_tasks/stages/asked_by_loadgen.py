"""Part of ``evaluate``: what MLPerf LoadGen's own accuracy log says, set beside the answers that are judged.

LoadGen fills the last query of its multi stream scenario up with samples that it asked already. So that each is asked
once, samples that fill no query are a test of their own, with a smaller query (``asked``): a data set may take several.
"""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.verdict import Reason
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.mlperf import NOTE
from inferbench_tasks.loadgen.mlperf_accuracy import MODE, AccuracyLog, read_accuracy, sample_digests

#: Who asks, as ``load.engine`` has it.
ENGINE = "mlperf_loadgen"
#: So many samples are listed by their ids.
_LISTED = 50


class AccuracyTests:
    """LoadGen's tests of one set of samples. ``logs``: where its files are kept; None keeps none of them."""

    def __init__(self, total: int, logs: Path | None = None) -> None:
        self._times = np.zeros(total, dtype=np.int64)
        self._given = [""] * total
        self._logs = logs
        self._kept: list[str] = []
        self._tests: list[AccuracyLog] = []

    def add(self, folder: Path, rows: NDArray[np.int64]) -> None:
        """The test whose logs lie in ``folder``; its sample number k is row ``rows[k]``. LoadError without its logs."""
        test = read_accuracy(folder)
        if test is None:
            raise LoadError("MLPerf's LoadGen left no log of all answers")
        if test.mode != MODE or test.samples != len(rows):
            raise LoadError(
                f"MLPerf's LoadGen tested {test.samples} samples in {test.mode}, not {len(rows)} in {MODE}"
            )
        if strange := [number for number, _ in test.answers if not 0 <= number < len(rows)]:
            raise LoadError(f"MLPerf's LoadGen asked sample {strange[0]} of {len(rows)}")
        for number, digest in test.answers:
            self._times[rows[number]] += 1
            self._given[int(rows[number])] = digest
        self._tests.append(test)
        if self._logs is not None:
            self._logs.mkdir(parents=True, exist_ok=True)
            for log in map(Path, test.logs):
                # One run has the logs of its load, and of each of these tests.
                kept = self._logs / f"accuracy-{len(self._tests)}-{log.name}"
                copyfile(log, kept)
                self._kept.append(str(kept))

    def compared(
        self, outputs: Arrays, answered: NDArray[np.bool_], ids: NDArray[np.int64], of: str = ""
    ) -> tuple[dict[str, Any], tuple[Reason, ...]]:
        """What the result says of it, and why the answers would not count.

        ``outputs``, ``answered``: what is judged, see ``Asked``. ``ids``: the samples' places in the data set. ``of``:
        what was asked, for people, where it is not the samples as they are.
        """
        judged = sample_digests(outputs) if outputs else [""] * len(ids)
        judged = [digest if there else "" for digest, there in zip(judged, answered, strict=True)]
        other = np.array([mine != given for mine, given in zip(judged, self._given, strict=True)])
        apart = {
            "missing": self._times == 0,
            "repeated": self._times > 1,
            "differing": other & (self._times > 0),
        }
        errors = [text for test in self._tests for text in test.errors]
        document = {
            "note": NOTE,
            "mode": MODE,
            "scenario": self._tests[0].scenario,
            "version": self._tests[0].version,
            "tests": len(self._tests),
            "logged": int(self._times.sum()),
            "data": "sha256",
            **{name: _listed(rows, ids) for name, rows in apart.items()},
            "errors": errors,
            "logs": self._kept,
        }
        words = {
            "missing": "do not stand in MLPerf LoadGen's accuracy log",
            "repeated": "stand in MLPerf LoadGen's accuracy log more than once",
            "differing": "have another answer in MLPerf LoadGen's accuracy log than the one that is judged",
        }
        reasons = [
            _reason(
                int(rows.sum()),
                f"{int(rows.sum())} of {len(ids)} samples{of} {words[name]}: {_some(rows, ids)}",
            )
            for name, rows in apart.items()
            if rows.any()
        ]
        if errors:
            reasons.append(
                _reason(len(errors), f"MLPerf LoadGen found errors in its accuracy mode{of}: {errors[0]}")
            )
        return document, tuple(reasons)


def _listed(rows: NDArray[np.bool_], ids: NDArray[np.int64]) -> dict[str, Any]:
    return {"count": int(rows.sum()), "samples": ids[rows][:_LISTED].tolist()}


def _some(rows: NDArray[np.bool_], ids: NDArray[np.int64]) -> str:
    return ", ".join(map(str, ids[rows][:5])) + (", ..." if rows.sum() > 5 else "")


def _reason(figure: int, text: str) -> Reason:
    return Reason(check="evaluate.loadgen_log", figure=figure, bound=0, unit="samples", text=text)
