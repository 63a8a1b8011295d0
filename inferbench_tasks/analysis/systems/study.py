"""A study of many models on several stacks: which there are, and the submission of each.

One submission a model, so that a study that was ended goes on with the model that it was at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import field_problems

Name = Annotated[str, Field(min_length=1, max_length=100)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Stack(_Strict):
    """What serves a model: the format it is converted to, the backend, and how that is spoken to."""

    format: Name
    backend: Name
    protocol: Literal["http", "grpc"] = "http"


class Entry(_Strict):
    """A model of the zoo. ``paper``: what it is called where it was measured before. ``evaluate``: it is trained, so
    that its answers are judged, by labels or beside the source model's."""

    model: Name
    framework: Literal["torch", "tensorflow"]
    paper: tuple[Name, ...] = ()
    evaluate: bool = False


class Study(_Strict):
    """Each model on each stack of its framework, with one user who asks so many samples at a time and waits."""

    batch_sizes: Annotated[tuple[Annotated[int, Field(ge=1, le=1024)], ...], Field(min_length=1)]
    threads: Annotated[int, Field(ge=1, le=1024)]
    duration_s: Annotated[float, Field(gt=0, le=3600)]
    warmup_s: Annotated[float, Field(ge=0, le=600)]
    stacks: dict[Literal["torch", "tensorflow"], tuple[Stack, ...]]
    models: Annotated[tuple[Entry, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _whole(self) -> Study:
        names = [entry.model for entry in self.models]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"twice: {', '.join(twice)}")
        if missing := sorted({entry.framework for entry in self.models} - set(self.stacks)):
            raise ValueError(f"no stacks for models of {', '.join(missing)}")
        return self

    def chosen(self, names: list[str]) -> list[Entry]:
        """Those models, all without any. InputError for one that is not there, with those that are."""
        known = {entry.model: entry for entry in self.models}
        if wrong := [name for name in names if name not in known]:
            raise InputError(f"{', '.join(wrong)} is none of {', '.join(known)}", field="MODEL")
        return [entry for name, entry in known.items() if not names or name in names]

    def submission(self, entry: Entry) -> dict[str, Any]:
        """Of a model: all its stacks, each with every batch size."""
        stacks = self.stacks[entry.framework]
        load = {"arrivals": {"kind": "closed_loop", "concurrency": 1}}
        return {
            "name": f"mlmodelscope-{entry.model}",
            "description": f"{entry.model} on {len(stacks)} stacks, one user, batches of {list(self.batch_sizes)}.",
            "model": {"kind": "zoo", "name": entry.model, "framework": entry.framework},
            "serve": {"threads": self.threads},
            "load": {**load, "duration_s": self.duration_s, "warmup_s": self.warmup_s},
            **({"evaluate": {}} if entry.evaluate else {}),
            "sweep": {
                "zip": {
                    "convert.format": [stack.format for stack in stacks],
                    "serve.backend": [stack.backend for stack in stacks],
                    "load.protocol": [stack.protocol for stack in stacks],
                },
                "load.batch_size": list(self.batch_sizes),
            },
        }


def read(path: Path) -> Study:
    """InputError, naming what is wrong and where."""
    try:
        return Study.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}") from error
    except ValidationError as error:
        raise InputError(f"{path}: {field_problems(error)[0]}") from error


def place(study: Study, entry: Entry, folder: Path) -> Path:
    """The submission's file, written only where it is not there yet with the same text."""
    path = folder / f"{entry.model}.yaml"
    text = yaml.safe_dump(study.submission(entry), sort_keys=False)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path
