"""What is checked of a file from outside before anything reads it as a model."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferbench_tasks.artifacts import exported_program, saved_model, torchscript
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.errors import InputError

MAX_BYTES = 8 << 30
#: A model archive stores weights uncompressed; what unpacks to much more than its size is a bomb.
MAX_RATIO = 20.0
MAX_MEMBERS = 20_000
#: What Git LFS leaves in place of a large file that was not fetched.
_POINTER = b"version https://git-lfs.github.com/spec/"


def inside(base_dir: Path, path: str, field: str) -> Path:
    """The absolute path, links resolved. InputError where it is missing or leads out of ``base_dir``."""
    base = base_dir.resolve()
    try:
        target = (base / path).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path} is not there, below {base}", field=field) from error
    if not target.is_relative_to(base):
        raise InputError(f"{path} leads out of the submission's folder {base}", field=field)
    return target


def check_size(path: Path) -> None:
    """InputError for an empty or too large file, and for a folder with links that lead out of it."""
    total = 0
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if not file.resolve().is_relative_to(path):
            raise InputError(f"{file} is a link that leads out of the model's folder", field="model.path")
        if file.is_file():
            require_no_pointer(file)
            total += file.stat().st_size
    if total > MAX_BYTES:
        raise InputError(f"{path} has {total:,} bytes, allowed are {MAX_BYTES:,}", field="model.path")
    if total == 0:
        raise InputError(f"{path} is empty", field="model.path")


def require_no_pointer(file: Path) -> None:
    """InputError for what stands in a Git checkout for a large file that was not fetched."""
    with file.open("rb") as opened:
        if opened.read(len(_POINTER)) == _POINTER:
            raise InputError(
                f"{file} is a pointer of Git LFS and not the file itself; fetch it with `git lfs pull`",
                field="model.path",
            )


def external_data(path: Path) -> list[Path]:
    """The files that an ONNX model keeps its weights in; InputError where one is missing, elsewhere or no file."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    model = _onnx(path)
    files: set[Path] = set()
    for tensor in _tensors(model):
        if uses_external_data(tensor):
            field = f"model.path: the external data of {tensor.name or 'a constant'}"
            location = ExternalDataInfo(tensor).location
            file = inside(path.parent, location, field)
            if not file.is_file():
                raise InputError(f"{location} is no file", field=field)
            require_no_pointer(file)
            files.add(file)
    total = sum(file.stat().st_size for file in files)
    if total > MAX_BYTES:
        raise InputError(
            f"{path} has {total:,} bytes of external data, allowed: {MAX_BYTES:,}", field="model.path"
        )
    return sorted(files)


def onnx_inputs(path: Path) -> tuple[TensorSpec, ...]:
    """What an ONNX model takes, without the batch axis, -1 for a size that is left open; InputError as of the above."""
    import onnx

    graph = _onnx(path).graph
    weights = {tensor.name for tensor in graph.initializer}
    specs = []
    for value in graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        sizes = [axis.dim_value or -1 for axis in tensor.shape.dim]
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)) if tensor.elem_type else "unknown"
        specs.append(TensorSpec(name=value.name, dtype=dtype, shape=tuple(sizes[1:])))
    return tuple(specs)


