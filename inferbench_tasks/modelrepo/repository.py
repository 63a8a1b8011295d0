"""The model repository: models with versions, in PerfDB; their files in GridFS.

    repository = ModelRepository(db)
    card = repository.register(artifact, name="ours", licence="MIT")
    repository.search("task=image-classification parameters<1000000")
    path = repository.fetch(card, folder)

A version never changes: other files make a new version. So a result's model name, version and digest
say for ever what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError
from pymongo.errors import DuplicateKeyError

from inferbench_tasks.artifacts.safe_files import external_data
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.modelrepo.card import WORDS, ModelCard, field
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain, to_stored
from inferbench_tasks.problem import field_problems

COLLECTION = "models"
MAX_FILES = 10_000
#: Others may register the same name at the same time; each try takes the next number.
VERSION_ATTEMPTS = 20


class ModelRepository:
    """The models of one PerfDB."""

    def __init__(self, db: PerfDB) -> None:
        self._db = db

    def register(
        self,
        artifact: ModelArtifact,
        name: str,
        *,
        user: str = "anonymous",
        origin: dict[str, Any] | None = None,
        **words: Any,
    ) -> tuple[ModelCard, bool]:
        """Keep a model as the next version of ``name``; ``words``: see ``card.WORDS``.

        Returns the card and whether it is new: what the latest version holds already is not kept twice.
        Raises InputError (name, words, files), StorageError, PerfDBError.
        """
        _require_words(words)
        facts = artifact.model_dump(include=set(ModelCard.model_fields) - {"name", "version"})
        labels = {k: v for k, v in words.items() if v is not None}
        card = _validated({**facts, **labels, "name": name, "version": 1, "user": user, "origin": origin})
        latest = self._latest(name)
        if latest is not None and latest.digest == artifact.digest and latest.inputs == card.inputs:
            return latest, False
        path = Path(artifact.path)
        root, members = path.parent.resolve(), [member.resolve() for member in _members(path)]
        stored = [
            self._db.files.put(
                member, member.relative_to(root).as_posix(), model=name, digest=artifact.digest
            )
            for member in members
        ]
        now = self._db.now()
        card = card.model_copy(
            update={"files": stored, "file": path.name, "created_at": now, "updated_at": now}
        )
        try:
            return self._insert(card), True
        except BaseException:
            for file in stored:
                self._db.files.delete(file)
            raise

    def update(self, name: str, version: int | None = None, **words: Any) -> ModelCard:
        """Change the words about a version (the latest by default): see ``card.WORDS``."""
        _require_words(words)
        card = self.show(name, version)
        changes = {**words, "updated_at": self._db.now()}
        _validated({**card.model_dump(), **changes})
        self._set(card, changes)
        return self.show(name, card.version)

    def show(self, name: str, version: int | None = None) -> ModelCard:
        """A version, the latest by default; InputError names what there is."""
        cards = self._find({"name": name, "deleted_at": None}, limit=0)
        for card in cards:
            if version is None or card.version == version:
                return card
        if cards:
            versions = ", ".join(str(card.version) for card in cards)
            raise InputError(f"The model {name!r} has no version {version}; it has {versions}")
        raise InputError(
            f"The model repository has no model {name[:100]!r}; `inferbench models search` lists what it has."
        )

    def search(
        self, query: str | Iterable[str] = "", limit: int = 0, *, all_versions: bool = False
    ) -> list[ModelCard]:
        """Models that match a query (fields: ``card.FIELDS``), by name; the latest matching version of each."""
        condition = parse(query, lookup=field).filter
        cards = self._find({"$and": [{"deleted_at": None}, condition]}, limit if all_versions else 0)
        if not all_versions:
            latest: dict[str, ModelCard] = {}
            for card in cards:
                latest.setdefault(card.name, card)
            cards = list(latest.values())
        return cards[:limit] if limit else cards

    def delete(self, name: str, version: int | None = None) -> list[ModelCard]:
        """Remove the files of a version, or of all versions; their numbers are not given again."""
        cards = [self.show(name, version)] if version else self._find({"name": name, "deleted_at": None}, 0)
        if not cards:
            self.show(name)  # says what there is
        now = self._db.now()
        for card in cards:
            self._set(card, {"deleted_at": now, "files": []})
            for file in card.files:
                self._db.files.delete(file)
        return cards

    def fetch(self, card: ModelCard, folder: Path) -> Path:
        """Write a version's files into a folder and return the model's own path there.

        Raises PerfDBError if they are not what was registered.
        """
        self.save(card, folder)
        return self.checked(card, folder)

    def save(self, card: ModelCard, folder: Path) -> None:
        """Write a version's files into a folder, without a look at what they are together."""
        for file in card.files:
            self._db.files.save_to(file, folder / _inside(file.name))

    @staticmethod
    def checked(card: ModelCard, folder: Path) -> Path:
        """The model's own path in a folder with a version's files. PerfDBError if they are not what was registered."""
        path = folder / _inside(card.file)
        assert card.format is not None
        if (digest := FORMATS.load(card.format)().digest(path)) != card.digest:
            raise PerfDBError(
                f"The model {card.name}@{card.version} in PerfDB is damaged: its digest is {digest}, "
                f"registered was {card.digest}."
            )
        return path

    def _insert(self, card: ModelCard) -> ModelCard:
        for _ in range(VERSION_ATTEMPTS):
            last = self._find({"name": card.name}, limit=1)
            card = card.model_copy(update={"version": last[0].version + 1 if last else 1})
            identity = f"{card.name}@{card.version}"
            values = {"_id": identity, **to_stored(card)}
            try:
                self._db.retrying(lambda v=values: self._put(v), f"registering {identity}")  # type: ignore[misc]
            except _Taken:
                continue
            return card
        raise PerfDBError(f"The model {card.name!r} is registered by too many others at once; try again.")

    def _put(self, values: dict[str, Any]) -> None:
        models = self._db.collection(COLLECTION)
        try:
            models.insert_one(dict(values))
        except DuplicateKeyError:
            # A repeated insert meets its own first try, if only the answer was lost.
            if models.find_one({"_id": values["_id"], "files": values["files"]}) is None:
                raise _Taken from None

    def _set(self, card: ModelCard, changes: dict[str, Any]) -> None:
        where, change = {"name": card.name, "version": card.version}, {"$set": to_stored(changes)}
        self._db.retrying(
            lambda: self._db.collection(COLLECTION).update_one(where, change), f"updating {card.name}"
        )

    def _latest(self, name: str) -> ModelCard | None:
        cards = self._find({"name": name, "deleted_at": None}, limit=1)
        return cards[0] if cards else None

    def _find(self, filter: dict[str, Any], limit: int) -> list[ModelCard]:
        order = [("name", 1), ("version", -1)]
        documents = self._db.retrying(
            lambda: list(self._db.collection(COLLECTION).find(filter, {"_id": 0}, sort=order, limit=limit)),
            "finding models",
        )
        return [ModelCard.model_validate(to_plain(document)) for document in documents]


