"""Which process of a suite takes which file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.file_groups import FilesTogether

WAIT = ("tests/e2e/test_a.py", "tests/contract/test_backends.py", "tests/integration/test_b.py")
COMPUTE = ("tests/unit/test_c.py", "tests/security/test_d.py")


class Process:
    """One of xdist's, which has run whatever it is sent."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.sent: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        """There is no more."""


def scheduled(processes: int, tests: list[str]) -> tuple[FilesTogether, list[Process]]:
    """What so many processes get of these tests at the beginning."""
    silent = lambda *words: None  # noqa: E731
    config: Any = SimpleNamespace(
        getvalue=lambda name: [f"{processes}*popen"], option=SimpleNamespace(loadscopereorder=False)
    )
    made = FilesTogether(config, SimpleNamespace(loadscopesched=silent, loadfilesched=silent))
    nodes = [Process(f"gw{number}") for number in range(processes)]
    for node in nodes:
        made.add_node(node)
        made.add_node_collection(node, tests)
    made.schedule()
    return made, nodes


def files(node: Process, tests: list[str]) -> list[str]:
    """Of the tests that a process was sent, in their order."""
    return list(dict.fromkeys(tests[index].partition("::")[0] for index in node.sent))


def run(made: FilesTogether, node: Process) -> None:
    """Have a process run what it was sent by now."""
    for index in list(node.sent):
        made.mark_test_complete(node, index)


def test_what_computes_is_begun_beside_what_waits() -> None:
    """By the last process, and by it alone until nothing else is left; it then takes of the others' files."""
    tests = [f"{file}::test_{number}" for file in (*WAIT, *COMPUTE) for number in range(4)]
    made, (first, second, last) = scheduled(3, tests)
    assert [files(node, tests) for node in (first, second, last)] == [[WAIT[0]], [WAIT[1]], [COMPUTE[0]]]
    run(made, last)
    assert files(last, tests) == [*COMPUTE]
    run(made, last)
    assert files(last, tests) == [*COMPUTE, WAIT[2]]
    run(made, first)
    assert sorted({*first.sent, *second.sent, *last.sent}) == list(range(len(tests)))


def test_one_process_runs_them_as_they_come() -> None:
    """In the order of the command line."""
    tests = [f"{file}::test_{number}" for file in (*COMPUTE, *WAIT) for number in range(4)]
    made, (only,) = scheduled(1, tests)
    for _ in range(len(tests)):
        run(made, only)
    assert files(only, tests) == [*COMPUTE, *WAIT]


def test_files_that_share_what_is_dear_are_one() -> None:
    """Those with containers run behind the backends' others, by the same process."""
    behind = "tests/contract/test_backend_containers.py"
    tests = [f"{file}::test_{number}" for file in (*WAIT, behind, *COMPUTE) for number in range(4)]
    _, (first, second, last) = scheduled(3, tests)
    assert [behind in files(node, tests) for node in (first, second, last)] == [False, True, False]
