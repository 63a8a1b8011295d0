"""Stage ``runtime``: the version of a runtime that a job names is here, and reads the model. Before there is a device.

What is made is an environment of pinned hashes, once; every later job finds it. Where the server runs on another host
than this stage, ``serve`` makes it there.
"""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.backends.environments import ENVIRONMENTS
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.manifests.runtime import named_runtime
from inferbench_tasks.stages import convert
from inferbench_tasks.stages.base import Context, Stage, StageInput

STAGE = Stage(needs=("convert",), retries=1, block="named_runtime")


class Input(StageInput):
    """The model that it is to serve."""

    convert: convert.Output


class Output(Handle):
    """``environment``: the folder; None where it runs in InferBench's own environment. ``made``: just now."""

    package: str
    version: str
    environment: str | None = None
    made: bool = False


def run(inp: Input, ctx: Context) -> Output:
    """Make what is missing. ServerError where it can't be installed, InputError where it can't read the model."""
    runtime = named_runtime(inp.job.serve)
    assert runtime is not None, "a job without a named runtime has no such stage"
    if runtime.environment is None:
        return Output(package=runtime.package, version=runtime.version)
    cache = ctx.cache_dir(ENVIRONMENTS)
    made = not runtime.environment.is_made(cache)
    if made:
        ctx.progress(0, None, f"installing {runtime.words} (about {runtime.environment.megabytes} MB, once)")
    folder = runtime.environment.ensure(cache)
    ctx.progress(1, None, f"asking {runtime.words} whether it reads the model")
    model = inp.convert.model
    BACKENDS.load(inp.job.serve.backend)().require_reads(
        Path(model.path), model.format, folder, runtime.words
    )
    return Output(package=runtime.package, version=runtime.version, environment=str(folder), made=made)
