"""How many rows a page's CSV has at most."""

from __future__ import annotations

import re
from pathlib import Path

from inferbench_tasks.provider import ui
from inferbench_tasks.provider.api.output import CSV_ROWS

PAGES = Path(ui.__path__[0])


def test_no_page_says_by_hand_how_many_rows_its_csv_has() -> None:
    """A number that is written there stays as it is when the API's changes: it is ``CSV_ROWS``, ``csv_rows``."""
    by_hand = re.compile(rf"limit=\d{{3,}}|(first|newest) {CSV_ROWS}\b")
    paths = [*PAGES.glob("*.py"), *PAGES.glob("templates/*.html")]
    assert [path.name for path in paths if by_hand.search(path.read_text())] == [] and len(paths) > 40
