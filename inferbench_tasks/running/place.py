"""What a stage's child process may see of our environment, and what it may use of its machine."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from inferbench_tasks import extras, sandbox, settings
from inferbench_tasks.artifacts import safe_files
from inferbench_tasks.datasets.base import CACHE, DATASETS
from inferbench_tasks.datasets.classes import NAMES_FILE
from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.route import route
from inferbench_tasks.modelrepo.build import cache_root
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.sandbox.reach import SHARED_MEMORY
from inferbench_tasks.stages.base import Context, JobInput, StageInput

#: What such work imports, of parts that may be missing.
FRAMEWORKS = ("torch", "tensorflow", "openvino")
#: Where installers of packages find their index and its login, below the home.
INSTALLERS = (".config/pip", ".pip", ".config/uv", ".netrc", ".local/share/uv")


#: Where the installers look, below the home.
PLACES = {"XDG_CACHE_HOME": ".cache", "XDG_CONFIG_HOME": ".config", "NETRC": ".netrc"}
NO_INSTALL = "INFERBENCH_NO_INSTALL"


def lacks_parts() -> bool:
    """Whether a framework is missing and would be installed on first use."""
    return extras.installable() and not all(find_spec(name) for name in FRAMEWORKS)


def install(inp: JobInput, ctx: Context) -> None:
    """Have the parts that a job's model and conversion need installed here, before a child that must not write there.

    Raises MissingExtraError.
    """
    if not extras.installable() or not isinstance(inp, StageInput):
        return
    source, wish = resolve(inp.job.model, ctx.base_dir), inp.job.convert
    formats = [getattr(source, "format", None), wish.format]
    if formats[0] is not None:
        # An order to look at a model converts nothing; the stage that does says what is not possible.
        with suppress(InputError):
            formats += [
                hop.target for hop in route(formats[0], wish.format, wish.precision, source.framework)
            ]
    parts = [FORMATS.load(kind).extra for kind in formats if kind]
    for part in sorted({source.framework, *filter(None, [source.extra, *parts])} & extras.names()):
        extras.require(part)


def fetch_data(inp: JobInput, ctx: Context) -> None:
    """Have the data set that a job names fetched here, for a child without a network. MissingExtraError."""
    evaluate = getattr(inp.job, "evaluate", None) if isinstance(inp, StageInput) else None
    if evaluate is not None and evaluate.dataset is not None:
        DATASETS.load(evaluate.dataset, "evaluate.dataset")().fetch(ctx.data_dir)


@dataclass(frozen=True)
class Place:
    """A child that stays takes orders of several runs; one of its own writes into its run's folder alone."""

    environment: dict[str, str]
    reach: sandbox.Reach
    #: What it fills of the disk, and nobody else.
    fills: tuple[Path, ...] = ()
    #: Whether it writes where this process's user does: an environment, caches of package installers.
    shares: bool = True

    #: The files that the submission names, and data sets that were fetched.
    named: tuple[Path, ...] = ()

    @classmethod
    def of(cls, order: JobInput, ctx: Context, *, kept: bool) -> Place:
        """Of an order for that context. Models that are ours come by the package installer: these children connect to
        where they want. A user's model, and a registered one (``delivery``), has no network.
        """
        inp = order.model_dump(mode="json")
        run_dir = ctx.data_dir / "runs" if kept else ctx.run_dir(order.run_id)
        cache = ctx.cache_dir("models").parent
        if isinstance(order, StageInput):
            cache = cache_root(ctx.data_dir, resolve(order.job.model, ctx.base_dir))
            cache.mkdir(parents=True, exist_ok=True)
        writes = [run_dir, Path(SHARED_MEMORY)]
        also = []
        variables = {**os.environ, settings.DATA_DIR: str(ctx.data_dir)}
        # Who brings a model may bring code: it is not to write where others' is (see ``install``), and never sees
        # what the package index is asked with.
        fetches = not opens_strangers(order)
        if fetches or isinstance(order, StageInput):
            writes.append(cache)
        if fetches and lacks_parts():  # a missing part is installed where it is first imported
            writes.append(Path(sys.prefix))
        if not fetches:
            variables[NO_INSTALL] = "1"
        reads = [*_files(inp, ctx.base_dir), ctx.data_dir / "cache" / CACHE]
        named = tuple(reads)
        # Libraries look into a home and expect to read what is there: it is the child's scratch folder. The user's
        # packages and the installers' files are where they were.
        variables["PYTHONUSERBASE"] = site.getuserbase()
        if fetches:
            for name, place in PLACES.items():
                variables.setdefault(name, str(Path.home() / place))
            also.append("NETRC")
            caches = [Path(variables["XDG_CACHE_HOME"]), *_named("UV_CACHE_DIR", "PIP_CACHE_DIR")]
            for folder in caches:  # nobody may make them from within, and a home that is new has none
                _make(folder)
            writes += caches
            reads += _named("PIP_CONFIG_FILE", "PIP_CERT", "UV_CONFIG_FILE", "SSL_CERT_FILE", "SSL_CERT_DIR")
            reads += [Path(part) for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS") for part in _links(name)]
            reads += [Path.home() / name for name in INSTALLERS]
            marker = Path(sys.prefix) / extras.MARKER
            if marker.is_file():  # the installer is a script of the checkout
                root = Path(marker.read_text().strip())
                files = (
                    "scripts",
                    "constraints.txt",
                    "constraints.hashes.txt",
                    "constraints.torch.txt",
                    "pyproject.toml",
                    "README.md",
                    "inferbench.egg-info",
                )
                reads += [root / name for name in files]
        reach = sandbox.Reach(
            reads=tuple(map(str, reads)),
            writes=tuple(map(str, writes)),
            connects=None if fetches else (),
            datagrams=fetches,
            links=fetches,  # the installers of packages make some
        )
        own_cache = isinstance(order, StageInput) and not fetches
        fills = (ctx.run_dir(order.run_id), *([cache] if own_cache else []))
        environment = sandbox.environment(variables, also, installs=fetches, credentials=fetches)
        return cls(environment, reach, fills, shares=fetches, named=named)

    def user(self) -> int | None:
        """A user of its own, where it may have one."""
        return None if self.shares or sandbox.setting() == "off" else sandbox.draw()

    def reaching(self, temporary: str) -> sandbox.Reach:
        """With a folder for temporary files."""
        return replace(self.reach, writes=(*self.reach.writes, temporary))


def opens_strangers(order: JobInput) -> bool:
    """Whether what is not ours is opened: files of the submission, or a registered model's."""
    inp = order.model_dump(mode="json")
    return any(_has_kind(inp, kind) for kind in ("registry", "file", "folder"))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Packages are fetched into {folder}, which can't be made: {error.strerror}. Set XDG_CACHE_HOME to a "
            "folder that can be written"
        ) from error


