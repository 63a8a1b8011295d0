"""The list of all gates of MLModelScope's part, and how their ends are read."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from benchmarks.mlmodelscope import __main__ as command
from benchmarks.mlmodelscope.gates import GATES, Gate, Verdict, ran, summed_up, verdict_of

ROOT = Path(__file__).parents[3]
_REPORT = '<testsuites><testsuite><testcase name="a">{}</testcase></testsuite></testsuites>'


def test_each_gate_is_there() -> None:
    """Its module can be run, its tests have the names that it calls them by."""
    for name, gate in GATES.items():
        assert bool(gate.module) != bool(gate.tests), name
        if gate.module:
            assert "__main__" in (ROOT / gate.module.replace(".", "/")).with_suffix(".py").read_text()
        for test in gate.tests:
            path, _, function = test.partition("::")
            tree = ast.parse((ROOT / path).read_text())
            assert not function or function in {
                each.name for each in tree.body if isinstance(each, ast.FunctionDef)
            }, test


def test_no_gate_is_left_out() -> None:
    """Each program of the folder is in the list."""
    programs = {
        path.stem
        for path in (ROOT / "benchmarks" / "mlmodelscope").glob("*.py")
        if path.stem != "__main__" and 'if __name__ == "__main__"' in path.read_text()
    }
    programs -= {"switched_server"}  # which one_in starts
    assert programs and programs <= {gate.module.rpartition(".")[2] for gate in GATES.values()}


@pytest.mark.parametrize(
    ("code", "verdict"), [(0, "passed"), (1, "FAILED"), (2, "not judged"), (-9, "not judged")]
)
def test_exit_codes_of_programs(code: int, verdict: Verdict, tmp_path: Path) -> None:
    """One that was killed has not judged."""
    assert verdict_of(Gate("x", 1, "m"), code, tmp_path / "none") == verdict
    stated = "stated" if code == 0 else verdict
    assert verdict_of(Gate("x", 1, "m", states=True), code, tmp_path / "none") == stated


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        ("raise ValueError('no trace')", "not judged"),
        ("import sys; assert sys.argv[1:] == []; sys.exit(1)", "FAILED"),
        ("import sys; sys.exit(2)", "not judged"),
        ("assert __name__ == '__main__'", "passed"),
    ],
)
def test_a_program_that_crashes_has_not_judged(
    program: str, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Python's exit code would be; one that ends by itself is told by its own."""
    (tmp_path / "made_gate.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ran(Gate("x", 1, "made_gate")) == verdict


@pytest.mark.parametrize(
    ("code", "inside", "verdict"),
    [
        (0, "", "passed"),
        (0, "<skipped/>", "not judged"),
        (1, "<failure/>", "FAILED"),
        (1, "<error/>", "not judged"),
        (1, '</testcase><testcase name="b"><error/></testcase><testcase name="c"><failure/>', "FAILED"),
        (5, "", "not judged"),
    ],
)
def test_ends_of_tests(code: int, inside: str, verdict: Verdict, tmp_path: Path) -> None:
    """A test that was skipped proves nothing, and pytest calls that success; one whose preparation failed did not
    judge, and pytest calls that a failure.
    """
    gate, report = Gate("x", 1, tests=("t.py",)), tmp_path / "tests.xml"
    report.write_text(_REPORT.format(inside))
    assert verdict_of(gate, code, report) == verdict
    assert verdict_of(gate, 1, tmp_path / "none") == "not judged", "pytest itself did not begin"


def test_several_together() -> None:
    """A failure goes before what was not judged."""
    assert summed_up(["passed", "stated"]) == 0
    assert summed_up(["passed", "not judged"]) == 2
    assert summed_up(["not judged", "FAILED", "passed"]) == 1


def test_the_command_lists_and_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a name a line for each gate; with names these, each once, and a table; a name that is none is refused."""

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["x", *arguments])
        return command.main(), capsys.readouterr().out

    def judged(gate: Gate) -> Verdict:
        return "not judged" if gate is GATES["otlp"] else "passed"

    monkeypatch.setattr(command, "ran", judged)
    code, out = call()
    assert code == 0 and len(out.splitlines()) == len(GATES) and GATES["fifteen"].command in out
    code, out = call("--run", "fifteen", "otlp", "fifteen")
    assert code == 2 and [line.split()[:2] for line in out.splitlines()[-2:]] == [
        ["fifteen", "passed"], ["otlp", "not"],
    ]  # fmt: skip
    code, out = call("--run", "all")
    assert code == 2 and sum(" passed " in line for line in out.splitlines()) == len(GATES) - 1
    with pytest.raises(SystemExit):
        call("--run", "nothing")
    assert "there are scenarios" in capsys.readouterr().err
