"""Which process runs which files of a suite: all tests of a file in one, and of some files together; and in which order
they are taken, so that what waits is beside what computes.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

#: File -> the one whose process runs it afterwards, for what both need is dear.
BEHIND = {
    # An engine with an image that was built in it.
    "tests/contract/test_backend_containers.py": "tests/contract/test_backends.py",
}
#: Tests here compute; those of the other folders start servers and whole systems, and mostly wait.
COMPUTE = ("tests/unit/", "tests/security/", "tests/test_architecture.py")


class FilesTogether(LoadFileScheduling):  # type: ignore[misc]
    """Files as ``--dist loadfile`` has them, but for those of ``BEHIND``.

    The last of several processes begins with what computes, the others with what waits, each in the order of the
    command line; who has none of its own left takes what there is. All at what waits would leave cores idle, and after
    that all at what computes be more than there are cores.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return BEHIND.get(file, file)

    def _assign_work_unit(self, node: Any) -> None:
        if self.numnodes > 1:
            last = node.gateway.id == f"gw{self.numnodes - 1}"
            own = next((file for file in self.workqueue if file.startswith(COMPUTE) == last), None)
            if own is not None:
                self.workqueue.move_to_end(own, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesTogether | None:
    """In place of xdist's own, where files are what is distributed."""
    return FilesTogether(config, log) if config.getvalue("dist") == "loadfile" else None
