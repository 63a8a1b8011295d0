"""Where the runtime runs that a job names (``serve.framework``): in this environment, or in one of pinned packages.

Only what is built in and what lies in files says of which packages an environment is made: PerfDB is written by many,
and who names packages there would decide what runs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferbench_tasks.backends import other_runtimes
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.backends.environments import Environment
from inferbench_tasks.backends.other_runtimes import Runtime
from inferbench_tasks.contracts.versions import Requirement
from inferbench_tasks.submission.manifest_record import of_job
from inferbench_tasks.submission.schema import JobSpec, ServeSpec

if TYPE_CHECKING:
    from inferbench_tasks.manifests.kinds.framework import FrameworkManifest


def named_runtime(serve: ServeSpec) -> Runtime | None:
    """What a job names; None where it names nothing. InputError where that is not to be had here."""
    if serve.framework is None:
        return None
    from inferbench_tasks.manifests.catalogue import Catalogue  # PerfDB's client comes with it

    wanted = Requirement.parse(serve.framework)
    manifest = Catalogue.of_runtimes().runtime_for(wanted.name, wanted.constraint.text)
    return Runtime(manifest.name, manifest.version, environment_of(manifest))


def runtime_in_image(job: JobSpec) -> Runtime | None:
    """The runtime that the image of a job's stack brings, as its manifest says; None where none does, or where that is
    not the number that the server tells.
    """
    backend = BACKENDS.load(job.serve.backend)
    if job.serve.launcher != "container" or not backend.versioned_by_package:
        return None
    own = (
        record
        for record in of_job(job.manifests, job.model_dump(mode="json"))
        if record.kind == "framework" and record.wanted_by.startswith("stack:")
    )
    return next((Runtime(r.name, r.version, None) for r in own if r.name == backend.package), None)


def environment_of(manifest: FrameworkManifest) -> Environment | None:
    """The environment that a version of a framework is made in on first use; None where it runs in InferBench's own."""
    place = manifest.pinned
    if manifest.runs_here or place is None:
        return None
    return other_runtimes.environment(
        place.name, manifest.name, manifest.version, place.packages, place.megabytes
    )
