"""``inferbench paper``: its submissions are valid and say what a GPU would change; a wrong one stops all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cli.paper import FOLDER, paper
from inferbench_tasks.cli.paper_runs import KEPT_S, Child, Done, row_of
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.output import OutputFormat
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import expand

FILES = sorted(FOLDER.glob("*.yaml"))
#: A program that runs ``child.py`` as the command runs a submission, and ends as the command does.
RUNS_CHILD = (
    "import os, signal, subprocess, sys, typer\n"
    "from pathlib import Path\n"
    "from inferbench_tasks.cli.paper_runs import Child\n"
    "{before}"
    "child = Child((sys.executable, 'child.py'))\n"
    "try:\n"
    "    with child.signals():\n"
    "        child.run(Path('fig07.yaml'))\n"
    "except typer.Exit as end:\n"
    "    sys.exit(end.exit_code)\n"
)


def test_every_figure_of_the_paper_has_its_submission() -> None:
    """Figures 7 to 14 are covered; a sweep of four axes, 3 x 3 x 2 x 3 jobs, is beside them, for no figure shows it."""
    names = " ".join(file.stem for file in FILES)
    assert all(
        figure in names for figure in ("fig07-08", "fig09", "fig10", "fig11-13", "fig12", "fig13", "fig14")
    )
    assert len(expand(read_submission(FOLDER.parent / "sweeps" / "sweep-of-four-axes.yaml", INSTALLED))) == 54


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_submission_is_valid_and_says_what_a_gpu_would_change(file: Path) -> None:
    """Its jobs expand, and its comment speaks of a GPU."""
    assert expand(read_submission(file, INSTALLED))
    comment = [line for line in file.read_text().splitlines() if line.startswith("#")]
    assert any("GPU" in line for line in comment)


def test_a_figure_that_is_not_there_is_refused() -> None:
    """The message names the folder and what was asked for."""
    with pytest.raises(InputError, match="no submission that matches fig99"):
        paper(["fig99"], FOLDER, again=False, output=OutputFormat.json)


def test_a_wrong_submission_stops_all_before_the_first_one_runs(tmp_path: Path, data_dir: Path) -> None:
    """The second file is broken, and named: nothing of the first was started."""
    (tmp_path / "fig07.yaml").write_text(FILES[0].read_text())
    (tmp_path / "fig08.yaml").write_text("name: broken\n")
    with pytest.raises(InferBenchError, match=r"fig08\.yaml"):
        paper([], tmp_path, again=False, output=OutputFormat.json)
    assert list(data_dir.iterdir()) == []


def test_what_became_of_a_submission() -> None:
    """Valid and disturbed runs are counted, the report is the first's; one that printed nothing has neither."""
    verdicts = ("valid", "invalid: late", "disturbed: the hypervisor took 30%")
    runs = [{"run_id": f"i.{n}", "verdict": v, "report": "r.html"} for n, v in enumerate(verdicts)]
    assert row_of(Path("a/fig07.yaml"), 1, json.dumps(runs).encode()) == {
        "submission": "fig07", "valid": 1, "disturbed": 1, "runs": 3, "run_ids": ["i.0", "i.1", "i.2"],
        "report": "r.html", "exit_code": 1,
    }  # fmt: skip
    assert row_of(Path("fig07.yaml"), 2, b"")["report"] is None


def test_what_is_done_is_not_run_again_unless_anything_changed(tmp_path: Path) -> None:
    """All valid: kept. One disturbed, another text or version, older than a day, a broken file: measured again."""
    file, path = tmp_path / "fig07.yaml", tmp_path / "done.json"
    file.write_text("name: a")
    row = {
        "submission": "fig07",
        "valid": 2,
        "disturbed": 0,
        "runs": 2,
        "run_ids": ["a", "b"],
        "exit_code": 0,
    }
    done = Done(path)
    assert done.row(file, "v1") is None
    done.keep(file, "v1", row)
    kept = Done(path).row(file, "v1")
    assert kept is not None and kept["run_ids"] == ["a", "b"]
    assert Done(path).row(file, "v2") is None
    file.write_text("name: b")
    assert Done(path).row(file, "v1") is None
    done.keep(file, "v1", {**row, "valid": 1, "disturbed": 1})
    assert done.row(file, "v1") is None
    done.keep(file, "v1", row)
    stored = json.loads(path.read_text())
    stored["fig07"]["ended_at"] -= KEPT_S
    path.write_text(json.dumps(stored))
    assert Done(path).row(file, "v1") is None
    path.write_text("{")
    assert Done(path).row(file, "v1") is None
    other = tmp_path / "fig11.yaml"
    other.write_text("name: c")
    for one in (file, other):
        done.keep(one, "v1", row)
    done.forget([file])
    assert done.row(file, "v1") is None and done.row(other, "v1") is not None


def test_a_submission_whose_server_is_not_here_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Triton cannot run: its submission is said to be left out, the page says why, the others run."""
    monkeypatch.setattr("inferbench_tasks.backends.triton.libpython_folder", lambda: None)
    for name in ("fig07-08-batch-size", "fig12-triton"):
        (tmp_path / f"{name}.yaml").write_text((FOLDER / f"{name}.yaml").read_text())
    ran: list[str] = []

    def run(self: Child, file: Path) -> dict[str, object]:
        ran.append(file.stem)
        return row_of(file, 0, b"")

    monkeypatch.setattr(Child, "run", run)
    pages: list[dict[str, str]] = []

    def page(data_dir: Path, rows: object, unavailable: dict[str, str]) -> tuple[str, Path]:
        pages.append(unavailable)
        return "words", data_dir

    monkeypatch.setattr("inferbench_tasks.cli.paper._page", page)
    paper([], tmp_path, again=False, output=OutputFormat.json)
    assert ran == ["fig07-08-batch-size"]
    assert list(pages[0]) == ["fig12-triton"] and "triton does not run here: " in pages[0]["fig12-triton"]
    assert "fig12-triton is left out: triton does not run here" in capsys.readouterr().err


def test_a_signal_while_a_run_is_being_started_ends_it_too(tmp_path: Path) -> None:
    """SIGTERM before the command knows its child: the child gets it as soon as it is there, and nothing stays."""
    child = tmp_path / "child.py"
    child.write_text("import time\ntime.sleep(60)\n")
    parent = RUNS_CHILD.format(
        before="real = subprocess.Popen\n"
        "def start(*given, **more):\n"
        "    process = real(*given, **more)\n"
        "    Path('pid').write_text(str(process.pid))\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return process\n"
        "subprocess.Popen = start\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    ended = subprocess.run([sys.executable, "-c", parent], cwd=tmp_path, env=env, timeout=50, check=False)
    assert ended.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_signal_ends_the_run_that_is_under_way(tmp_path: Path) -> None:
    """SIGTERM to the command: its child ends in its own way, and the command's code says which signal it was."""
    child = tmp_path / "child.py"
    child.write_text(
        "import signal, sys, time, pathlib\n"
        "def end(*_):\n"
        "    pathlib.Path('ended').touch()\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "pathlib.Path('started').touch()\n"
        "time.sleep(60)\n"
    )
    parent = RUNS_CHILD.format(before="")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=tmp_path, env=env, stderr=subprocess.PIPE)
    try:
        for _ in range(600):
            if (tmp_path / "started").exists():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + signal.SIGTERM
    assert (tmp_path / "ended").exists()
    assert b"goes on" in said
