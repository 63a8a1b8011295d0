"""Which devices fit ``systems``, and what is the first that each other one misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from inferbench_tasks.contracts.versions import Requirement, newest_first
from inferbench_tasks.problem import show
from inferbench_tasks.submission.systems import Comparison, System, SystemsSpec

NOT_TOLD = "its worker did not tell"


@dataclass(frozen=True)
class Miss:
    """The first requirement that a device misses. ``field``: its dotted path; ``wanted``, ``is_``: for people."""

    field: str
    wanted: str
    is_: str

    def __str__(self) -> str:
        return f"{self.field} {self.wanted}: {self.is_}"


@dataclass(frozen=True)
class Needs:
    """What a device must be for the submission beside ``systems``.

    ``backends``: the kinds of devices that each backend runs on; ``places``: where the framework must be, nowhere if
    every job names a version of it, which is made there; ``on_devices``: the ids that the submission names, any
    without.
    """

    backends: Mapping[str, tuple[str, ...]]
    places: frozenset[str] = frozenset()
    on_devices: tuple[str, ...] = ()


def first_miss(system: System, wanted: SystemsSpec, needs: Needs) -> Miss | None:
    """None where the device fits."""
    if system.unfit:
        return Miss("systems", "a device that takes jobs", system.unfit)
    if needs.on_devices and system.id not in needs.on_devices:
        return Miss("systems", "a device of on_devices", "it is not named")
    if wanted.arch is not None and system.arch != wanted.arch:
        return Miss("systems.arch", wanted.arch, system.arch or NOT_TOLD)
    if wanted.device is not None and not _is_device(system, wanted.device):
        return Miss("systems.device", show(wanted.device), f"{system.device}, {system.name}")
    for name in ("cores", "memory_gb"):
        if (miss := _compared(system, wanted, name)) is not None:
            return miss
    if (
        wanted.framework is not None
        and (miss := _framework(system, wanted.framework, needs.places)) is not None
    ):
        return miss
    for backend, kinds in needs.backends.items():
        if system.device.kind not in kinds:
            able = f"a device that {backend} runs on ({' or '.join(kinds)})"
            return Miss("systems", able, f"a {system.device.kind}")
    return None


def chosen_among(systems: Sequence[System]) -> tuple[System, ...]:
    """Of devices that fit those that are alike and most, so that most jobs can run at once; of as many the first by id.

    One submission without ``all`` is measured on systems that are alike: its jobs are compared with each other.
    """
    groups: dict[object, list[System]] = {}
    for system in sorted(systems, key=lambda one: one.id):
        groups.setdefault(system.alike, []).append(system)
    most = max(map(len, groups.values()), default=0)
    return next((tuple(group) for group in groups.values() if len(group) == most), ())


def _is_device(system: System, wanted: str) -> bool:
    if wanted in ("cpu", "gpu"):
        return system.device.kind == wanted
    return wanted.lower() in system.name.lower()


def _compared(system: System, wanted: SystemsSpec, name: str) -> Miss | None:
    bound, value = getattr(wanted, name), getattr(system, name)
    if bound is None:
        return None
    comparison = Comparison.of(bound)
    if value is None:
        return Miss(f"systems.{name}", comparison.text, NOT_TOLD)
    return None if comparison.holds(value) else Miss(f"systems.{name}", comparison.text, f"{value}")


def _framework(system: System, text: str, places: frozenset[str]) -> Miss | None:
    """``places``: everywhere that it must be."""
    wanted = Requirement.parse(text)
    if system.frameworks is None and places:
        return Miss("systems.framework", text, NOT_TOLD)
    for place in sorted(places):
        there = [f.version for f in system.frameworks or () if f.name == wanted.name and f.place == place]
        if not any(wanted.constraint.allows(Version(version)) for version in there):
            where = "" if place == "here" else f" in the environment {place}"
            versions = f"{', '.join(newest_first(there))}" if there else "none"
            return Miss("systems.framework", text, f"{versions}{where}")
    return None
