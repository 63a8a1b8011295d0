"""Submissions that came by the form or by REST, kept as files: each becomes a DAG as a YAML of the folder does."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from inferbench_tasks.errors import InputError
from inferbench_tasks.pipelines.base import AnySubmission
from inferbench_tasks.provider.submit.request import Resolved
from inferbench_tasks.upkeep.places.submitted import FOLDER, UNFINISHED, unfinished

PREFIX = "submitted."
#: So many, those used last, are DAGs, and all that have a run; older ones come back when they are submitted again.
SHOWN = 200
#: Of a file: a submission of ``MAX_BYTES`` of YAML with all its defaults written out is smaller.
MAX_BYTES = 8_000_000


class Placed(BaseModel):
    """A file of the shelf."""

    submission: AnySubmission
    base_dir: str


PlacedT = TypeVar("PlacedT", bound=BaseModel)


class JsonShelf(Generic[PlacedT]):
    """``<folder>/<dag id>.json``, each what a DAG is made of."""

    #: So many, those used last, are DAGs, and all that have a run.
    shown = SHOWN

    def __init__(self, folder: Path, schema: type[PlacedT]) -> None:
        self.folder = folder
        self._schema = schema

    def write(self, dag_id: str, placed: PlacedT) -> None:
        """Put it on the shelf, or mark it as used just now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(dag_id)
        temporary = path.with_suffix(f".{os.getpid()}.part")
        temporary.write_text(placed.model_dump_json(), encoding="utf-8")
        os.replace(temporary, path)

    def get(self, dag_id: str) -> PlacedT | None:
        """None if there is no such file.

        Raises pydantic's ValidationError for one that is valid no longer, InputError for one that is too large.
        """
        path = self.path(dag_id)
        if not path.is_file():
            return None
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise InputError(f"{path} is larger than {MAX_BYTES:,} bytes; no submission is")
        return self._schema.model_validate_json(text)

    def recent(self) -> list[str]:
        """The ids of those used last, the newest first, then of those before that have a run which has not ended."""
        used_at: dict[str, float] = {}
        for path in self.folder.glob("*.json"):
            with contextlib.suppress(OSError):  # taken away meanwhile, or a link to nothing
                used_at[path.name.removesuffix(".json")] = path.stat().st_mtime
        newest = sorted(used_at, key=lambda dag_id: used_at[dag_id], reverse=True)
        kept = unfinished(self.folder)  # none where no scheduler of ours has been yet
        return newest[: self.shown] + [dag_id for dag_id in newest[self.shown :] if dag_id in kept]

    def keep(self, dag_ids: Iterable[str]) -> None:
        """These stay DAGs however many others come: Airflow does nothing for a run whose DAG is not there.

        What can't be written is left as it is: it is written again at the next look.
        """
        if not self.folder.is_dir():
            return
        path = self.folder / UNFINISHED
        text = "\n".join(sorted(dag_ids))
        with contextlib.suppress(OSError):
            if path.is_file() and path.read_text(encoding="utf-8") == text:
                return
            temporary = path.with_suffix(f".{os.getpid()}.part")
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, path)

    def path(self, dag_id: str) -> Path:
        """The file of this DAG."""
        return self.folder / f"{dag_id}.json"


class Shelf(JsonShelf[Placed]):
    """``<data_dir>/submitted/<dag id>.json``; the same submission always has the same DAG."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir / FOLDER, Placed)

    def place(self, resolved: Resolved) -> str:
        """Put it on the shelf; the id of its DAG."""
        placed = Placed(submission=resolved.submission, base_dir=str(resolved.base_dir))
        digest = hashlib.sha256(placed.model_dump_json().encode()).hexdigest()[:8]
        dag_id = f"{PREFIX}{resolved.submission.name}.{digest}"
        self.write(dag_id, placed)
        return dag_id
