"""``systems`` of a submission: decided before it is validated, by the devices that are known where it is read.

What was chosen is put in as ``system``, which every job has and its digest counts; ``all: true`` sweeps it. A
submission that was read so is read again as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version
from pydantic import ValidationError

from inferbench_tasks.contracts.versions import Requirement
from inferbench_tasks.dotted import contains, parts
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import FieldPath, Problem
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.base import DEFAULT_KIND, SubmissionBase
from inferbench_tasks.submission.document import Document
from inferbench_tasks.submission.fitting_systems import Miss, Needs, chosen_among, first_miss
from inferbench_tasks.submission.schema import ServeSpec
from inferbench_tasks.submission.swept import columns_of, zip_groups
from inferbench_tasks.submission.systems import System, SystemsSpec

IN_PLACE = "stands in place of serve.device; leave one of both out"
NOBODY = (
    "no worker has registered a device here; start one (`inferbench up`, or `inferbench worker`), or name serve.device "
    "and let the job wait for one"
)


@dataclass(frozen=True)
class Fit:
    """One device, and what it misses; None where it fits."""

    system: System
    miss: Miss | None


def with_systems(document: Document, abilities: Abilities) -> tuple[Document, list[Problem]]:
    """The document with what was chosen in place of ``serve.device``, and what is wrong.

    Where only the form is to be checked, a kind of device that the backend runs on stands there.
    """
    data = document.data
    if data.get("kind", DEFAULT_KIND) != DEFAULT_KIND:
        return document, []
    if isinstance(chosen := data.get("system"), dict):
        others = dict.fromkeys(place for place, device in _devices(data) if device != chosen.get("device"))
        return document, [
            document.problem(place, "is not the device of system; leave it out") for place in others
        ]
    if (wanted := _wanted(data)) is None:
        return document, []
    if contradictions := dict.fromkeys(_contradictions(data, wanted)):
        return document, [document.problem(place, text) for place, text in contradictions]
    try:
        systems = abilities.systems()
        needs = needs_of(data, wanted, abilities)
    except InputError as error:
        return document, [document.problem(("systems",), str(error))]
    changed = copy.deepcopy(data)
    if systems is None:
        changed["serve"] = {**(data.get("serve") or {}), "device": _of_form(wanted, needs)}
        return replace(document, data=changed), []
    fits = fitting(wanted, systems, needs)
    fit = [one.system for one in fits if one.miss is None]
    if not fit:
        return document, _refusals(document, fits)
    if wanted.all:
        _sweep(changed, fit)
    else:
        alike = chosen_among(fit)
        changed["system"] = alike[0].chosen(alike)
    return replace(document, data=changed), []


def form_alone(submission: SubmissionBase) -> bool:
    """Whether it asks for systems, and none was chosen: its jobs are no more than a check of its form."""
    return getattr(submission, "systems", None) is not None and getattr(submission, "system", None) is None


def fitting(wanted: SystemsSpec, systems: Sequence[System], needs: Needs) -> list[Fit]:
    """Each device, by id."""
    return [Fit(s, first_miss(s, wanted, needs)) for s in sorted(systems, key=lambda system: system.id)]


def fits_of(submission: SubmissionBase, abilities: Abilities) -> list[Fit]:
    """Each device that is known, of a submission that was read; none where it asks for no systems."""
    data = submission.model_dump(mode="json")
    if (wanted := _wanted(data)) is None or (systems := abilities.systems()) is None:
        return []
    return fitting(wanted, systems, needs_of(data, wanted, abilities))


def needs_of(data: Mapping[str, Any], wanted: SystemsSpec, abilities: Abilities) -> Needs:
    """By the backends of a submission's plain values, swept ones too; InputError for one that can't be imported."""
    backends = [name for name in dict.fromkeys(_backends(data)) if name in abilities.backends]
    places: set[str] = set()
    if wanted.framework is not None:
        name = Requirement.parse(wanted.framework).name
        # A version that a job names is made where it runs: what is installed there is nothing to it.
        if None in _versions(data, name):
            places = {abilities.framework_place(name, backend) for backend in backends} or {"here"}
    on_devices = data.get("on_devices")
    return Needs(
        {name: abilities.backend(name).devices for name in backends},
        frozenset(places),
        tuple(on_devices) if isinstance(on_devices, (list, tuple)) else (),
    )


def _wanted(data: Mapping[str, Any]) -> SystemsSpec | None:
    """None where there is nothing to decide, or the schema has to tell what is wrong."""
    sections = (data.get("serve"), data.get("sweep"))
    if data.get("systems") is None or not all(part is None or isinstance(part, dict) for part in sections):
        return None
    try:
        return SystemsSpec.model_validate(data["systems"])
    except ValidationError:
        return None


def _contradictions(data: Mapping[str, Any], wanted: SystemsSpec) -> Iterator[tuple[FieldPath, str]]:
    for place, _ in _devices(data):
        yield place, f"systems {IN_PLACE}"
    swept = list(columns_of(data.get("sweep")))
    for place, path, _ in swept:
        if contains("system", path) or contains("systems", path):
            yield place, "can't be swept; systems: {..., all: true} makes a job for each device that fits"
    if data.get("share") is not None or any(contains("share", path) for _, path, _ in swept):
        yield ("systems",), "the servers of share have devices of their own; name serve.device"
    if wanted.framework is not None:
        asked = Requirement.parse(wanted.framework)
        for version in dict.fromkeys(_versions(data, asked.name)):
            if version is not None and not asked.constraint.allows(version):
                yield (
                    ("systems", "framework"),
                    f"serve.framework names {asked.name} {version}, which is not {wanted.framework}; leave one of both "
                    "out",
                )
    if wanted.framework is not None and "container" in _values_of(data, "serve.launcher"):
        yield (
            ("systems", "framework"),
            "of a container its image says it; leave it out, or use launcher: process",
        )


def _devices(data: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Any]]:
    """(place, value) wherever ``serve.device`` is said."""
    serve = data.get("serve")
    if isinstance(serve, dict) and serve.get("device") is not None:
        yield ("serve", "device"), serve["device"]
    for place, path, values in columns_of(data.get("sweep")):
        if path == "serve.device":
            yield from ((place, value) for value in values)
        elif path == "serve":
            yield from (
                (place, value["device"]) for value in values if isinstance(value, dict) and "device" in value
            )


def _versions(data: Mapping[str, Any], name: str) -> list[Version | None]:
    """The versions of a framework that jobs run in: that of ``serve.framework``, None for what is installed."""
    columns = list(columns_of(data.get("sweep")))
    texts = [value for _, path, values in columns if path == "serve.framework" for value in values]
    sections = [value for _, path, values in columns if path == "serve" for value in values]
    texts += [section.get("framework") for section in sections if isinstance(section, dict)]
    return [_version_of(text, name) for text in texts or [(data.get("serve") or {}).get("framework")]]


def _version_of(text: Any, name: str) -> Version | None:
    """The one version that a text names of that framework; None of any other text, which is told where it stands."""
    try:
        wanted = Requirement.parse(text) if isinstance(text, str) else None
        return Version(wanted.constraint.text) if wanted is not None and wanted.name == name else None
    except ValueError:
        return None


def _backends(data: Mapping[str, Any]) -> list[str]:
    named = [value for value in _values_of(data, "serve.backend") if isinstance(value, str)]
    return named or [str(ServeSpec.model_fields["backend"].default)]


def _values_of(data: Mapping[str, Any], path: str) -> list[Any]:
    """All values that a field of ``serve`` has in a submission's jobs, as far as it says them."""
    name = path.partition(".")[2]
    columns = list(columns_of(data.get("sweep")))
    of_sweep = [value for _, swept, values in columns if swept == path for value in values]
    of_sections = [
        value[name]
        for _, swept, values in columns
        if swept == "serve"
        for value in values
        if isinstance(value, dict) and value.get(name) is not None
    ]
    of_base = (data.get("serve") or {}).get(name)
    return [*of_sweep, *of_sections] or ([] if of_base is None else [of_base])


