"""A configuration with its runs, the figures to compare it by, and the bounds to keep."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.analysis.evaluations.listed import PART
from inferbench_tasks.analysis.evaluations.together import but_for_part
from inferbench_tasks.analysis.labels import plain, short_names
from inferbench_tasks.contracts.drawn import settled
from inferbench_tasks.dotted import flatten, last, value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES, mean_size
from inferbench_tasks.submission.digest import LABELS

#: What tells how many samples a request had.
SIZE_FIGURES = ("throughput_samples_per_s", "throughput_rps")
_BOUND = re.compile(r"([a-z0-9_]+)(<=|>=)([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)")


@dataclass(frozen=True)
class Bound:
    """``figure`` at most (or at least) ``value``."""

    figure: str
    at_most: bool
    value: float

    @classmethod
    def parse(cls, text: str) -> Bound:
        """``p99_ms<=100``, as users write it; InputError says what is allowed."""
        match = _BOUND.fullmatch(text.replace(" ", ""))
        if match is None:
            raise InputError(
                f"{text[:60]!r}: must be FIGURE<=NUMBER or FIGURE>=NUMBER, for instance p99_ms<=100"
            )
        figure, value = FIGURES.named(match[1]).name, float(match[3])
        if not math.isfinite(value):
            raise InputError(f"{text[:60]!r}: the number is too large")
        return cls(figure, match[2] == "<=", value)

    def __str__(self) -> str:
        return f"{self.figure} {'≤' if self.at_most else '≥'} {self.value:g}"


@dataclass
class Candidate:
    """A configuration with all its runs, the newest first.

    Either ``documents`` are its runs' results, or ``figures`` are what every run has of those in question (None
    where it was not measured); then ``documents`` are read for those only that are shown.
    """

    key: str
    documents: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, list[float | None]] | None = None

    @property
    def runs(self) -> int:
        """How many runs the configuration has."""
        return len(next(iter(self.figures.values()))) if self.figures else len(self.documents)

    def values(self, figure: str) -> list[float]:
        """The figure of every run that has it."""
        if self.figures is not None:
            return [value for value in self.figures[figure] if value is not None]
        return [v for document in self.documents if (v := value_of(document, figure)) is not None]

    def mean(self, figure: str) -> float | None:
        """None if any of its runs lacks the figure: a mean over the others would hide why."""
        values = self.values(figure)
        return sum(values) / len(values) if values and len(values) == self.runs else None

    @property
    def samples_per_request(self) -> float | None:
        """As measured, so that it holds for every kind of arrivals; None where nothing was answered."""
        samples, requests = (self.mean(figure) for figure in SIZE_FIGURES)
        return mean_size(samples, requests)


def per_request_note(objective: str, sizes: Iterable[float | None]) -> str | None:
    """What to say where requests of these sizes (samples; None: not known) would be compared as if they were equal."""
    figure = FIGURES.named(objective)
    if figure.per_sample is None:
        return None
    different = sorted({size for size in sizes if size is not None})
    if len(different) < 2:
        return None
    listed = ", ".join(f"{size:.4g}" for size in different)
    return (
        f"{figure.name} is of a request, and the requests here have {listed} samples: one that "
        f"does less is not better. Use {figure.per_sample} to compare them per sample."
    )


def value_of(document: dict[str, Any], figure: str) -> float | None:
    """A figure of a result, None if it was not measured."""
    return FIGURES.named(figure).stored(document["summary"])


def describe(candidates: Sequence[Candidate]) -> dict[str, str]:
    """Each configuration in words, by its key; those that would read alike get what tells them apart."""
    texts = {candidate.key: _in_words(candidate.documents[0]) for candidate in candidates}
    alike: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        alike.setdefault(texts[candidate.key], []).append(candidate)
    for text, group in alike.items():
        if len(group) > 1:
            for candidate, difference in zip(group, _differences(group), strict=True):
                texts[candidate.key] = f"{text}, {difference}"
    return texts


def _in_words(document: dict[str, Any]) -> str:
    """Model, format, server and load, with the numbers among their settings."""
    load, backend = document["load"], document["backend"]
    parts = [
        document["model"]["name"],
        document["format"],
        backend["kind"],
        *_numbers(settled(backend.get("settings") or {})),
        f"batch {load['batch_size']}" if load.get("batch_size") else None,
        *_numbers({k: v for k, v in (load.get("arrivals") or {}).items() if v}),
        f"network {load['network']}" if load.get("network") else None,
    ]
    return ", ".join(str(part) for part in parts if part)


def _differences(group: Sequence[Candidate]) -> list[str]:
    """What each has that is not the same for all: a setting of its job, the device; else the run that shows it."""
    jobs = []
    for candidate in group:
        document = candidate.documents[0]
        job = document.get("provenance", {}).get("job") or {}
        if len({value_at(each, PART) for each in candidate.documents}) > 1:
            job = but_for_part(job)  # it is all of them, and is not called after one
        settings = {name: value for name, value in job.items() if name not in LABELS}
        device = {f"device {name}": document["device"].get(name) for name in ("name", "cores")}
        jobs.append(flatten({**settings, **device}))
    paths = list(dict.fromkeys(path for job in jobs for path in job))
    paths = [path for path in paths if len({repr(job.get(path)) for job in jobs}) > 1]
    short = short_names(paths)
    texts = [", ".join(f"{short[p]} {plain(job[p])}" for p in paths if p in job) for job in jobs]
    runs = [f"as in run {candidate.documents[0]['run_id']}" for candidate in group]
    return texts if len(set(texts)) == len(texts) and all(texts) else runs


def _numbers(settings: dict[str, Any]) -> list[str]:
    """``threads 2`` of each setting that is a number, those of nested ones too."""
    return [
        f"{last(path)} {value:g}"
        for path, value in flatten(settings).items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
