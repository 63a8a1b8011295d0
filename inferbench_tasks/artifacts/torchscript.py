"""What a TorchScript file may hold: PyTorch runs its ``__setstate__`` while it loads, and its code when it serves.

An allow-list of the archive's records, of the words of its source (``torchscript_code``) and of its pickles
(``torchscript_pickle``), held against the file before PyTorch sees it; nothing of it is run for that. The archive
is read by PyTorch's own reader: another one could be shown another content.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from inferbench_tasks.artifacts import torchscript_code, torchscript_pickle
from inferbench_tasks.artifacts.torchscript_code import Forbidden
from inferbench_tasks.errors import InputError

#: What torch.jit.save writes. ``model.json`` and ``tensors.json`` are an older form with a reader of its own,
#: ``bytecode.pkl`` is code for phones, and ``extra/`` is read by nothing here.
RECORDS = re.compile(
    r"data\.pkl|constants\.pkl|traced_inputs\.pkl|(data|constants|traced_inputs)/\d{1,9}"
    r"|code/[\w/]+\.py(\.debug_pkl)?|extra/[\w./-]+|version|byteorder|archive_format|\.data/serialization_id",
    re.ASCII,
)
MAX_CODE_BYTES = 64 << 20
MAX_PICKLE_BYTES = 256 << 20
MAX_SMALL_BYTES = 64
PICKLES = ("data", "constants", "traced_inputs")
#: Storages of a pickle -> the type of their numbers; of the others none are weights.
DTYPES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128", "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8", "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4", "CharStorage": "int8",
    "ByteStorage": "uint8", "IntStorage": "int32",
}  # fmt: skip


def check(path: Path) -> dict[str, int]:
    """InputError, with the archive's record, for what is more than tensors and code that computes.

    Returns how many numbers it keeps of each type, by PyTorch's names.
    """
    import torch

    try:
        reader = torch._C.PyTorchFileReader(str(path))
        names = reader.get_all_records()
    except RuntimeError as error:
        raise InputError(
            f"{path} is damaged or no TorchScript archive: {error}", field="model.path"
        ) from error
    if len({name.casefold() for name in names}) != len(names):
        _refuse(path, "its table", "has the same name twice")
    for name in names:
        if not RECORDS.fullmatch(name) or ".." in name.split("/"):
            _refuse(path, name, "is nothing that torch.jit.save writes")
    try:
        return _check_records(reader, names)
    except _Record as error:
        _refuse(path, error.name, error.reason)


class _Record(Exception):
    """A record that is refused, and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason


def _refuse(path: Path, entry: str, reason: str) -> NoReturn:
    raise InputError(
        f"{path}: {entry} {reason}; only TorchScript that computes and does nothing else is read: save it with "
        f"torch.jit.save, with standard operators and without custom classes, or export the model to ONNX",
        field="model.path",
    )


def _check_records(reader: Any, names: list[str]) -> dict[str, int]:
    sizes = {name: reader.get_record_size(name) for name in names}
    sources = [name for name in names if name.endswith(".py")]
    if sum(sizes[name] for name in sources) > MAX_CODE_BYTES:
        raise _Record("code", f"has more than the {MAX_CODE_BYTES:,} bytes of source that are allowed")
    texts: dict[str, str] = {}
    for name in sources:
        try:
            texts[name] = reader.get_record(name).decode("ascii")
        except UnicodeDecodeError as error:
            raise _Record(name, "has characters that no source of TorchScript has") from error
    try:
        classes = torchscript_code.check(texts)
    except Forbidden as error:
        raise _Record(error.entry, str(error)) from error
    counts: Counter[str] = Counter()
    for name in names:
        small = name in ("version", "byteorder", "archive_format", ".data/serialization_id")
        if small and sizes[name] > MAX_SMALL_BYTES:
            raise _Record(name, f"has {sizes[name]:,} bytes")
        if not name.endswith("pkl"):
            continue
        if sizes[name] > MAX_PICKLE_BYTES:
            raise _Record(name, f"has {sizes[name]:,} bytes, allowed are {MAX_PICKLE_BYTES:,}")
        stem = name.removesuffix(".pkl")
        try:
            if stem in PICKLES:
                storages = {n.rsplit("/")[-1]: sizes[n] for n in names if n.startswith(f"{stem}/")}
                # PyTorch keeps of the examples that a model was traced with their shapes alone.
                shapes_only = stem == "traced_inputs" and not any(storages.values())
                named = torchscript_pickle.check(
                    reader.get_record(name), classes, storages, shapes_only=shapes_only
                )
                if stem != "traced_inputs":
                    for kind, elements in named.values():
                        counts[DTYPES.get(kind, kind)] += elements
            else:  # where the source's lines come from: texts and numbers
                torchscript_pickle.check(reader.get_record(name), frozenset(), {})
        except Forbidden as error:
            raise _Record(name, str(error)) from error
    return dict(counts)
