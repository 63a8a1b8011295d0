"""``inferbench paper``: its submissions are valid and say what a GPU would change; a wrong one stops all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cli.paper import FOLDER, _row, paper
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import expand

FILES = sorted(FOLDER.glob("*.yaml"))


def test_every_figure_of_the_paper_has_its_submission() -> None:
    """Figures 7 to 14 are covered, and the sweep of four axes is 3 x 3 x 2 x 3 jobs."""
    names = " ".join(file.stem for file in FILES)
    assert all(figure in names for figure in ("fig07-08", "fig09", "fig10", "fig11-13", "fig12", "fig14"))
    assert len(expand(read_submission(FOLDER / "sweep-of-four-axes.yaml", INSTALLED))) == 54


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_submission_is_valid_and_says_what_a_gpu_would_change(file: Path) -> None:
    """Its jobs expand, and its comment speaks of a GPU."""
    assert expand(read_submission(file, INSTALLED))
    comment = [line for line in file.read_text().splitlines() if line.startswith("#")]
    assert any("GPU" in line for line in comment)


def test_a_figure_that_is_not_there_is_refused() -> None:
    """The message names the folder and what was asked for."""
    with pytest.raises(InputError, match="no submission that matches fig99"):
        paper(["fig99"], FOLDER)


def test_a_wrong_submission_stops_all_before_the_first_one_runs(tmp_path: Path, data_dir: Path) -> None:
    """The second file is broken: nothing of the first was started."""
    (tmp_path / "fig07.yaml").write_text(FILES[0].read_text())
    (tmp_path / "fig08.yaml").write_text("name: broken\n")
    with pytest.raises((InferBenchError, typer.Exit)):
        paper([], tmp_path)
    assert list(data_dir.iterdir()) == []


def test_what_became_of_a_submission() -> None:
    """Valid and disturbed runs are counted, the report is the first's; one that printed nothing has neither."""
    verdicts = ("valid", "invalid: late", "disturbed: the hypervisor took 30%")
    runs = [{"verdict": verdict, "report": "r.html"} for verdict in verdicts]
    assert _row(Path("a/fig07.yaml"), 1, json.dumps(runs).encode()) == {
        "submission": "fig07", "valid": 1, "disturbed": 1, "runs": 3, "report": "r.html", "exit_code": 1,
    }  # fmt: skip
    assert _row(Path("fig07.yaml"), 2, b"")["report"] is None
