"""All manifests that can be named here: built-in ones, files under ``configs/manifests``, and those of PerfDB.

catalogue = Catalogue.here(db)
resolved = catalogue.resolve("model", "digits", "^1")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inferbench_tasks.backends.base import Backend
from inferbench_tasks.catalogue import config_folder
from inferbench_tasks.contracts.versions import Constraint, newest_first
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.manifests.images import only_in_images, version_in
from inferbench_tasks.manifests.kinds.base import KINDS, Manifest, identity
from inferbench_tasks.manifests.kinds.framework import FrameworkManifest
from inferbench_tasks.manifests.reading import read_manifest
from inferbench_tasks.manifests.store import ManifestStore
from inferbench_tasks.manifests.used import Use, UsedManifests
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.problem import did_you_mean

FOLDER = "manifests"
MAX_FILES = 2000
#: InferBench's own environment, among the places where frameworks run.
HERE = "here"
BUILT_IN, PERFDB = "built-in", "PerfDB"


@dataclass(frozen=True)
class Entry:
    """A manifest and where it is: ``built-in``, a file, ``PerfDB``.

    ``conflict``: where its version has, or had, another content; "" where it has none.
    """

    manifest: Manifest
    origin: str
    conflict: str = ""

    def row(self) -> dict[str, Any]:
        """For a list."""
        origin = f"{self.origin}, in conflict with {self.conflict}" if self.conflict else self.origin
        return {**self.manifest.row(), "origin": origin}


@dataclass(frozen=True)
class Resolved:
    """To what a name with a constraint was resolved."""

    entry: Entry
    asked: str

    @property
    def manifest(self) -> Manifest:
        """The manifest."""
        return self.entry.manifest

    def row(self) -> dict[str, Any]:
        """For a lock."""
        manifest = self.manifest
        return {
            "kind": manifest.kind,
            "name": manifest.name,
            "asked": self.asked,
            "version": manifest.version,
            "digest": manifest.digest,
        }


class Catalogue:
    """Manifests by kind, name and version."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """InputError where one version has different content in a file and elsewhere.

        What is built in and what is in PerfDB nobody can take back when a release brings a version that somebody had
        stored before: both are kept, in conflict, and only who asks for that version is refused.
        """
        self._entries: dict[str, list[Entry]] = {}
        #: What is wrong with what is left out, where that is no error; see ``shown``.
        self.wrong: tuple[str, ...] = ()
        for entry in entries:
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        there = self._entries.setdefault(entry.manifest.id, [])
        other = next((each for each in there if each.manifest.digest != entry.manifest.digest), None)
        if other is None:
            there[:] = there or [entry]
        elif {each.origin for each in (*there, entry)} <= {BUILT_IN, PERFDB}:
            there[:] = [replace(each, conflict=entry.origin) for each in there]
            there.append(replace(entry, conflict=other.origin))
        else:
            raise InputError(
                f"{entry.manifest.id} has one content in {other.origin} ({other.manifest.digest[:12]}) and another "
                f"in {entry.origin} ({entry.manifest.digest[:12]}); a version never changes: give one of them a "
                "new one"
            )

    @classmethod
    def here(cls, db: PerfDB | None, kind: str = "") -> Catalogue:
        """All that this installation knows, or what it knows of one kind; without a PerfDB only what is built in or
        lies in files. A file that says something else than when a run used that version is in conflict with that run.
        """
        return cls(_all(db, kind, files()))

    @classmethod
    def shown(cls, db: PerfDB | None, kind: str = "") -> Catalogue:
        """The same for pages, which resolve nothing that runs: a file that is wrong is left out, with its error in
        ``wrong``, and hides no other.
        """
        wrong: list[str] = []
        catalogue = cls(())
        for entry in _all(db, kind, files(wrong=wrong)):
            try:
                catalogue._add(entry)
            except InputError as error:
                wrong.append(str(error))
        catalogue.wrong = tuple(wrong)
        return catalogue

    @classmethod
    def of_runtimes(cls) -> Catalogue:
        """The frameworks that are built in or lie in files: what others put into PerfDB installs nothing here."""
        return cls(
            entry for entry in (*built_in("framework"), *files()) if entry.manifest.kind == "framework"
        )

    def entries(self, kind: str = "", name: str = "") -> list[Entry]:
        """Those of a kind and a name, by kind and name, the newest version first."""
        chosen = [
            entry
            for same_version in self._entries.values()
            for entry in same_version
            if kind in ("", entry.manifest.kind) and name in ("", entry.manifest.name)
        ]
        order = {
            version: place for place, version in enumerate(newest_first({e.manifest.version for e in chosen}))
        }
        return sorted(chosen, key=lambda e: (e.manifest.kind, e.manifest.name, order[e.manifest.version]))

    def resolve(self, kind: str, name: str, constraint: str = "*") -> Resolved:
        """The newest version that fits and exists. InputError, which says which names or versions there are, or that
        the version is in conflict.
        """
        wanted = _parsed(constraint)
        versions = {entry.manifest.version: entry for entry in self.entries(kind, name)}
        if not versions:
            names = sorted({entry.manifest.name for entry in self.entries(kind)})
            hint = did_you_mean(name, names) or f"; known: {', '.join(names)}"
            raise InputError(f"there is no manifest of the {kind} {name[:100]!r}{hint}", field="name")
        newest = wanted.newest(versions)
        if newest is None:
            there = ", ".join(newest_first(versions))
            raise InputError(
                f"no version of the {kind} {name} fits {constraint!r}; there are: {there}", field="version"
            )
        return Resolved(_without_conflict(versions[newest]), f"{name}@{constraint}")

    def dataset_for(self, name: str, constraint: str) -> Manifest:
        """The manifest of a data set that can be named (``evaluate.dataset``), in the version whose samples are here.

        InputError where that does not fit: other versions are of the same data as a model brings it, or of samples that
        another release, or somebody else, has. UnknownKindError.
        """
        from inferbench_tasks.manifests.built_in.datasets import named_dataset

        own = named_dataset(name)
        if own is None:
            raise InputError(
                f"the data set {name} has no manifest, and so no versions; name it without one: {name}",
                field="version",
            )
        if _parsed(constraint).newest([own.version]) is None:
            known = {entry.manifest.version for entry in self.entries("dataset", name)} - {own.version}
            others = (
                f"; of {', '.join(newest_first(known))} there is a manifest, and no samples" if known else ""
            )
            raise InputError(
                f"no version of the data set {name} that can be evaluated on fits {constraint!r}; there are: "
                f"{own.version}{others}",
                field="version",
            )
        return self.resolve("dataset", name, own.version).manifest

    def framework_for(self, name: str, constraint: str, backend: type[Backend] | None) -> Manifest:
        """The newest version of a framework that fits and runs where the backend does: InputError without one.

        Without a backend, or of a framework that is not the backend's: where it runs in InferBench's environment.
        """
        place = place_of(name, backend)
        there = [e for e in self.entries("framework", name) if place in _places(e.manifest)]
        if not there:
            others = ", ".join(
                f"{e.manifest.version} ({e.manifest.about()})" for e in self.entries("framework", name)
            )
            where = f"the environment {place}" if place != HERE else "this environment"
            words = f"{name} does not run in {where}" + (f"; it runs as {others}" if others else "")
            raise InputError(words + self._only_in_images(name, constraint))
        return self._framework_among(there, name, constraint)

    def framework_in(self, name: str, constraint: str, image: str | None) -> Manifest | None:
        """The version of a framework that an image brings, see ``images.version_in``; by manifests that are built in or
        lie in files. InputError, too, where that version is in conflict.
        """
        found = version_in(self._trusted(name), name, _parsed(constraint), image)
        if found is not None:
            _without_conflict(self._entries[found.id][0])
        return found

    def runtime_for(self, name: str, constraint: str) -> FrameworkManifest:
        """The newest version of a framework that fits and can run beside others: in InferBench's own environment, or
        in one of pinned packages. InputError without one, with those that there are.
        """
        entries = [e for e in self.entries("framework", name) if e.origin != PERFDB and _can_run(e.manifest)]
        if not entries:
            names = {e.manifest.name for e in self.entries("framework") if _can_run(e.manifest)}
            hint = did_you_mean(name, sorted(names)) or f"; known: {', '.join(sorted(names))}"
            hint = self._only_in_images(name, constraint) or hint
            raise InputError(f"there is no runtime {name[:100]!r}{hint}", field="name")
        manifest = self._framework_among(entries, name, constraint)
        assert isinstance(manifest, FrameworkManifest)
        return manifest

    def _framework_among(self, entries: list[Entry], name: str, constraint: str) -> Manifest:
        """The newest of these that fits; InputError, which also says what helps where an image alone has one."""
        try:
            return Catalogue(entries).resolve("framework", name, constraint).manifest
        except InputError as error:
            words = error.message + self._only_in_images(name, constraint)
            raise InputError(words, field=error.field) from error

    def _trusted(self, name: str) -> list[FrameworkManifest]:
        """Of a framework what may decide what runs here: many write to a PerfDB."""
        manifests = (entry.manifest for entry in self.entries("framework", name) if entry.origin != PERFDB)
        return [manifest for manifest in manifests if isinstance(manifest, FrameworkManifest)]

    def _only_in_images(self, name: str, constraint: str) -> str:
        return only_in_images(self._trusted(name), _parsed(constraint))


def _without_conflict(entry: Entry) -> Entry:
    """InputError where it has a conflict."""
    if entry.conflict:
        raise InputError(
            f"{entry.manifest.id} is in conflict: it has one content in {entry.origin} and another in "
            f"{entry.conflict}, and a version never changes. Give yours another version (in its file, or by "
            "`inferbench manifests add`), and name that one",
            field="version",
        )
    return entry


def place_of(framework: str, backend: type[Backend] | None) -> str:
    """Where a framework has to be for a backend: in its environment where it is the backend's own, else here."""
    own = backend().environment() if backend is not None and backend.package == framework else None
    return HERE if own is None else own.name


