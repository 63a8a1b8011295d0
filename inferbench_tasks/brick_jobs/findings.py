"""What is impossible about a submission of bricks although each of its values is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.members import entries_of
from inferbench_tasks.brick_jobs.spec import CorpusSpec
from inferbench_tasks.bricks.corpus import corpora
from inferbench_tasks.bricks.inputs import sized
from inferbench_tasks.bricks.measure.method import runs_problem
from inferbench_tasks.bricks.runtimes import RUNTIMES, device_problem, precision_problem, runtime_of
from inferbench_tasks.contracts.spec import Spec
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.problem import did_you_mean, show
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.finding import Finding, unknown
from inferbench_tasks.submission.model import ZooModel

#: Fewer whole models say nothing of how far predictions are off.
FEWEST_CALIBRATING = 3


def findings(spec: BricksJob, abilities: Abilities) -> list[Finding]:
    """All of them; of models that nobody knows nothing but that.

    They are of the submission, so one of its jobs tells them: else a list of a thousand models is looked at as often.
    """
    if spec.part is not None and spec.part.role != "cut":
        return []
    if names := unknown_names(spec.model_dump(include={"models", "bricks"}), abilities):
        return names
    of_spec = [finding for aspect in _ASPECTS for finding in aspect(spec)]
    return [*_models_once(spec, abilities), *of_spec, *_precision(spec, abilities)]


def unknown_names(data: Mapping[str, Any], abilities: Abilities) -> list[Finding]:
    """Corpora, models and runtimes that nobody knows, in data that need not be valid otherwise."""
    return [*_unknown_models(data, abilities), *_unknown_runtime(data)]


def _unknown_runtime(data: Mapping[str, Any]) -> Iterator[Finding]:
    bricks = data.get("bricks")
    name = bricks.get("runtime") if isinstance(bricks, Mapping) else None
    if isinstance(name, str) and name not in RUNTIMES:
        yield Finding(("bricks.runtime",), unknown(RUNTIMES, name))


def _unknown_models(data: Mapping[str, Any], abilities: Abilities) -> list[Finding]:
    models = data.get("models")
    name = models.get("corpus") if isinstance(models, Mapping) else None
    if isinstance(name, str) and name not in corpora():
        known = corpora()
        text = f"unknown corpus {show(name)}{did_you_mean(name, known) or ';'} known: {', '.join(known)}"
        return [Finding(("models.corpus",), text)]
    found = []
    for at, entry in enumerate(models if isinstance(models, (list, tuple)) else ()):
        model = entry.get("model") if isinstance(entry, Mapping) else None
        name = model.get("name") if isinstance(model, Mapping) and model.get("kind") == "zoo" else None
        if isinstance(name, str) and name not in abilities.zoo:
            found.append(Finding((f"models.{at}.model.name",), unknown(abilities.zoo, name)))
    return found


def _models_once(spec: BricksJob, abilities: Abilities) -> Iterator[Finding]:
    if isinstance(spec.models, CorpusSpec):
        return
    seen: dict[str, int] = {}
    for at, entry in enumerate(spec.models):
        what = f"{_named(entry.model, abilities)} {sorted(entry.shapes.items())}"
        if what in seen:
            yield Finding(
                (f"models.{at}",),
                f"the same model as models.{seen[what]}; say copies there, and it counts as often",
            )
        seen.setdefault(what, at)


def _named(model: Spec, abilities: Abilities) -> str:
    """How a model is named; of a built-in one with its usual framework, whether that is spelled out or not."""
    if isinstance(model, ZooModel):
        with suppress(InputError):  # told of the model itself
            model = model.model_copy(update={"framework": abilities.framework(model)})
    return model.model_dump_json()


def _calibration(spec: BricksJob) -> Iterator[Finding]:
    count, wanted = len(entries_of(spec.models)), spec.validate.calibrate_on
    if "calibrate_on" not in spec.validate.model_fields_set:
        return
    if 0 < wanted < FEWEST_CALIBRATING:
        yield Finding(
            ("validate.calibrate_on",),
            f"{wanted} models say nothing of how far predictions are off; take at least {FEWEST_CALIBRATING}, or 0",
        )
    elif wanted and wanted >= count:
        yield Finding(
            ("validate.calibrate_on", "models"),
            f"{wanted} models can't calibrate when there are {count}: the one that is predicted is never among them",
        )


def _runs(spec: BricksJob) -> Iterator[Finding]:
    if (problem := runs_problem(spec.measure.runs, spec.measure.rounds)) is not None:
        yield Finding(("measure.runs", "measure.rounds"), problem)


def _repeated(spec: BricksJob) -> Iterator[Finding]:
    for name, values in (("granularity", spec.bricks.granularity), ("batch_sizes", spec.bricks.batch_sizes)):
        if len(set(values)) < len(values):
            yield Finding((f"bricks.{name}",), f"has a value twice: {', '.join(map(str, values))}")


def _runtime(spec: BricksJob) -> Iterator[Finding]:
    """Whether it computes in the precision (it is installed where it is needed, if it can be) and is of that kind of
    device; of GPUs, whether there is one here, where models are cut."""
    try:
        runtime = runtime_of(spec.bricks.runtime, "bricks.runtime")
    except InputError as error:  # a third party's that can't be imported
        yield Finding(("bricks.runtime",), str(error))
        return
    if (problem := precision_problem(runtime, spec.bricks.precision)) is not None:
        yield Finding(("bricks.precision", "bricks.runtime"), problem)
    if (problem := device_problem(runtime, spec.serve.device)) is not None:
        yield Finding(("serve.device", "bricks.runtime"), problem)


def _precision(spec: BricksJob, abilities: Abilities) -> Iterator[Finding]:
    """Whether each model can be had as ONNX in the precision, as far as its framework is known."""
    for at, entry in enumerate(entries_of(spec.models)):
        model = entry.model
        try:
            if isinstance(model, ZooModel):
                framework: str | None = abilities.framework(model)
            else:
                framework = getattr(model, "framework", None)
            if framework is not None and framework in abilities.formats:
                abilities.require_route(framework, "onnx", spec.bricks.precision)
        except InputError as error:
            what = "bricks.precision" if error.field in ("convert.format", "convert.precision") else ""
            listed = f"models.{at}.model" if isinstance(spec.models, tuple) else "models.corpus"
            if what:
                yield Finding((what, listed), error.message)
            elif (error.field or "").startswith("model.") and isinstance(spec.models, tuple):
                yield Finding((f"models.{at}.{error.field}",), error.message)
            else:
                yield Finding((listed,), str(error))


def _shapes(spec: BricksJob) -> Iterator[Finding]:
    """Sizes that a built-in model's inputs can't have, or that it leaves open. Files are read by no one before they are
    in the sandbox: theirs are told when they are cut."""
    if isinstance(spec.models, CorpusSpec):
        return
    for at, entry in enumerate(spec.models):
        if not isinstance(entry.model, ZooModel):
            continue
        try:
            source = resolve(entry.model, Path())
        except InputError:
            continue  # told of the model itself: see ``_precision``
        try:
            if (signature := source.signature()) is not None:
                sized(signature[0], dict(entry.shapes))
        except InputError as error:
            yield Finding((f"models.{at}.shapes", f"models.{at}.model"), error.message)


_ASPECTS = (_calibration, _runs, _repeated, _runtime, _shapes)