class _Taken(Exception):
    """Somebody else registered that version meanwhile."""


def _require_words(words: dict[str, Any]) -> None:
    if unknown := sorted(set(words) - set(WORDS)):
        raise InputError(f"A model's {', '.join(unknown)} can't be set; allowed: {', '.join(WORDS)}")


def _validated(values: dict[str, Any]) -> ModelCard:
    try:
        return ModelCard.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(field_problems(error))
        raise InputError(f"The model can't be registered so: {problems}") from error


def _members(path: Path) -> list[Path]:
    """All files of a model: of its folder, or the file with its weights beside it."""
    if path.is_dir():
        members = sorted(p for p in path.rglob("*") if p.is_file() or p.is_symlink())
    elif path.is_file():
        members = [path, *_weights_beside(path)]
    else:
        raise InputError(f"There is no model at {path}")
    if not members or len(members) > MAX_FILES:
        raise InputError(f"The model {path} has {len(members)} files; 1 to {MAX_FILES} are allowed")
    for member in members:
        if member.is_symlink() or not member.resolve().is_relative_to(path.parent.resolve()):
            raise InputError(f"The model's file {member} is a link; only plain files are registered")
    return members


def _weights_beside(path: Path) -> list[Path]:
    if path.suffix == ".xml":
        return [path.with_suffix(".bin")]
    if path.suffix == ".onnx":
        return external_data(path)
    return []


def _inside(name: str) -> PurePosixPath:
    """A stored file's place below the folder; never outside of it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
        raise PerfDBError(f"A model's file in PerfDB has the forbidden name {name!r}.")
    return path
