"""The lock of a run: each version, hash and digest that its figures depend on, so that it can be run again.

``planned`` says what is known before anything starts, ``measured`` what really ran; what is not known is None.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from typing import Any

from inferbench_tasks.backends.base import BACKENDS, Backend
from inferbench_tasks.backends.environments import Environment
from inferbench_tasks.contracts.handles import BackendInfo, ModelArtifact, RequestSet
from inferbench_tasks.contracts.versions import same_version
from inferbench_tasks.dotted import contains, value_at
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.manifests.built_in.datasets import named_dataset
from inferbench_tasks.manifests.built_in.models import PACKAGES
from inferbench_tasks.manifests.difference import differences
from inferbench_tasks.manifests.pins import hashes_digest, installed_version
from inferbench_tasks.manifests.runtime import named_runtime, runtime_in_image
from inferbench_tasks.modelrepo.zoo import ZOO
from inferbench_tasks.monitors import environment
from inferbench_tasks.submission.digest import PATIENCE, job_digest
from inferbench_tasks.submission.manifest_record import of_job
from inferbench_tasks.submission.schema import JobSpec

FORM = "inferbench-lock-1"
#: What only the run itself tells: not compared before it.
KNOWN_LATER = (
    "model.source_digest", "model.served_digest", "data.dataset", "data.requests_digest", "data.evaluation",
    "data.evaluation.dataset", "data.evaluation.digest", "image.id", "runtime.version",
)  # fmt: skip
#: Of an evaluation's data; results of before have none, nor is that of a model's own known before its run.
DATA_MANIFEST = "data.evaluation.manifest"
#: Of two commits with files that differ from them nobody knows whether they differ in the same way.
UNCOMMITTED = "uncommitted changes, which can't be compared"
#: Of a lock, for comparisons: it differs wherever anything does.
OWN_DIGEST = "digest"


def planned(job: JobSpec) -> dict[str, Any]:
    """What a run of that job would be of, here and now."""
    backend = BACKENDS.load(job.serve.backend)()
    model = {
        "kind": job.model.kind,
        "name": _name_of(job),
        "version": _version_of(job),
        "source_digest": None,
        "served_digest": None,
        "format": job.convert.format,
        "precision": job.convert.precision,
    }
    image = {"name": backend.image(job.serve), "id": None} if job.serve.launcher == "container" else None
    data = {"dataset": None, "requests_digest": None, "evaluation": _asked(job)}
    version = _runtime_version(job, backend)
    return _lock(job, backend, model, _framework_of(job), version, image, data)


def measured(
    job: JobSpec,
    source: ModelArtifact,
    served: ModelArtifact,
    requests: RequestSet,
    ran: BackendInfo,
    evaluation: RequestSet | None = None,
) -> dict[str, Any]:
    """What a run was of. ``source``: the model as it came, ``served`` as it was served.

    ``evaluation``: what ``evaluate`` asked; None without that block.
    """
    backend = BACKENDS.load(job.serve.backend)()
    model = {
        "kind": job.model.kind,
        "name": _name_of(job),
        "version": _version_of(job) or (source.version if job.model.kind == "registry" else None),
        "source_digest": source.digest,
        "served_digest": served.digest,
        "format": served.format,
        "precision": job.convert.precision,
    }
    image = None
    if ran.launcher == "container":
        image = {"name": backend.image(job.serve), "id": ran.settings.get("image_id")}
    data = {
        "dataset": requests.dataset,
        "requests_digest": requests.digest,
        "evaluation": evaluation
        and {
            "dataset": evaluation.dataset,
            "digest": evaluation.digest,
            "manifest": evaluation.manifest and evaluation.manifest.model_dump(),
        },
    }
    return _lock(job, backend, model, source.framework, ran.version, image, data)


def _asked(job: JobSpec) -> dict[str, Any] | None:
    """What is known before a run of the data that it is evaluated on: of which version it is, where it is named."""
    name = job.evaluate.dataset if job.evaluate else None
    manifest = named_dataset(name) if name else None
    return {"dataset": None, "digest": None, "manifest": manifest.record()} if manifest else None


def compare(then: Mapping[str, Any], now: Mapping[str, Any], *, before: bool = False) -> list[dict[str, Any]]:
    """{field, then, now} of what is not the same in two locks. ``before``: ``now`` is one that was ``planned``."""
    rows = differences(then, now, leave_out=(OWN_DIGEST, *(KNOWN_LATER if before else ())))
    if any(value_at(lock, DATA_MANIFEST) is None for lock in (then, now)):
        rows = [row for row in rows if not contains(DATA_MANIFEST, row["field"])]
    if all((lock.get("inferbench") or {}).get("git_dirty") for lock in (then, now)):
        rows.append({"field": "inferbench.git_dirty", "then": UNCOMMITTED, "now": UNCOMMITTED})
    if not before:
        return rows
    # Of models of files and of the repository, their framework and latest version are told by making them.
    later = [name for name in ("framework", "model.version") if now and value_at(now, name) is None]
    rows = [row for row in rows if not any(contains(name, row["field"]) for name in later)]
    # A planned version of the runtime counts where there is one.
    runtimes = [lock.get("runtime", {}).get("version") for lock in (then, now)]
    if None not in runtimes and not same_version(*runtimes):
        rows.append({"field": "runtime.version", "then": runtimes[0], "now": runtimes[1]})
    return rows


def digest_of(lock: Mapping[str, Any]) -> str:
    """SHA-256 of all that a lock says."""
    content = {name: value for name, value in lock.items() if name != OWN_DIGEST}
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _lock(
    job: JobSpec,
    backend: Backend,
    model: dict[str, Any],
    framework: str | None,
    version: str | None,
    image: dict[str, Any] | None,
    data: dict[str, Any],
) -> dict[str, Any]:
    git_sha, dirty = environment.git_state()
    own = None if image else _own(job, backend)
    package = PACKAGES.get(framework or "", framework)
    lock: dict[str, Any] = {
        "form": FORM,
        "job_digest": job_digest(job),
        "inferbench": {"version": installed_version("inferbench"), "git_sha": git_sha, "git_dirty": dirty},
        "python": platform.python_version(),
        "architecture": platform.machine(),
        "model": model,
        "framework": {"name": framework, **_pinned(package)} if framework else None,
        "runtime": {
            "backend": job.serve.backend,
            "package": backend.package,
            "version": version,
            "where": "container" if image else f"environment {own['name']}" if own else "here",
        },
        "environment": own,
        "image": image,
        "data": data,
        "scenario": {"arrivals": job.load and job.load.arrivals.kind, "digest": _scenario_digest(job)},
        "manifests": [
            record.model_dump(exclude={"sets"})
            for record in of_job(job.manifests, job.model_dump(mode="json"))
        ],
        "packages": {name: _pinned(name) for name in _installed(environment.PACKAGES)},
    }
    return {**lock, OWN_DIGEST: digest_of(lock)}


def _name_of(job: JobSpec) -> str | None:
    """As the submission names the model: its name, file or family."""
    names = (getattr(job.model, field, None) for field in ("name", "path", "family"))
    return next((name for name in names if name), None)


def _version_of(job: JobSpec) -> int | None:
    """The version that the submission names; None where it names none, or where models have none."""
    version: int | None = getattr(job.model, "version", None)
    return version


def _framework_of(job: JobSpec) -> str | None:
    """The framework that the model comes from, where the submission tells it."""
    if job.model.kind == "zoo":
        return ZOO.load(job.model.name)(job.model.name, job.model.framework).framework
    return getattr(job.model, "framework", None)


def _runtime_version(job: JobSpec, backend: Backend) -> str | None:
    """Of the runtime that would serve: the one that is named or that the image brings, else what is here.

    None where that is not here yet, and of an image of which no manifest tells it: it has its own, not what is here.
    """
    with suppress(InferBenchError, PackageNotFoundError, OSError, subprocess.SubprocessError):
        if (runtime := named_runtime(job.serve) or runtime_in_image(job)) is not None:
            return runtime.version
        return None if job.serve.launcher == "container" else backend.version()
    return None


def _own(job: JobSpec, backend: Backend) -> dict[str, Any] | None:
    """Which environment the runtime runs in that is not ours; ``lock_sha256`` is None where hashes are not compared, or
    where nothing here tells of the runtime.
    """
    try:
        runtime = named_runtime(job.serve)
    except InferBenchError:
        # Its manifest is gone since: no reason to lose what was measured, nor was it ours.
        return {"name": job.serve.framework, "lock_sha256": None, "folder": None}
    if runtime is not None:
        return _facts(runtime.environment)
    with suppress(PackageNotFoundError):
        return _facts(backend.environment())
    return None


def _facts(own: Environment | None) -> dict[str, Any] | None:
    return {"name": own.name, "lock_sha256": own.lock_sha256, "folder": own.folder_name} if own else None


def _installed(names: Iterable[str]) -> list[str]:
    return [name for name in names if name != "inferbench" and installed_version(name) is not None]


def _pinned(package: str | None) -> dict[str, Any]:
    """Its version, and SHA-256 over the hashes that ``constraints.hashes.txt`` allows of it; None where not known."""
    installed = installed_version(package) if package else None
    return {
        "version": installed,
        "hashes_sha256": hashes_digest(package, installed) if package and installed else None,
    }


def _scenario_digest(job: JobSpec) -> str | None:
    if job.load is None:
        return None
    load = job.load.model_dump(mode="json", exclude_defaults=True, exclude=set(PATIENCE))
    return hashlib.sha256(_canonical(load).encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
