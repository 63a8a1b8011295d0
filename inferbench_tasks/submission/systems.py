"""``systems``: what a device must have, in place of ``serve.device``; and what was chosen by it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from inferbench_tasks.contracts.device import DeviceId, DeviceSpec
from inferbench_tasks.contracts.spec import COMPARISON_PATTERN, Count, Spec
from inferbench_tasks.contracts.versions import Requirement

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq,
}  # fmt: skip
#: ``>=2``, or 2, which is ``==2``.
Bound = (
    Annotated[float, Field(gt=0, le=1_000_000)]
    | Annotated[str, Field(pattern=COMPARISON_PATTERN, max_length=40)]
)


@dataclass(frozen=True)
class Comparison:
    """A comparison with a number; ``text`` has it in one form, as ``>=2``."""

    operator: str
    number: float

    @classmethod
    def of(cls, bound: float | str) -> Comparison:
        """That of a bound that the schema let through."""
        if not isinstance(bound, str):
            return cls("==", float(bound))
        match = re.fullmatch(r"(>=|<=|==|>|<)\s*(\S+)", bound)
        assert match is not None
        return cls(match[1], float(match[2]))

    def holds(self, value: float) -> bool:
        """Whether it is true of a value."""
        return _COMPARE[self.operator](value, self.number)

    @property
    def text(self) -> str:
        """As a message has it."""
        return f"{self.operator}{self.number:g}"


class SystemsSpec(Spec):
    """What a device must have to be chosen among those whose workers have registered; all that is named must hold. It
    stands in place of `serve.device`, and is decided when the submission is submitted, or run on one machine."""

    arch: Literal["x86_64", "aarch64"] | None = None
    """The host's instruction set."""
    device: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """``cpu``, ``gpu``, or part of a device's name, as ``H100`` or ``Xeon``; upper and lower case are the same."""
    cores: Bound | None = None
    """Logical cores that its jobs may use: ``">=2"``; a number means exactly so many."""
    memory_gb: Bound | None = None
    """Memory in GB (10^9 bytes), as a whole number: a GPU's own, else its host's. ``">=16"``, or exactly a number."""
    framework: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """A framework with its version, as that of its manifest: ``onnxruntime>=1.20``. It must be there where the backend
    runs."""
    all: bool = False
    """One job for each device that fits, instead of one on any of those that are alike."""

    @field_validator("framework")
    @classmethod
    def _a_requirement(cls, value: str | None) -> str | None:
        if value is not None:
            Requirement.parse(value)  # a ValueError says what is allowed
        return value

    @model_validator(mode="after")
    def _says_something(self) -> SystemsSpec:
        if not self.all and all(getattr(self, name) is None for name in REQUIREMENTS):
            raise ValueError(f"says nothing: give {', '.join(REQUIREMENTS)}, or all: true")
        return self


#: In the order in which a device is asked for them.
REQUIREMENTS = ("arch", "device", "cores", "memory_gb", "framework")


class SystemSpec(Spec):
    """The system that was chosen by `systems`. Filled in on reading; where it is given, a registered device must be it.
    It is part of a job's digest."""

    device: DeviceSpec
    """``cpu`` or ``gpu:<type>``; `serve.device` follows it."""
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """The device's, as its driver or the kernel says it."""
    arch: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    """Its host's instruction set; null where its worker did not tell."""
    cores: Count | None = None
    """Logical cores that its jobs may use."""
    id: DeviceId | None = None
    """Of the one device that it is; null: any of those that are alike."""
    alike: tuple[DeviceId, ...] = Field(default=(), strict=False, max_length=1000)
    """The ids of devices that are alike, each of which may run it; no part of a digest."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the devices that may run it."""
        return (self.id,) if self.id is not None else self.alike

    @model_validator(mode="after")
    def _is_somewhere(self) -> SystemSpec:
        if (self.id is None) == (not self.alike):
            raise ValueError("needs the id of one device, or the ids of those that are alike")
        return self


@dataclass(frozen=True)
class Framework:
    """A version of a framework that a host has. ``place``: ``here``, or the name of a backend's environment."""

    name: str
    version: str
    place: str


@dataclass(frozen=True)
class System:
    """A device with what ``systems`` chooses by, as its worker told it; None: it did not tell."""

    id: str
    device: DeviceSpec
    name: str
    arch: str | None = None
    cores: int | None = None
    memory_gb: int | None = None
    frameworks: tuple[Framework, ...] | None = None
    unfit: str = ""
    """Why no job can be given to it now; "" where one can."""

    @property
    def alike(self) -> tuple[str, str, str | None, int | None, int | None]:
        """Equal for devices of which either may run a job that asks for one of them."""
        return (self.device, self.name, self.arch, self.cores, self.memory_gb)

    def chosen(self, alike: Sequence[System] = ()) -> dict[str, Any]:
        """As it stands in a job, as plain values: this device alone, or any of those that are alike."""
        return {
            "device": str(self.device),
            "name": self.name,
            "arch": self.arch,
            "cores": self.cores,
            "id": None if alike else self.id,
            "alike": [system.id for system in alike],
        }

    def fulfils(self, chosen: SystemSpec) -> bool:
        """Whether it is what was chosen, whatever its id is."""
        mine = (self.device, self.name, self.arch, self.cores)
        return mine == (chosen.device, chosen.name, chosen.arch, chosen.cores)
