"""A corpus: models that are studied together, some of them several times (``corpora/*.yaml``, or a file of yours)."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from inferbench_tasks.artifacts.plain_file import read_plain
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import field_problems

Text = Annotated[str, Field(min_length=1, max_length=500)]
_MAX_BYTES = 1 << 20


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Copy(_Strict):
    """One row of the table that a corpus is made after. ``layers``: as many as stand there."""

    id: Annotated[int, Field(ge=1)]
    name: Text
    layers: Annotated[int, Field(ge=1)] | None = None


class Entry(_Strict):
    """One architecture. ``copies``: the rows that it stands for; none: it is there once.

    ``differs``: in what from its source.
    """

    model: Text
    family: Text
    publication: Text
    differs: Text | None = None
    copies: tuple[Copy, ...] = ()

    @property
    def count(self) -> int:
        return max(1, len(self.copies))

    @property
    def layers_of_source(self) -> int | None:
        """The layers of all copies as their table has them; None where it does not."""
        if not self.copies or any(copy.layers is None for copy in self.copies):
            return None
        return sum(copy.layers or 0 for copy in self.copies)


class Corpus(_Strict):
    """Each architecture once; those that are there several times say so by their copies."""

    summary: Text
    source: Text
    models: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=10_000)]

    @model_validator(mode="after")
    def _once(self) -> Corpus:
        names = [entry.model for entry in self.models]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the same model twice: {', '.join(twice)}; say copies")
        ids = [copy.id for entry in self.models for copy in entry.copies]
        if twice_id := sorted({id for id in ids if ids.count(id) > 1}):
            raise ValueError(f"the same id twice: {', '.join(map(str, twice_id))}")
        return self


def corpora() -> list[str]:
    """The names of those that come with InferBench."""
    folder = resources.files("inferbench_tasks.bricks") / "corpora"
    return sorted(
        entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    )


def read_corpus(name: str) -> Corpus:
    """One that comes with InferBench by its name, or a file by its path. InputError says what is wrong where."""
    path = Path(name).expanduser()
    if name in corpora():
        text = (resources.files("inferbench_tasks.bricks") / "corpora" / f"{name}.yaml").read_text("utf-8")
    elif path.suffix in (".yaml", ".yml"):
        text = _read(path)
    else:
        raise InputError(
            f"Unknown corpus {name!r}; known: {', '.join(corpora())}, or the path of a YAML file",
            field="corpus",
        )
    return parse_corpus(text, name)


def parse_corpus(text: str, name: str) -> Corpus:
    """The corpus of a YAML text; ``name`` goes into the messages."""
    import yaml

    try:
        document: Any = yaml.safe_load(text)
        return Corpus.model_validate(document)
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{name} is no YAML that can be read: {error}", field="corpus") from None
    except ValidationError as error:
        problems = "; ".join(field_problems(error, "corpus")[:5])
        raise InputError(f"{name} is no corpus: {problems}", field="corpus") from None


def _read(path: Path) -> str:
    try:
        return read_plain(path, _MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}", field="corpus") from error
