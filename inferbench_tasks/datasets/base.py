"""Data sets that a model is evaluated on beside its own: labelled samples in a form that no model decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from inferbench_tasks.artifacts.cache import tree_digest
from inferbench_tasks.artifacts.safe_files import inside
from inferbench_tasks.datasets.described import Described, description_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import did_you_mean
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
    usually trained on these very samples; of the user's data what is called so (``for_training``). ``whole``: width and
    height of all pictures, where nothing may be cut off. ``targets``: what is right where that is no class, by kind
    (``contracts.targets``), in the order of the samples. ``sizes``: of scenes width and height of each, in whose pixels
    the targets' boxes are. ``unanswerable``: of questions, whether some have no answer. ``counts``: what else there is
    so many of, for people. ``written``: the name of its class is just what stands written in each sample. ``users``: it
    is the user's own. ``split``: the name of the part that it is, None where it has none; ``usual``: whether that is
    the one that is asked unless another is named. ``all_splits``: those whose samples are in it, where they are
    several.
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
    split: str | None = None
    usual: bool = True
    all_splits: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """What it is called in results and tables: of another split than the usual one its name, of what was generated
        that it is."""
        name = self.name if self.usual else f"{self.name}, {self.split}"
        return generated_name(name) if self.generated else name


class DataSource(ABC):
    """One data set, or one way in which users have theirs; one file each.

    ``title``, ``origin``, ``licence``: for people. ``generated``: whether its samples are made here. ``takes_path``:
    whether it reads a file or folder of the user's. ``form_by_file``: whether that file decides the form.
    ``described``: what else its manifest says; None of one that has none, as of the user's data. No class inherits it
    (``datasets.described.description_of``). ``usual_split``: the name of what ``open`` gives, where
    ``open_split`` gives others.
    """

    title: ClassVar[str]
    origin: ClassVar[str]
    licence: ClassVar[str]
    form: ClassVar[Form]
    generated: ClassVar[bool] = False
    takes_path: ClassVar[bool] = False
    form_by_file: ClassVar[bool] = False
    described: ClassVar[Described | None] = None
    usual_split: ClassVar[str | None] = None

    @abstractmethod
    def open(self, path: Path | None) -> Collection:
        """Its samples. InputError, with file and line, where they can't be read; MissingExtraError where the package is
        missing that they come with."""

    def splits(self, path: Path | None) -> tuple[str, ...]:
        """The parts that can be asked by name (``evaluate.split``); () where there are none. InputError as of ``open``.

        Those of its description: of several only where it opens each, for nobody knows which one ``open`` gives.
        """
        described = description_of(type(self))
        names = tuple(described.splits) if described is not None else ()
        return names if len(names) == 1 or type(self).open_split is not DataSource.open_split else ()

    def open_split(self, path: Path | None, split: str) -> Collection:
        """The samples of one of ``splits`` that is not the usual one; as ``open``."""
        raise InputError(f"{self.title}: has no way to open its split {split}", field="evaluate.split")

    def fetch(self, data_dir: Path) -> Path | None:
        """Have what it comes with, once, below ``data_dir/cache/CACHE``: the folder; None where nothing is fetched.

        Before ``open``, and where packages may be fetched: who evaluates a user's model has no network then.
        MissingExtraError where it can't be had, or its hash is another.
        """
        return None

    def digests(self, path: Path) -> list[str]:
        """SHA-256 of all files of the user's that decide the samples: other content is another data set."""
        return [tree_digest(path)]

    def count(self, path: Path, split: str | None) -> int | None:
        """How many samples the user's files have, broken ones too, by their names alone; None where that takes reading.

        ``split``: one of ``splits``, or all that is asked without.
        """
        return None

    def split_digests(self, path: Path, split: str) -> list[str]:
        """Of those that decide the samples of that split."""
        return self.digests(path)

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


def usual_split(source: DataSource) -> str | None:
    """The name of the split that is asked unless another is named; None where it has none."""
    described = description_of(type(source))
    if described is None or len(described.splits) > 1:
        return source.usual_split if described is not None else None
    return next(iter(described.splits), None)


def for_training(split: str) -> bool:
    """Whether a split of the user's is called what models are trained on is called."""
    return split.lower() in ("train", "training")


def unknown_split(name: str, source: DataSource, path: Path | None, split: str) -> str | None:
    """Why a data set has no split of that name, with those that are there; None if it has. InputError as of
    ``open``."""
    known = source.splits(path)
    if split in known:
        return None
    if not known:
        other = ", or name the file or folder of that part (evaluate.path)" if source.takes_path else ""
        return f"{name} has no splits; leave it out{other}"
    return f"{name} has no split {split!r}{did_you_mean(split, known) or ';'} there are: {', '.join(known)}"


def identity(name: str, path: str | None, base_dir: Path, split: str | None = None) -> dict[str, Any]:
    """What decides the samples of a data set: its name, version, the digests of the user's files, and another split
    than the usual one."""
    source = DATASETS.load(name, "evaluate.dataset")()
    named: dict[str, Any] = {"dataset": name, "version": source.version()}
    other = None if split == usual_split(source) else split
    if path is not None:
        place = inside(base_dir, path, "evaluate.path")
        files = source.digests(place) if other is None else source.split_digests(place, other)
        named |= {"path": path, "files": files}
    return named if other is None else {**named, "split": other}


def open_dataset(name: str, path: str | None, base_dir: Path, split: str | None = None) -> Collection:
    """The data set of that name, or its ``split``, below ``base_dir`` where it is the user's. UnknownKindError,
    InputError."""
    source = DATASETS.load(name, "evaluate.dataset")()
    if source.takes_path != (path is not None):
        needed = "needs" if source.takes_path else "is no file of yours and takes no"
        raise InputError(f"the data set {name} {needed} evaluate.path", field="evaluate.path")
    place = None if path is None else inside(base_dir, path, "evaluate.path")
    usual = usual_split(source)
    if split is None or split == usual:
        return replace(source.open(place), users=source.takes_path, split=usual)
    if problem := unknown_split(name, source, place, split):
        raise InputError(problem, field="evaluate.split")
    opened = source.open_split(place, split)
    training = opened.training or (source.takes_path and for_training(split))
    return replace(opened, users=source.takes_path, split=split, usual=False, training=training)