def _can_run(manifest: Manifest) -> bool:
    return isinstance(manifest, FrameworkManifest) and (manifest.runs_here or manifest.pinned is not None)


def _places(manifest: Manifest) -> set[str]:
    return set(manifest.places) if isinstance(manifest, FrameworkManifest) else set()


def built_in(kind: str = "") -> Iterator[Entry]:
    """Made of the registries: all, or those of one kind."""
    from inferbench_tasks.manifests.built_in.datasets import datasets
    from inferbench_tasks.manifests.built_in.frameworks import frameworks
    from inferbench_tasks.manifests.built_in.models import models
    from inferbench_tasks.manifests.built_in.stacks import stacks

    makers: dict[str, Callable[[], Iterator[Manifest]]] = {
        "model": models,
        "framework": frameworks,
        "dataset": datasets,
        "stack": stacks,
    }
    for each, make in makers.items():
        if kind in ("", each):
            for manifest in make():
                yield Entry(manifest, BUILT_IN)


def _all(db: PerfDB | None, kind: str, lying: Iterable[Entry]) -> list[Entry]:
    """What is built in, ``lying`` (files), and what PerfDB has; of one kind or all."""
    stored = [Entry(manifest, PERFDB) for manifest in ManifestStore(db).all()] if db else []
    used = UsedManifests(db).all() if db else {}
    there = [*built_in(kind), *(_beside(entry, used.get(entry.manifest.id)) for entry in lying), *stored]
    return [entry for entry in there if kind in ("", entry.manifest.kind)]


