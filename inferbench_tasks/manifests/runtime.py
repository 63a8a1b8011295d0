"""Where the runtime runs that a job names (``serve.framework``): in this environment, or in one of pinned packages.

Only what is built in and what lies in files says of which packages an environment is made: PerfDB is written by many,
and who names packages there would decide what runs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferbench_tasks.backends import other_runtimes
from inferbench_tasks.backends.environments import Environment
from inferbench_tasks.backends.other_runtimes import Runtime
from inferbench_tasks.contracts.versions import Requirement
from inferbench_tasks.submission.schema import ServeSpec

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


def environment_of(manifest: FrameworkManifest) -> Environment | None:
    """The environment that a version of a framework is made in on first use; None where it runs in InferBench's own."""
    place = manifest.pinned
    if manifest.runs_here or place is None:
        return None
    return other_runtimes.environment(
        place.name, manifest.name, manifest.version, place.packages, place.megabytes
    )
