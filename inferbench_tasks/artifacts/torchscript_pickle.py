"""The pickles of a TorchScript archive: which classes they may name, and that their tensors fit their bytes.

Python's unpickler reads them here with stand-ins for every class, so that nothing is called. PyTorch's own takes
the size of a tensor from the pickle and its bytes from another record, and does not compare them.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import Any

from inferbench_tasks.artifacts.torchscript_code import COMPILED, Forbidden

#: What PyTorch's unpickler for TorchScript knows.
OPCODES = {
    "PROTO", "EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_DICT", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "MARK",
    "NEWTRUE", "NEWFALSE", "NONE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "TUPLE", "TUPLE1",
    "TUPLE2", "TUPLE3", "SETITEM", "SETITEMS", "APPEND", "APPENDS", "LIST", "DICT", "GLOBAL", "NEWOBJ", "BUILD",
    "REDUCE", "BINPERSID", "STOP",
}  # fmt: skip
ITEM_BYTES = {
    "ByteStorage": 1, "CharStorage": 1, "BoolStorage": 1, "ShortStorage": 2, "HalfStorage": 2, "BFloat16Storage": 2,
    "IntStorage": 4, "FloatStorage": 4, "LongStorage": 8, "DoubleStorage": 8, "ComplexFloatStorage": 8,
    "ComplexDoubleStorage": 16, "QInt8Storage": 1, "QUInt8Storage": 1, "QInt32Storage": 4, "QUInt4x2Storage": 1,
    "QUInt2x4Storage": 1,
}  # fmt: skip
LISTS = {"build_intlist", "build_doublelist", "build_boollist", "build_tensorlist", "build_tensor_from_id"}
QUANTISED = {"per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams"}
MAX_DIMENSIONS = 64


def check(
    content: bytes, classes: frozenset[str], storages: dict[str, int], *, shapes_only: bool = False
) -> dict[str, tuple[str, int]]:
    """``storages``: key of a storage -> its bytes, unless only shapes were kept. Raises Forbidden.

    Returns of each storage that it names, by its key, the kind and how many elements it has.
    """
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
            if opcode.name not in OPCODES:
                raise Forbidden(f"has the instruction {opcode.name}, which no TorchScript pickle has")
            if opcode.name in ("LONG_BINPUT", "BINPUT") and argument is not None and int(argument) > count:
                raise Forbidden(f"keeps a value under the number {argument}, of {count} instructions")
        reader = _Reader(content, classes, None if shapes_only else storages)
        reader.load()
    except Forbidden:
        raise
    # A damaged pickle ends in whatever the unpickler stumbles over; nothing of the archive's is called in it.
    except Exception as error:
        raise Forbidden(f"is damaged: {error!r:.200}") from error
    return reader.named


class _Value:
    """An object of the archive: what is done to it has no effect."""

    def __setstate__(self, state: Any) -> None:
        pass


class _Storage:
    def __init__(self, elements: int) -> None:
        self.elements = elements


class _Reader(pickle._Unpickler):
    """Python's own in Python: its table of kept values takes no more memory than it has values."""

    def __init__(self, content: bytes, classes: frozenset[str], storages: dict[str, int] | None) -> None:
        super().__init__(io.BytesIO(content))
        self._classes, self._storages = classes, storages
        self.named: dict[str, tuple[str, int]] = {}

    def find_class(self, module: str, name: str) -> Any:
        qualified = f"{module}.{name}"
        if qualified in self._classes or COMPILED.fullmatch(qualified):
            return _Value
        if module == "torch" and name in ITEM_BYTES.keys() | QUANTISED:
            return name
        if module == "torch" and name == "device":
            return lambda *arguments: _Value()
        if module == "torch.jit._pickle" and name in LISTS:
            return list
        if module == "torch.jit._pickle" and name == "restore_type_tag":
            return lambda value, kind: value
        if module == "collections" and name == "OrderedDict":
            return dict
        if module == "builtins" and name == "complex":
            return complex
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_qtensor"):
            return _rebuild
        raise Forbidden(f"names {qualified[:120]!r}, which is no class of the archive")

    def persistent_load(self, pid: Any) -> Any:
        """A storage: its elements have to be what its record has bytes for."""
        word, kind, key, _, elements = pid
        if word != "storage" or kind not in ITEM_BYTES or type(elements) is not int or elements < 0:
            raise Forbidden(f"has a storage of the form {pid!r:.120}")
        self.named[str(key)] = kind, elements
        if self._storages is None:
            return _Storage(elements)
        actual = self._storages.get(key, 0)
        if actual != elements * ITEM_BYTES[kind]:
            raise Forbidden(
                f"has {elements:,} elements of {kind} in the {actual:,} bytes of {str(key)[:40]!r}"
            )
        return _Storage(elements)


def _rebuild(
    storage: _Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> _Value:
    """A tensor: no element of it may lie beyond its storage."""
    numbers = (offset, *size, *stride)
    if (
        len(size) != len(stride)
        or len(size) > MAX_DIMENSIONS
        or not all(type(n) is int and n >= 0 for n in numbers)
    ):
        raise Forbidden(f"has a tensor of the shape {size!r:.120}, strides {stride!r:.120}")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    if math.prod(size) > 0 and last > storage.elements:
        raise Forbidden(f"has a tensor of {last:,} elements in a storage of {storage.elements:,}")
    return _Value()
