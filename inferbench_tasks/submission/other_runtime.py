"""What a version of a runtime that a job names (``serve.framework``) can't go with."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.contracts.versions import Requirement
from inferbench_tasks.submission.abilities import BackendAbilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec

_FIELD = "serve.framework"


def other_runtime_findings(spec: JobSpec, backend: BackendAbilities) -> Iterator[Finding]:
    """Of a job that names one."""
    serve = spec.serve
    assert serve.framework is not None
    name = Requirement.parse(serve.framework).name
    if not backend.other_versions:
        yield Finding(
            (_FIELD, "serve.backend"),
            f"the backend {serve.backend} runs in the version that is here; leave it out, or use onnxruntime",
        )
    elif name != backend.package:
        yield Finding(
            (_FIELD, "serve.backend"), f"the backend {serve.backend} runs {backend.package}; it is {name}"
        )
    if serve.launcher != "process":
        yield Finding(
            (_FIELD, "serve.launcher"),
            "an image brings its own version; name the image, or use launcher: process",
        )
    if serve.device.kind != "cpu":
        yield Finding(
            (_FIELD, "serve.device"), "other versions run on CPUs only; leave it out, or use device: cpu"
        )
    if spec.share is not None:
        yield Finding(
            (_FIELD, "share"), "models that share a device run in the version that is here; leave it out"
        )
