"""What a run is called among others: by the fields of its job that differ, in the same order and words for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from inferbench_tasks.dotted import flatten, parts

#: Fields of a job that tell nothing about what was measured.
_UNTOLD = (
    "name", "user", "description", "tags", "priority", "expected_duration_s", "deadline_s", "block", "nightly", "sweep",
)  # fmt: skip
#: Settings that name a thing; others go with them.
_LEADERS = ("model", "model.name", "model.family", "serve.backend")


class Labelled(Protocol):
    """A run that can be named: the spec of its job goes in, ``label`` and ``differs`` come out."""

    run_id: str
    job: dict[str, Any]
    label: str
    differs: dict[str, Any] | None


def name_by_difference(views: Sequence[Labelled]) -> None:
    """Label each run by the fields of its job that differ between the runs, shortest names that are unique."""
    jobs = [{k: v for k, v in view.job.items() if k not in _UNTOLD} for view in views]
    flat = [flatten(job) for job in jobs]
    paths = list(dict.fromkeys(path for job in flat for path in job))
    differing = [path for path in paths if len({repr(job.get(path)) for job in flat}) > 1]
    worded = _in_words(jobs)
    labels = _labels(worded, _without_echoes(worded, _telling(worded)))
    if "" in labels or len(set(labels)) < len(labels):
        labels = _labels(worded, _differing(worded))
    for view, job, label in zip(views, flat, labels, strict=True):
        view.differs = {path: job.get(path) for path in differing}
        view.label = label or str(view.job.get("name", view.run_id))
    counts: dict[str, int] = {}
    for view in views:
        counts[view.label] = counts.get(view.label, 0) + 1
    for view in views:
        if counts[view.label] > 1:
            view.label = f"{view.label} ({view.run_id.rpartition('.')[2]})"


def _in_words(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Flat jobs in which what only some jobs have stands in one place: the model's name or family, and settings that
    are off in some jobs and a group of settings in others.
    """
    uniform = [_with_one_model(job) for job in jobs] if _differ_in_kind(jobs) else jobs
    return [flatten(job) for job in _with_switches(uniform)]


def _differ_in_kind(jobs: list[dict[str, Any]]) -> bool:
    return len({repr((job.get("model") or {}).get("kind")) for job in jobs}) > 1


def _with_one_model(job: dict[str, Any]) -> dict[str, Any]:
    """``model`` as one word before the model's own settings."""
    model = dict(job.get("model") or {})
    word = next((model.pop(key) for key in ("name", "family", "path") if model.get(key)), model.get("kind"))
    rest = {key: value for key, value in job.items() if key != "model"}
    return {"model": word, "model settings": model, **rest}


def _with_switches(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A group of settings that some jobs don't have as one value: of its settings those that differ where it is on."""
    keys = list(dict.fromkeys(key for job in jobs for key in job))
    places: list[dict[str, Any]] = [{} for _ in jobs]
    for key in keys:
        values = [job.get(key) for job in jobs]
        groups = [value for value in values if isinstance(value, dict)]
        inner = iter(_with_switches(groups)) if groups else iter(())
        switched = groups and any(key in job and job[key] is None for job in jobs)
        paths = _differing([flatten(group) for group in groups]) if switched else []
        for job, place, value in zip(jobs, places, values, strict=True):
            if isinstance(value, dict):
                own = next(inner)
                place[key] = _group(flatten(own), paths) if switched else own
            elif key in job:
                place[key] = "off" if switched else value
    return places


def _group(settings: dict[str, Any], paths: list[str]) -> str:
    """A group that is on: what tells it from other groups that are on."""
    return ", ".join(f"{path} {plain(settings[path])}" for path in paths if path in settings) or "on"


def _differing(jobs: list[dict[str, Any]]) -> list[str]:
    """The paths whose value is not the same in all jobs, or that not all have."""
    paths = list(dict.fromkeys(path for job in jobs for path in job))
    return [
        p for p in paths if len({repr(job.get(p)) for job in jobs}) > 1 or any(p not in job for job in jobs)
    ]


def _telling(jobs: list[dict[str, Any]]) -> list[str]:
    """Those that tell two jobs apart; what jobs of other kinds have, always with the same value, tells nothing."""
    return [
        path
        for path in _differing(jobs)
        if path in _LEADERS or len({repr(job[path]) for job in jobs if path in job}) > 1
    ]


def _without_echoes(jobs: list[dict[str, Any]], paths: list[str]) -> list[str]:
    """Without what only follows: a backend's format, and parts of a model that its name or family tells already."""

    def follows(path: str, leader: str) -> bool:
        pairs = {(repr(job.get(leader)), repr(job.get(path))) for job in jobs}
        return len(pairs) == len({lead for lead, _ in pairs})

    models = [path for path in _LEADERS if path in paths and path.startswith("model")]
    return [
        path
        for path in paths
        if path in _LEADERS
        or not (
            (path.startswith("model") and any(follows(path, leader) for leader in models))
            or (path == "convert.format" and follows(path, "serve.backend") and "serve.backend" in paths)
        )
    ]


def _labels(jobs: list[dict[str, Any]], paths: list[str]) -> list[str]:
    """Each job's own values of these paths; what a job doesn't have is left out."""
    short = short_names(paths)
    return [", ".join(f"{short[path]} {plain(job[path])}" for path in paths if path in job) for job in jobs]


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """The shortest end of each path that no other path shares, from its last part up."""
    names = {}
    for path in paths:
        keys = parts(path)
        for length in range(1, len(keys) + 1):
            end = ".".join(keys[-length:])
            if sum(other == end or other.endswith("." + end) for other in paths) == 1:
                break
        # "kind" alone says nothing.
        names[path] = ".".join(keys[-2:]) if end == "kind" and len(keys) > 1 else end
    return names


def plain(value: Any) -> str:
    """A setting as a person writes it."""
    if value is None or value in ([], ()):
        return "none"
    if isinstance(value, (list, tuple)) and any(isinstance(item, dict) and "model" in item for item in value):
        models = [item["model"] for item in value]
        return " + ".join(str(m.get("name") or m.get("family") or m.get("path")) for m in models)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
