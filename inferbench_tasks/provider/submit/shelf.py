"""Submissions that came by the form or by REST, kept as files: each becomes a DAG as a YAML of the folder does."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pydantic import BaseModel

from inferbench_tasks.pipelines.base import AnySubmission
from inferbench_tasks.provider.submit.request import Resolved

PREFIX = "submitted."
#: So many, those used last, are DAGs; older ones come back when they are submitted again.
SHOWN = 200


class Placed(BaseModel):
    """A file of the shelf."""

    submission: AnySubmission
    base_dir: str


class Shelf:
    """``<data_dir>/submitted/<dag id>.json``; the same submission always has the same DAG."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / "submitted"

    def place(self, resolved: Resolved) -> str:
        """Put it on the shelf; the id of its DAG."""
        placed = Placed(submission=resolved.submission, base_dir=str(resolved.base_dir))
        text = placed.model_dump_json()
        dag_id = f"{PREFIX}{resolved.submission.name}.{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(dag_id)
        temporary = path.with_suffix(f".{os.getpid()}.part")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)  # also marks it as used just now
        return dag_id

    def get(self, dag_id: str) -> Placed | None:
        """None if there is no such submission. Raises pydantic's ValidationError for one that is valid no longer."""
        path = self.path(dag_id)
        return Placed.model_validate_json(path.read_bytes()) if path.is_file() else None

    def recent(self) -> list[str]:
        """The ids of those used last, the newest first."""
        files = sorted(self.folder.glob(f"{PREFIX}*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
        return [path.name.removesuffix(".json") for path in files[:SHOWN]]

    def path(self, dag_id: str) -> Path:
        """The file that keeps this DAG's submission."""
        return self.folder / f"{dag_id}.json"