def _beside(entry: Entry, use: Use | None) -> Entry:
    if use is None or use.digest == entry.manifest.digest:
        return entry
    return replace(entry, conflict=f"the run {use.run_id}, which used it as {use.digest[:12]}")


def files(folder: Path | None = None, wrong: list[str] | None = None) -> Iterator[Entry]:
    """Those under ``configs/manifests``. SubmissionError where one is wrong, InputError where there are too many.

    ``wrong`` takes these errors, where it is given: the file is left out then, and of too many the last ones.
    """
    root = folder or config_folder() / FOLDER
    paths = sorted(root.rglob("*.yaml")) if root.is_dir() else []
    if len(paths) > MAX_FILES:
        _wrong(wrong, InputError(f"{root} has {len(paths)} manifests; at most {MAX_FILES} are read"))
    for path in paths[:MAX_FILES]:
        try:
            manifest = read_manifest(path)
        except SubmissionError as error:
            _wrong(wrong, error)
            continue
        yield Entry(manifest, str(Path("configs", FOLDER, path.relative_to(root))))


def _wrong(wrong: list[str] | None, error: InputError) -> None:
    """Noted, or raised where nobody notes it."""
    if wrong is None:
        raise error
    wrong.append(str(error))


def parse_id(text: str) -> tuple[str, str, str]:
    """``model:digits@^1`` -> kind, name, constraint; kind "" where none is given. InputError."""
    from inferbench_tasks.contracts.versions import Requirement

    kind, colon, rest = text.partition(":")
    if colon and kind not in KINDS:
        raise InputError(f"{text[:80]!r}: {kind[:40]!r} is no kind of manifest; known: {', '.join(KINDS)}")
    try:
        requirement = Requirement.parse(rest if colon else text)
    except ValueError as error:
        raise InputError(str(error)) from error
    return kind if colon else "", requirement.name, requirement.constraint.text


def _parsed(constraint: str) -> Constraint:
    """InputError for a text that is no constraint."""
    try:
        return Constraint.parse(constraint)
    except ValueError as error:
        raise InputError(str(error), field="version") from error


__all__ = ["Catalogue", "Entry", "Resolved", "built_in", "files", "identity", "parse_id", "place_of"]
