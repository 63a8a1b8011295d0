"""The canonical digest: the same for everything that asks for the same measurement.

A job's digest is the SHA-256 of the canonical JSON of its spec, with every default spelled out, keys
sorted and numbers in one form. So it does not depend on the order of keys, on whether a default is
written, or on how YAML spells a value. What only labels or schedules the work is left out: the
``LABELS``, ``BESIDE`` and ``PATIENCE``. Nothing else is. That has a price: a release that adds a field or changes a
default changes digests, which is right where it changes what is measured; a field that came later and by default
changes nothing stands in its schema's ``newer``, and is left out there.

A submission's digest is that of the sorted set of its jobs' digests: how the sweep is written, and
base values that every job replaces, don't count.

The kind is part of it, unless it is the default: jobs of before there were kinds keep their digests.

A file that counts (a trace of arrivals) does so with its content (``files``, filled in by the reader): two contents
under one path are two jobs. Otherwise a digest covers what was ASKED FOR. The bytes of a model file, and
the version of a registered model or of a backend, are recorded with each result. Of manifests what they stand
for counts, not under which name it was asked for (``manifests``); of ``systems`` what was chosen by it (``system``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from inferbench_tasks.dotted import value_at
from inferbench_tasks.submission.base import DEFAULT_KIND, JobBase
from inferbench_tasks.submission.schema import READY_TIMEOUT_S
from inferbench_tasks.submission.slo import PERCENTILES

#: Fields that name, describe or schedule a job and leave what it measures alone.
LABELS = frozenset(
    {
        "name",
        "user",
        "description",
        "tags",
        "priority",
        "expected_duration_s",
        "deadline_s",
        "block",
        "nightly",
        "on_devices",
    }
)

#: Fields that say what a job's results are set beside, of kinds that have them.
BESIDE = frozenset({"expected"})

#: Fields of the load that say how long it waits before it begins.
PATIENCE = frozenset({"wait_for_quiet_s"})

#: Part of what is hashed; raised when the canonical form itself changes.
FORM = "inferbench-job-1"

#: Figure -> what its bound is called in what is hashed: names of before each figure had one.
_FIRST_BOUNDS = {
    **{f"{name}_ms": f"latency_{name}_ms" for name in PERCENTILES},
    "throughput_rps": "min_throughput_rps",
    "error_ratio": "max_error_ratio",
}


def job_digest(spec: JobBase) -> str:
    """The SHA-256 of what the job measures, as 64 hex digits; the module says what counts."""
    fields = spec.model_dump(
        mode="json", exclude={*LABELS, *BESIDE, "sweep", "files", "manifests", "systems"}
    )
    if spec.kind == DEFAULT_KIND:
        del fields["kind"]
        if isinstance(fields.get("system"), dict):
            del fields["system"]["alike"]
        if fields["slo"] is not None:
            fields["slo"] = _hashed_bounds(fields["slo"])
        if fields["load"] is not None:
            fields["load"] = {name: value for name, value in fields["load"].items() if name not in PATIENCE}
        if (
            "serve" in fields and fields["serve"]["ready_timeout_s"] is None
        ):  # once it had a number by default
            fields["serve"]["ready_timeout_s"] = READY_TIMEOUT_S
    for group, defaults in _newer(type(spec)):
        holder = value_at(fields, group) if group else fields
        if isinstance(holder, dict):
            for name, default in defaults:
                if name in holder and holder[name] == default:
                    del holder[name]
    if spec.files and (names := {file.path for file in spec.named_files() if file.counts} & set(spec.files)):
        fields["files"] = {path: spec.files[path] for path in names}
    text = _canonical(fields)
    if "-0.0" in text:
        text = _canonical(_one_zero(fields))
    return hashlib.sha256(f"{FORM}\n{text}".encode()).hexdigest()


@cache
def _newer(job: type[JobBase]) -> list[tuple[str, list[tuple[str, Any]]]]:
    """The newer fields of a schema with their defaults, by the section that they stand in ("": none), as they come."""
    sections: list[tuple[str, list[tuple[str, Any]]]] = []
    for path, default in job.newer.items():
        group, _, name = path.rpartition(".")
        if not sections or sections[-1][0] != group:
            sections.append((group, []))
        sections[-1][1].append((name, default))
    return sections


def _canonical(fields: dict[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _hashed_bounds(bounds: dict[str, float]) -> dict[str, float | None]:
    """An objective in the form that is hashed: the bounds that there always were, with their names and defaults of
    then, and any other one under its figure's name.
    """
    others = {name: value for name, value in bounds.items() if name not in _FIRST_BOUNDS}
    return {**{then: bounds.get(name) for name, then in _FIRST_BOUNDS.items()}, **others}


def digest_of_jobs(digests: Iterable[str]) -> str:
    """The digest of a submission whose jobs have these digests."""
    return hashlib.sha256("\n".join([FORM, *sorted(set(digests))]).encode()).hexdigest()


def _one_zero(value: Any) -> Any:
    """-0.0 measures the same as 0.0 and must hash the same."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {k: _one_zero(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_one_zero(v) for v in value]
    return value