def _named(*names: str) -> list[Path]:
    """The paths that these variables hold."""
    return [Path(os.environ[name]) for name in names if os.environ.get(name)]


def _links(name: str) -> list[str]:
    """Folders of packages, of a variable with paths and addresses."""
    return [part for part in os.environ.get(name, "").replace(",", " ").split() if part.startswith("/")]


def _files(inp: dict[str, Any], base_dir: Path) -> Iterator[Path]:
    """What lies in a submission's folder of what it names; not the folder itself, which may hold anything."""
    base = base_dir.resolve()
    for path in map(Path, _paths(inp)):
        target = (base / path).resolve()
        if target != base and target.is_relative_to(base):
            yield target
            names = (target.parent / NAMES_FILE).resolve()  # of a data set's classes
            if names.is_file() and names.is_relative_to(base):
                yield names
            if target.suffix == ".onnx" and target.is_file():
                yield from safe_files.external_data(target)
            weights = target.with_suffix(".bin").resolve()
            if target.suffix == ".xml" and weights.is_relative_to(base):  # OpenVINO's
                yield weights


def _paths(value: Any, key: str = "") -> Iterator[str]:
    """The files that a submission names, and what belongs to a model's: relative to its folder."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _paths(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from _paths(part, key)
    elif isinstance(value, str) and key in ("path", "module", "tokenizer"):
        yield value
        if key == "path":
            yield f"{value}.signature.json"


def _has_kind(value: Any, kind: str) -> bool:
    """Whether a part of a stage's input is of that kind."""
    if isinstance(value, dict):
        return value.get("kind") == kind or any(_has_kind(part, kind) for part in value.values())
    return isinstance(value, list) and any(_has_kind(part, kind) for part in value)
