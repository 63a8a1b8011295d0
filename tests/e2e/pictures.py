"""The tutorial's pictures: of the system that the browser tests run, where ``INFERBENCH_PICTURES`` names a folder.

``INFERBENCH_PICTURES=docs/pictures pytest tests/e2e/test_web_system.py`` makes them again; that of two runs beside each
other comes of ``tests/e2e/test_web_pages.py``, for what two runs of a busy machine show is that it was busy.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

#: What a reader's column shows; taller pages are cut off.
_SIZE = {"width": 1100, "height": 760}


def picture(page: Page, name: str, at: Locator | None = None) -> None:
    """Keep what the page shows as ``name.webp``, from that part on; nothing where no folder is named."""
    folder = os.environ.get("INFERBENCH_PICTURES")
    if not folder:
        return
    from PIL import Image

    before = page.viewport_size
    page.set_viewport_size(_SIZE)  # type: ignore[arg-type]
    if at is not None:
        at.evaluate("of => of.scrollIntoView({ block: 'start' })")
    page.wait_for_timeout(500)  # charts are drawn again for the new size
    shot = Image.open(io.BytesIO(page.screenshot()))
    Path(folder).mkdir(parents=True, exist_ok=True)
    shot.convert("RGB").save(Path(folder) / f"{name}.webp", quality=72, method=6)
    page.evaluate("scrollTo(0, 0)")
    if before is not None:
        page.set_viewport_size(before)
