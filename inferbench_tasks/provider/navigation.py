"""The pages that Airflow's navigation and our own lead to, by the first lines of their templates.

A template that begins with ``{# navigation 30: Compare #}`` is the page below ``/inferbench`` that has its name, third
in the row. Its function is in ``ui/pages.py``, which the navigation does not import: every Airflow process asks for it.
"""

from __future__ import annotations

import re
from pathlib import Path

_FIRST_LINE = re.compile(r"\{# navigation (\d+): (.+) #\}\s*")
_TEMPLATES = Path(__file__).parent / "ui" / "templates"


def entries(folder: Path) -> dict[str, str]:
    """Path below /inferbench -> name in the navigation, in its order."""
    pages = []
    for template in folder.glob("*.html"):
        with template.open(encoding="utf-8") as lines:
            if entry := _FIRST_LINE.fullmatch(lines.readline()):
                pages.append((int(entry[1]), template.stem, entry[2]))
    return {path: title for _, path, title in sorted(pages)}


PAGES = entries(_TEMPLATES)
