"""Requests from files of the user's: arrays, a Parquet table, a folder of images, a text file."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.artifacts import parquet_files
from inferbench_tasks.artifacts.cache import tree_digest
from inferbench_tasks.artifacts.safe_files import inside
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.dataset import MAX_BYTES, Dataset
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import ColourOrder
from inferbench_tasks.contracts.pictures import image_settings
from inferbench_tasks.errors import InputError

ALLOWED = (
    "allowed: .npz (an array per input), .npy, .parquet (a column per input), .txt (a text per line), "
    "or a folder of images"
)
LABELS = "labels"
IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"}
MAX_IMAGES = 100_000

#: Texts to a model's inputs; None for a model that takes no text.
Encode = Callable[[list[str]], Arrays]


class Files(Dataset):
    """A data set of samples that were read from the user's file."""

    name = "files"

    def __init__(self, arrays: Arrays, labels: NDArray[np.int64] | None = None) -> None:
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) != 1 or min(lengths.values()) == 0:
            raise InputError(
                f"every input needs the same number of samples, >= 1: {lengths}", field="requests.path"
            )
        if labels is not None and len(labels) != next(iter(lengths.values())):
            raise InputError(
                f"{len(labels)} labels for {next(iter(lengths.values()))} samples", field="requests.path"
            )
        self._arrays, self._labels = arrays, labels

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values())))

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        return {name: array[indices] for name, array in self._arrays.items()}

    def labels(self) -> NDArray[np.int64] | None:
        return self._labels


def files_digest(base_dir: Path, path: str) -> str:
    """SHA-256 over the file or folder. InputError where it is missing or leads out of the folder."""
    return tree_digest(inside(base_dir, path, "requests.path"))


def open_files(
    base_dir: Path,
    path: str,
    model: ModelArtifact,
    encode: Encode | None = None,
    pixels: tuple[float, float] = (0.0, 255.0),
    colour_order: ColourOrder = "rgb",
) -> Dataset:
    """The samples of a file or folder, checked against the model's signature.

    ``pixels``: mean and std, in units of 0 to 255, that the model wants images normalised with; ``colour_order``: in
    which order it takes their colours.
    Raises InputError where they can't be read or don't fit.
    """
    source = inside(base_dir, path, "requests.path")
    ending = source.suffix.lower()
    labels: Array | None = None
    try:
        if source.is_dir():
            arrays = _images(source, model, pixels, colour_order)
        elif ending == ".npz":
            _refuse_bomb(source)
            # Opened here: on a damaged archive numpy would leave its own file open.
            with open(source, "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            labels = arrays.pop(LABELS, None)
        elif ending == ".npy":
            arrays = {_only_input(model, path).name: np.load(source, allow_pickle=False)}
        elif ending == ".parquet":
            arrays = _parquet(source, model)
            labels = arrays.pop(LABELS, None)
        elif ending == ".txt":
            arrays = _texts(source, model, encode)
        else:
            raise InputError(f"{path} has an unknown ending {ending!r}; {ALLOWED}", field="requests.path")
    except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path} can't be read: {error}; write it again; {ALLOWED}", field="requests.path"
        ) from error
    except MemoryError as error:
        raise InputError(f"{path} is larger than the memory here: {error}", field="requests.path") from error
    return Files(_fitted(arrays, model), None if labels is None else _classes(labels))


def _classes(labels: Array) -> NDArray[np.int64]:
    """One class number per sample, (n,); a column of them counts too. InputError for anything else."""
    flat = labels.reshape(-1) if labels.ndim > 1 and labels.size == len(labels) else labels
    numbers = flat.dtype.kind in "biuf" and flat.ndim == 1
    if not numbers or not np.all(np.isfinite(flat)) or not np.all(flat == np.floor(flat)) or np.any(flat < 0):
        raise InputError(
            f"{LABELS} must be one class number (0, 1, 2, ...) per sample, not {labels.dtype} of shape "
            f"{labels.shape}",
            field="requests.path",
        )
    return flat.astype(np.int64)


