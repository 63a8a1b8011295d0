"""Data sets that a model is evaluated on beside its own: labelled samples in a form that no model decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from inferbench_tasks.artifacts.cache import tree_digest
from inferbench_tasks.artifacts.safe_files import inside
from inferbench_tasks.datasets.described import Described
from inferbench_tasks.errors import InputError
from inferbench_tasks.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: ``grey``: arrays ``n x height x width`` float32 in [0, 1]. ``pictures``: lists of encoded files (PNG, JPEG, ...).
#: ``scenes``: the same, each seen whole and with boxes. ``texts``: lists of strings. ``questions``: pairs of a
#: question and the text that has its answer. ``tensors``: arrays by the model's own input names. ``bytes``: lists of
#: whole files.
Form = Literal["grey", "pictures", "scenes", "texts", "questions", "tensors", "bytes"]


def generated_name(name: str) -> str:
    """What generated samples of that name are called in results and tables: they say that they are."""
    return f"{name} (generated)"


@dataclass(frozen=True)
class Collection:
    """An opened data set of at least one sample. ``rows`` gives the samples of these indices, in its form.

    ``labels``: a class id for each sample, or None. ``classes``: the name of each class by its id, () where classes
    have numbers only. ``by_name``: ids follow the order of the names, which is the model's order only by agreement.
    ``left_out``: broken samples by name, with what is wrong with each; they are in no figure. ``training``: models are
    usually trained on these very samples. ``whole``: width and height of all pictures, where nothing may be cut off.
    ``targets``: what is right where that is no class, by kind (``contracts.targets``), in the order of the samples.
    ``sizes``: of scenes width and height of each, in whose pixels the targets' boxes are. ``unanswerable``: of
    questions, whether some have no answer. ``counts``: what else there is so many of, for people. ``written``: the name
    of its class is just what stands written in each sample. ``users``: it is the user's own.
    """

    name: str
    form: Form
    count: int
    rows: Callable[[NDArray[np.int64]], Any]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...] = ()
    by_name: bool = False
    generated: bool = False
    left_out: tuple[str, ...] = ()
    training: bool = False
    whole: tuple[int, int] | None = None
    targets: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    sizes: NDArray[np.int64] | None = None
    unanswerable: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    written: bool = False
    users: bool = False

    @property
    def shown_name(self) -> str:
        """What it is called in results and tables: of what was generated it says so."""
        return generated_name(self.name) if self.generated else self.name


class DataSource(ABC):
    """One data set, or one way in which users have theirs; one file each.

    ``title``, ``origin``, ``licence``: for people. ``generated``: whether its samples are made here. ``takes_path``:
    whether it reads a file or folder of the user's. ``form_by_file``: whether that file decides the form.
    ``described``: what else its manifest says; None of one that has none, as of the user's data. No class inherits it
    (``datasets.described.description_of``).
    """

    title: ClassVar[str]
    origin: ClassVar[str]
    licence: ClassVar[str]
    form: ClassVar[Form]
    generated: ClassVar[bool] = False
    takes_path: ClassVar[bool] = False
    form_by_file: ClassVar[bool] = False
    described: ClassVar[Described | None] = None

    @abstractmethod
    def open(self, path: Path | None) -> Collection:
        """Its samples. InputError, with file and line, where they can't be read; MissingExtraError where the package is
        missing that they come with."""

    def fetch(self, data_dir: Path) -> Path | None:
        """Have what it comes with, once, below ``data_dir/cache/CACHE``: the folder; None where nothing is fetched.

        Before ``open``, and where packages may be fetched: who evaluates a user's model has no network then.
        MissingExtraError where it can't be had, or its hash is another.
        """
        return None

    def digests(self, path: Path) -> list[str]:
        """SHA-256 of all files of the user's that decide the samples: other content is another data set."""
        return [tree_digest(path)]

    def version(self) -> str:
        """What its samples depend on beside the user's files: a package's version, a seed."""
        return "1"

    def hashed(self, index: int, sample: Any) -> Any:
        """What of a sample the hash in its manifest covers: less than all where another version of a library writes
        the same otherwise. Of pictures it is their pixels without being asked.
        """
        return sample


#: Of the data directory's cache: the folder of what data sets come with.
CACHE = "datasets"

DATASETS: Registry[type[DataSource]] = Registry(
    "data set",
    "inferbench.datasets",
    {
        "digits": "inferbench_tasks.datasets.digits:Digits",
        "digits-png": "inferbench_tasks.datasets.digits_png:DigitsPng",
        "fashion-mnist": "inferbench_tasks.datasets.fashion:Fashion",
        "mnist-5k": "inferbench_tasks.datasets.mnist:Mnist",
        "shapes": "inferbench_tasks.datasets.shapes:Shapes",
        "words": "inferbench_tasks.datasets.words:Words",
        "file-types": "inferbench_tasks.datasets.file_types:FileTypes",
        "folder": "inferbench_tasks.datasets.folder:Folder",
        "imagenet-val": "inferbench_tasks.datasets.imagenet:ImageNetVal",
        "table": "inferbench_tasks.datasets.table:Table",
        "arrays": "inferbench_tasks.datasets.arrays:ArrayFile",
        "coco": "inferbench_tasks.datasets.coco:Coco",
        "squad": "inferbench_tasks.datasets.squad:Squad",
    },
)


def identity(name: str, path: str | None, base_dir: Path) -> dict[str, Any]:
    """What decides the samples of a data set: its name, version, and the digests of the user's files."""
    source = DATASETS.load(name, "evaluate.dataset")()
    named: dict[str, Any] = {"dataset": name, "version": source.version()}
    if path is not None:
        named |= {"path": path, "files": source.digests(inside(base_dir, path, "evaluate.path"))}
    return named


def open_dataset(name: str, path: str | None, base_dir: Path) -> Collection:
    """The data set of that name, below ``base_dir`` where it is the user's. UnknownKindError, InputError."""
    source = DATASETS.load(name, "evaluate.dataset")()
    if source.takes_path != (path is not None):
        needed = "needs" if source.takes_path else "is no file of yours and takes no"
        raise InputError(f"the data set {name} {needed} evaluate.path", field="evaluate.path")
    collection = source.open(None if path is None else inside(base_dir, path, "evaluate.path"))
    return replace(collection, users=source.takes_path)
