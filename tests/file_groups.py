"""Which process runs which files of a suite: all tests of a file in one, and of some files together."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

#: File -> the one whose process runs it afterwards, for what both need is dear.
BEHIND = {
    # An engine with an image that was built in it.
    "tests/contract/test_backend_containers.py": "tests/contract/test_backends.py",
}


class FilesTogether(LoadFileScheduling):  # type: ignore[misc]
    """Files as ``--dist loadfile`` has them, but for those of ``BEHIND``."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return BEHIND.get(file, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesTogether | None:
    """In place of xdist's own, where files are what is distributed."""
    return FilesTogether(config, log) if config.getvalue("dist") == "loadfile" else None
