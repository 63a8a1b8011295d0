"""GGUF files, read without trusting them: fields, tensors, and whether all of the file is there.

Every count and every length is compared with the bytes that are left before anything of that size is made, so that a
file of a stranger costs no more than its own size. The form, little-endian: ``GGUF``, version, number of tensors and of
fields; the fields (name, type, value); the tensors (name, sizes, type, offset); and their values behind the next
multiple of the alignment.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from inferbench_tasks.artifacts.plain_file import check_plain
from inferbench_tasks.errors import InputError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
#: What llama.cpp makes tokens of texts with; others (encoders, vision, speech) have files of this form too.
ARCHITECTURES = (
    "bloom", "command-r", "deepseek2", "falcon", "gemma", "gemma2", "gemma3", "gpt2", "gptneox", "granite", "internlm2",
    "llama", "mpt", "olmo", "olmo2", "phi2", "phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "smollm3", "stablelm",
    "starcoder2",
)  # fmt: skip
#: Number of a type of tensors -> its name, the elements of a block and the bytes of one.
TENSOR_TYPES = {
    0: ("f32", 1, 4), 1: ("f16", 1, 2), 2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20), 6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24), 8: ("q8_0", 32, 34), 9: ("q8_1", 32, 36), 10: ("q2_k", 256, 84), 11: ("q3_k", 256, 110),
    12: ("q4_k", 256, 144), 13: ("q5_k", 256, 176), 14: ("q6_k", 256, 210), 15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66), 17: ("iq2_xs", 256, 74), 18: ("iq3_xxs", 256, 98), 19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18), 21: ("iq3_s", 256, 110), 22: ("iq2_s", 256, 82), 23: ("iq4_xs", 256, 136),
    24: ("i8", 1, 1), 25: ("i16", 1, 2), 26: ("i32", 1, 4), 27: ("i64", 1, 8), 28: ("f64", 1, 8),
    29: ("iq1_m", 256, 56), 30: ("bf16", 1, 2), 34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66), 39: ("mxfp4", 32, 17),
}  # fmt: skip
#: Number of a field's type -> how ``struct`` reads it.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
#: Of all fields and names together; the largest vocabularies have 10 to 20 MB.
_MOST_HEAD_BYTES = 256 << 20
#: Of one array: vocabularies and merges have up to 300,000, each an object here.
_MOST_ELEMENTS = 4_000_000
_MOST_FIELDS = 4096
_MOST_AXES = 4
_MOST_ALIGNMENT = 1 << 20


@dataclass(frozen=True)
class GgufTensor:
    """``shape``: the last axis lies together, the other way round than the file says it; ``begins``: its first byte."""

    name: str
    type: str
    shape: tuple[int, ...]
    begins: int


@dataclass(frozen=True)
class GgufFile:
    """What a file says of itself, without the values of its tensors."""

    version: int
    fields: dict[str, Any]
    tensors: tuple[GgufTensor, ...]

    @property
    def types(self) -> dict[str, int]:
        """Of each type of tensors by its name, how many parameters it holds."""
        counts: Counter[str] = Counter()
        for tensor in self.tensors:
            counts[tensor.type] += math.prod(tensor.shape)
        return dict(counts)

    @property
    def architecture(self) -> str:
        """As llama.cpp names it."""
        return str(self.fields["general.architecture"])

    @property
    def parameters(self) -> int:
        """The elements of all tensors."""
        return sum(self.types.values())

    @property
    def precision(self) -> str:
        """The type that most parameters have."""
        return max(self.types, key=lambda name: self.types[name])

    def own(self, name: str) -> Any:
        """A field of the architecture, for instance ``context_length``; None where the file has none."""
        return self.fields.get(f"{self.architecture}.{name}")

    @property
    def context_tokens(self) -> int | None:
        """The tokens that the model was made for, prompt and answer together; None where the file does not say."""
        tokens = self.own("context_length")
        return tokens if isinstance(tokens, int) and tokens > 0 else None


def read_gguf(path: Path, name: str | None = None) -> GgufFile:
    """What a file says of itself. InputError where it is none, is cut off, or holds no model that makes tokens.

    ``name``: what it is called in words, where that is not its own name.
    """
    try:
        check_plain(path)
        with path.open("rb") as file:
            return _Reader(file, path.stat().st_size, name or path.name).read()
    except OSError as error:
        raise InputError(f"{path.name} can't be read: {error}", field="model.path") from error


class _Reader:
    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        self._file, self._size, self._name = file, size, name
        self._left = min(size, _MOST_HEAD_BYTES)

    def read(self) -> GgufFile:
        if self._size < len(MAGIC) or self._file.read(len(MAGIC)) != MAGIC:
            raise self._refused(f"is no GGUF file: it does not begin with {MAGIC.decode()}")
        self._left -= len(MAGIC)
        version = self._scalar("I")
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise self._refused(f"is GGUF of version {version}; allowed are {known}, little-endian")
        tensors, fields = self._scalar("Q"), self._scalar("Q")
        if fields > _MOST_FIELDS:
            raise self._refused(f"says that it has {fields:,} fields; at most {_MOST_FIELDS:,} are read")
        self._fits(tensors, 24, "tensors")  # the shortest name, no axis, type and offset
        values = self._fields(fields)
        self._check_architecture(values.get("general.architecture"))
        described, end = self._tensors(tensors)
        if not described:
            raise self._refused("has no tensors: it is a vocabulary, no model")
        start = self._aligned(self._file.tell(), values.get("general.alignment", 32))
        if start + end > self._size:
            raise self._refused(
                f"is cut off: its tensors end at byte {start + end:,}, and the file has {self._size:,}; copy it again"
            )
        placed = (replace(tensor, begins=start + tensor.begins) for tensor in described)
        return GgufFile(version, values, tuple(placed))

    def _fields(self, count: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for _ in range(count):
            name = self._string()
            if name in values:
                raise self._refused(f"is damaged: it has the field {name[:80]!r} twice")
            values[name] = self._value(self._scalar("I"), name)
        return values

    def _check_architecture(self, name: Any) -> None:
        if name not in ARCHITECTURES:
            what = f"of the architecture {name[:40]!r}" if isinstance(name, str) else "of no architecture"
            raise self._refused(
                f"holds a model {what}; allowed are those that make tokens of texts: {', '.join(ARCHITECTURES)}"
            )

    def _tensors(self, count: int) -> tuple[list[GgufTensor], int]:
        """What is said of each, with the offset among all values, and the bytes of those."""
        tensors: list[GgufTensor] = []
        end = 0
        for _ in range(count):
            name = self._string()[:80]
            axes = self._scalar("I")
            if axes > _MOST_AXES:
                raise self._refused(f"is damaged: the tensor {name!r} has {axes:,} axes")
            sizes = [self._scalar("Q") for _ in range(axes)]
            number, offset = self._scalar("I"), self._scalar("Q")
            if number not in TENSOR_TYPES:
                raise self._refused(
                    f"has the tensor {name!r} in the type {number}, which is not known; known are "
                    f"{', '.join(known for known, _, _ in TENSOR_TYPES.values())}"
                )
            kind, block, size = TENSOR_TYPES[number]
            elements = math.prod(sizes)
            if not sizes or not elements or sizes[0] % block:
                raise self._refused(f"is damaged: the tensor {name!r} of {kind} has the sizes {sizes}")
            tensors.append(GgufTensor(name, kind, tuple(reversed(sizes)), offset))
            end = max(end, offset + elements // block * size)
        return tensors, end

    def _aligned(self, position: int, alignment: Any) -> int:
        if not isinstance(alignment, int) or not 0 < alignment <= _MOST_ALIGNMENT or alignment % 8:
            raise self._refused(f"is damaged: its alignment is {alignment!r}")
        return -(-position // alignment) * alignment

    def _value(self, kind: int, name: str) -> Any:
        if kind == _STRING:
            return self._string()
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind != _ARRAY:
            raise self._refused(f"is damaged: the field {name[:80]!r} has the type {kind}")
        of, count = self._scalar("I"), self._scalar("Q")
        if count > _MOST_ELEMENTS:
            raise self._refused(
                f"has {count:,} elements in {name[:80]!r}; at most {_MOST_ELEMENTS:,} are read"
            )
        if of == _STRING:
            self._fits(count, 8, f"strings in {name[:80]!r}")
            return [self._string() for _ in range(count)]
        if of not in _SCALARS:
            raise self._refused(f"has an array of the type {of} in {name[:80]!r}, which is not read")
        size = struct.calcsize("<" + _SCALARS[of])
        self._fits(count, size, f"elements in {name[:80]!r}")
        return list(struct.unpack(f"<{count}{_SCALARS[of]}", self._take(count * size)))

    def _string(self) -> str:
        return self._take(self._scalar("Q")).decode("utf-8", "replace")

    def _scalar(self, form: str) -> Any:
        return struct.unpack("<" + form, self._take(struct.calcsize("<" + form)))[0]

    def _take(self, count: int) -> bytes:
        self._fits(count, 1, "bytes")
        self._left -= count
        data = self._file.read(count)
        if len(data) != count:  # it became shorter while it was read
            raise self._refused("is cut off; copy it again")
        return data

    def _fits(self, count: int, size: int, what: str) -> None:
        if count * size > self._left:
            if self._size > _MOST_HEAD_BYTES:
                raise self._refused(
                    f"is damaged: {count:,} {what} are more than {_MOST_HEAD_BYTES >> 20} MiB of fields hold"
                )
            raise self._refused(
                f"is cut off or damaged: {count:,} {what} should follow and {self._left:,} bytes are "
                "left; copy it again"
            )

    def _refused(self, what: str) -> InputError:
        return InputError(f"{self._name} {what}", field="model.path")
