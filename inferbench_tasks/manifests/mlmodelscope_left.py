"""What of a file of MLModelScope's is not taken over, with its line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.problem import FieldPath
from inferbench_tasks.submission.document import Document


@dataclass
class Imported:
    """``left``: {field, line, why} of each thing of the file that is not in the manifest, or only in part."""

    file: Document
    left: list[dict[str, Any]] = field(default_factory=list)

    def leave(self, path: FieldPath, why: str) -> None:
        """Note that what stands at that path is not taken over, and why."""
        self.left.append({"field": ".".join(map(str, path)), "line": self.file.line(path), "why": why})

    def refuse(self, path: FieldPath, why: str) -> SubmissionError:
        """The error that there can be no manifest of it."""
        return SubmissionError([self.file.problem(path, why)])
