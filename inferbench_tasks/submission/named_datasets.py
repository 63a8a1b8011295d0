"""Where a submission names a data set by its manifest: ``evaluate: {dataset: words@^1}``, under ``sweep`` too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from inferbench_tasks.submission.named_fields import NamedField, named_fields

#: A name of a data set has none of these; what a constraint is written with does.
_CONSTRAINT = re.compile(r"[@^~<>=!]")


def named_datasets(data: Mapping[str, Any]) -> Iterator[NamedField]:
    """All that are named with a constraint. A bare name has none: it is what it was before data sets had versions."""
    return named_fields(data, "evaluate", "dataset", lambda text: _CONSTRAINT.search(text) is not None)
