"""What a report's page carries, unpacked as the browser does it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any


def unpacked(text: str, name: str) -> bytes:
    """What the page has under that id."""
    found = re.search(rf'id="{name}">([^<]*)<', text)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1]))


def charts_of(text: str) -> dict[str, Any]:
    """The charts that the page carries, by their ids."""
    charts: dict[str, Any] = json.loads(unpacked(text, "charts"))
    return charts