def _refuse_bomb(path: Path) -> None:
    """InputError for an archive that unpacks to more than a run's requests may have."""
    with ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > MAX_BYTES:
        raise InputError(
            f"{path.name} has {path.stat().st_size:,} bytes and would unpack to {unpacked:,}, "
            f"allowed are {MAX_BYTES:,}; give fewer samples",
            field="requests.path",
        )


def _fitted(arrays: Arrays, model: ModelArtifact) -> Arrays:
    """The arrays in the model's own types; InputError where names or shapes don't fit."""
    specs = {spec.name: spec for spec in model.inputs}
    problems = [f"input {name} is missing" for name in specs.keys() - arrays.keys()]
    problems += [f"the model has no input {name}" for name in arrays.keys() - specs.keys()]
    fitted: Arrays = {}
    for name in specs.keys() & arrays.keys():
        spec, array = specs[name], arrays[name]
        sizes = array.shape[1:]
        if len(sizes) != len(spec.shape) or any(
            w not in (-1, s) for w, s in zip(spec.shape, sizes, strict=True)
        ):
            problems.append(f"input {name} has shape {list(sizes)}, the model takes {list(spec.shape)}")
        elif spec.dtype != "str" and not np.can_cast(array.dtype, spec.dtype, "same_kind"):
            problems.append(f"input {name} is {array.dtype.name}, the model takes {spec.dtype}")
        else:
            fitted[name] = array if spec.dtype == "str" else array.astype(spec.dtype, copy=False)
    if problems:
        takes = ", ".join(f"{s.name} {s.dtype}{list(s.shape)}" for s in model.inputs)
        raise InputError(
            f"the files don't fit the model {model.name}: {'; '.join(sorted(problems))}. It takes: {takes}",
            field="requests.path",
        )
    return {spec.name: fitted[spec.name] for spec in model.inputs}


def _only_input(model: ModelArtifact, path: str) -> TensorSpec:
    if len(model.inputs) != 1:
        names = ", ".join(spec.name for spec in model.inputs)
        raise InputError(f"{path} holds one array, the model takes {names}; use .npz", field="requests.path")
    return model.inputs[0]


def _parquet(path: Path, model: ModelArtifact) -> Arrays:
    table = parquet_files.read(path, MAX_BYTES, "requests.path")
    shapes = {spec.name: spec.shape for spec in model.inputs}
    arrays: Arrays = {}
    for name in table.column_names:
        rows = table.column(name).to_pylist()
        array = np.array(rows)
        # A tensor is stored as a flat list; its shape is the model's.
        if name in shapes and shapes[name] and -1 not in shapes[name] and array.ndim == 2:
            array = array.reshape(len(rows), *shapes[name])
        arrays[name] = array
    return arrays


def _images(
    folder: Path, model: ModelArtifact, pixels: tuple[float, float], colour_order: ColourOrder
) -> Arrays:
    from inferbench_tasks.processors.image import Image

    spec = _only_input(model, folder.name)
    settings = image_settings(spec.shape, pixels, colour_order)
    if settings is None:
        raise InputError(
            f"{folder.name} is a folder of images, the model's input {spec.name} has shape "
            f"{list(spec.shape)}, which is no image",
            field="requests.path",
        )
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in IMAGES)[:MAX_IMAGES]
    if not files:
        raise InputError(
            f"{folder} has no image in it; allowed: {', '.join(sorted(IMAGES))}", field="requests.path"
        )
    processor = Image(**settings)
    rows = []
    for file in files:
        try:
            rows.append(processor([file.read_bytes()]))
        except InputError as error:
            raise InputError(f"{file.name}: {error}", field="requests.path") from error
    return {spec.name: np.concatenate(rows)}


def _texts(path: Path, model: ModelArtifact, encode: Encode | None) -> Arrays:
    texts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not texts:
        raise InputError(f"{path.name} has no text in it", field="requests.path")
    if encode is not None:
        return encode(texts)
    spec = _only_input(model, path.name)
    if spec.dtype != "str":
        raise InputError(
            f"{path.name} holds texts, the model takes {spec.name} {spec.dtype}; tokenise them and give .npz",
            field="requests.path",
        )
    return {spec.name: np.array(texts).reshape(len(texts), *([1] * len(spec.shape)))}