def _onnx(path: Path) -> Any:
    """The file's ``onnx.ModelProto`` without what lies beside it; InputError where it is none."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise InputError(
            f"{path} is damaged or no ONNX model: {error}; export or copy it again", field="model.path"
        ) from error
    if not model.graph.node:
        raise InputError(
            f"{path} is damaged or no ONNX model: its graph is empty; export or copy it again",
            field="model.path",
        )
    return model


def _tensors(model: Any) -> Iterator[Any]:
    """Every tensor of an ``onnx.ModelProto`` that a reader may load: constants, bodies, functions, training steps."""
    graphs = [model.graph]
    for step in model.training_info:
        graphs += [step.initialization, step.algorithm]
    nodes = [node for function in model.functions for node in function.node]
    attributes = [default for function in model.functions for default in function.attribute_proto]
    while graphs or nodes or attributes:
        sparse = [tensor for graph in graphs for tensor in graph.sparse_initializer]
        for graph in graphs:
            yield from graph.initializer
            nodes += graph.node
        attributes += [attribute for node in nodes for attribute in node.attribute]
        graphs, nodes = [], []
        for attribute in attributes:
            yield from (attribute.t, *attribute.tensors)
            sparse += [attribute.sparse_tensor, *attribute.sparse_tensors]
            graphs += [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
        for tensor in sparse:
            yield from (tensor.values, tensor.indices)
        attributes = []


def check_torch_archive(path: Path, form: str) -> None:
    """InputError unless the file is a whole archive of that form: no bomb, and no pickled checkpoint."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            names = [member.filename for member in members]
            if len(members) > MAX_MEMBERS:
                raise InputError(
                    f"{path} has {len(members)} members, allowed: {MAX_MEMBERS}", field="model.path"
                )
            unpacked = sum(member.file_size for member in members)
            if unpacked > MAX_BYTES or unpacked > MAX_RATIO * max(path.stat().st_size, 1 << 16):
                raise InputError(
                    f"{path} has {path.stat().st_size:,} bytes and would unpack to {unpacked:,}; "
                    f"that is no model, and is not unpacked. Weights are stored uncompressed: save the model again",
                    field="model.path",
                )
            if any(name.startswith("/") or ".." in name.split("/") for name in names):
                raise InputError(f"{path} has members that lead out of it", field="model.path")
            damaged = archive.testzip()
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise InputError(
            f"{path} is damaged or no {form} archive: {error}; save or copy it again", field="model.path"
        ) from error
    if damaged:
        raise InputError(
            f"{path} is damaged: {damaged} does not match its checksum; copy it again", field="model.path"
        )
    if form == "torchscript" and not any("/code/" in name for name in names):
        raise InputError(
            f"{path} is a pickled PyTorch checkpoint, not TorchScript: nothing is unpickled here; "
            f"save it with torch.jit.trace(...).save(...) or export it to ONNX",
            field="model.path",
        )
    if form == "torchscript":
        torchscript.check(path)
    if form == "pt2":
        _check_exported_program(path)


def check_model(path: Path, form: str) -> None:
    """InputError unless a model of that format is whole and does nothing but compute when it is read and run."""
    check_size(path)
    if form in ("torchscript", "pt2"):
        check_torch_archive(path, form)
    elif form == "savedmodel":
        saved_model.check(path)
    elif form == "onnx":
        external_data(path)


def _check_exported_program(path: Path) -> None:
    """InputError where PyTorch's own loader would unpickle something: it does so without any limit."""
    import torch

    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if not any("/models/" in name and name.endswith(".json") for name in names):
            raise InputError(
                f"{path} is no exported program; write it with torch.export.save", field="model.path"
            )
        pickled = [n for n in names if n.rsplit("/", 1)[-1].startswith(("custom_obj_", "opaque_obj_"))]
        for name in names:
            if name.endswith("_config.json"):
                try:
                    entries = json.loads(archive.read(name))["config"]
                    pickled += [key for key, entry in entries.items() if entry["use_pickle"]]
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise InputError(f"{path} is damaged: {name}: {error!r}", field="model.path") from error
            elif name.endswith(".pt"):
                try:
                    torch.load(io.BytesIO(archive.read(name)), weights_only=True, map_location="cpu")
                except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not plain tensors
                    pickled.append(name)
    if pickled:
        raise InputError(
            f"{path} has pickled objects in it ({', '.join(sorted(pickled)[:3])}): nothing is "
            f"unpickled here; export the model without custom objects, or to ONNX",
            field="model.path",
        )
    exported_program.check(path)