def _of_form(wanted: SystemsSpec, needs: Needs) -> str:
    """A kind of device that may be chosen later, for checks that ask for one."""
    kinds = [kind for kind in ("cpu", "gpu") if all(kind in able for able in needs.backends.values())]
    return wanted.device if wanted.device in ("cpu", "gpu") else (kinds or ["cpu"])[0]


def _sweep(data: dict[str, Any], fit: Sequence[System]) -> None:
    """A job for each of these devices at each point; what is the same for all of them is not swept."""
    rows = [system.chosen() for system in fit]
    columns = {
        f"system.{name}": [row[name] for row in rows]
        for name in ("id", "name", "device", "arch", "cores")
        if name == "id" or len({row[name] for row in rows}) > 1
    }
    data["system"] = rows[0]
    sweep = dict(data.get("sweep") or {})
    sweep["zip"] = [*(group for _, group in zip_groups(sweep)), columns]
    data["sweep"] = sweep


def _refusals(document: Document, fits: Sequence[Fit]) -> list[Problem]:
    """Every device with the first requirement that it misses, at that requirement's line."""
    if not fits:
        return [document.problem(("systems",), NOBODY)]
    missed: dict[tuple[str, str], list[str]] = {}
    for fit in fits:
        assert fit.miss is not None
        missed.setdefault((fit.miss.field, fit.miss.wanted), []).append(f"{fit.system.id} ({fit.miss.is_})")
    return [
        document.problem(("systems",), f"fits none of the devices ({len(fits)}) that are here; ask for less"),
        *(
            document.problem(parts(field), f"{wanted} is missed by {', '.join(devices)}")
            for (field, wanted), devices in missed.items()
        ),
    ]
