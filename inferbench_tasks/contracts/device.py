"""A device as people write it: ``cpu``, ``gpu``, ``gpu:t4``, ``gpu:0``, ``cpu:0-3``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, cast

from pydantic import Field
from pydantic_core import CoreSchema, core_schema

DeviceKind = Literal["cpu", "gpu"]
#: As workers register one: its host's name, and which of the host's devices it is.
DeviceId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$")]


class DeviceSpec(str):
    """Which device is meant. It is its text, so that it is stored, compared and shown as it was written.

    ``detail`` is what follows the colon, "" without: in a submission the type of a GPU (``gpu:t4``), for a worker the
    device of its machine (``gpu:0``, ``cpu:0-3``). Raises ValueError for any other text.
    """

    __slots__ = ()

    FORM = "cpu, gpu or gpu:<type> (for instance gpu:t4)"
    _TEXT = re.compile(r"(?:cpu|gpu)(?::[A-Za-z0-9][A-Za-z0-9_-]{0,49})?")

    def __new__(cls, text: str) -> DeviceSpec:
        """The device that a text such as ``cpu:0-3`` or ``gpu:1`` names."""
        if not cls._TEXT.fullmatch(text):
            raise ValueError(f"must be {cls.FORM}; got {text!r}")
        return super().__new__(cls, text)

    @property
    def kind(self) -> DeviceKind:
        """What a backend has to be able to run on."""
        return cast(DeviceKind, self.partition(":")[0])

    @property
    def detail(self) -> str:
        """What follows the kind: the cores of a CPU, the index of a GPU; empty where nothing does."""
        return self.partition(":")[2]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """A plain string in documents and schemas."""
        return core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(), serialization=core_schema.to_string_ser_schema(when_used="always")
        )


CPU = DeviceSpec("cpu")
