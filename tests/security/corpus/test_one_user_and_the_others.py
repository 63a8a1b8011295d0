"""What one user may take: of the disk, of the queue, of the DAGs; and that the others' runs go on."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.cli.main import app
from inferbench_tasks.errors import InputError, StorageError, SubmissionError
from inferbench_tasks.provider.submit import quota
from inferbench_tasks.provider.submit.quota import QuotaError, check_quota
from inferbench_tasks.provider.submit.request import SubmissionRequest, resolve
from inferbench_tasks.provider.submit.shelf import PREFIX, SHOWN, Shelf

pytestmark = pytest.mark.airflow
TEXT = "name: quick\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 10}}\n"


@pytest.fixture(scope="module", autouse=True)
def _airflow() -> None:
    """Airflow makes its folder of logs where it is first imported: that is no input's doing."""
    import inferbench_tasks.provider.submit.dag  # noqa: F401


def disk(monkeypatch: pytest.MonkeyPatch, free_percent: int) -> None:
    """The data directory's file system has so much room; a tenth of it is root's."""
    sizes = SimpleNamespace(
        f_blocks=1100, f_bfree=100 + 10 * free_percent, f_bavail=10 * free_percent, f_frsize=4096
    )
    monkeypatch.setattr(os, "statvfs", lambda path: sizes)


def test_nothing_new_starts_on_a_disk_that_is_nearly_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 95% a run is refused with what is full and what helps, and leaves nothing behind; at 94% it is not."""
    monkeypatch.setenv(settings.DATA_DIR, str(tmp_path / "data"))
    file = tmp_path / "quick.yaml"
    file.write_text(TEXT)
    disk(monkeypatch, 6)
    assert settings.disk_full(tmp_path) is None
    disk(monkeypatch, 5)
    result = CliRunner().invoke(app, ["run", str(file)])
    assert isinstance(result.exception, StorageError) or result.exit_code != 0
    with pytest.raises(StorageError, match=rf"95% full.*nothing new starts.*{settings.MAX_DISK_PERCENT}"):
        settings.refuse_full(tmp_path)
    assert not (tmp_path / "data" / "invocations").exists()


@pytest.mark.parametrize("bad", ["0", "101", "-1", "many", "9" * 5000, "\u0665"])
def test_a_bound_of_the_disk_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    """What is no percentage is an InputError that says what is allowed."""
    monkeypatch.setenv(settings.MAX_DISK_PERCENT, bad)
    with pytest.raises(InputError, match="from 1 to 100"):
        settings.disk_full(tmp_path)


def test_a_submission_that_runs_stays_a_dag_whatever_others_submit(tmp_path: Path) -> None:
    """The DAG of a run that has not ended is there after 300 newer submissions; the others' newest too."""
    shelf = Shelf(tmp_path)
    running = shelf.place(resolve(SubmissionRequest(submission=TEXT), tmp_path))
    os.utime(shelf.path(running), (1, 1))
    shelf.keep([running, f"{PREFIX}gone.00000000"])
    for number in range(300):
        path = shelf.path(f"{PREFIX}other.{number:08x}")
        path.write_text("{}")
        os.utime(path, (1000 + number, 1000 + number))
    recent = shelf.recent()
    assert recent[-1] == running and len(recent) == SHOWN + 1
    shelf.keep([])
    assert running not in shelf.recent()


def test_one_submission_hides_no_other(tmp_path: Path) -> None:
    """What is no submission, too large, nested or empty: each an error of its own; the good one is a DAG."""
    from inferbench_tasks.provider.submit.dag import load_submit

    shelf = Shelf(tmp_path)
    good = shelf.place(resolve(SubmissionRequest(submission=TEXT), tmp_path))
    bodies = {
        "deep": "[" * 200_000,
        "large": " " * 9_000_000,
        "empty": "",
        "other": '{"submission": {"kind": "x"}}',
    }
    for name, body in bodies.items():
        shelf.path(f"{PREFIX}{name}.00000000").write_text(body)
    dags = load_submit(tmp_path, tmp_path)
    assert set(dags) == {"submit", good, *(f"broken {PREFIX}{name}.00000000" for name in bodies)}


def test_the_largest_sweep_goes_without_where_there_is_no_time_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has an import error of its own; the DAGs of the smaller ones, and the form, are there."""
    from inferbench_tasks.provider.submit import dag

    shelf = Shelf(tmp_path)
    large = shelf.place(
        resolve(SubmissionRequest(submission=TEXT + "sweep: {load.seed: [1, 2, 3]}\n"), tmp_path)
    )
    good = shelf.place(resolve(SubmissionRequest(submission=TEXT), tmp_path))
    ticks = iter(range(100))
    monkeypatch.setattr(
        "inferbench_tasks.provider.render.time", SimpleNamespace(monotonic=lambda: next(ticks))
    )
    monkeypatch.setattr(dag, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(dag, "_reading_s", lambda: 1.0)
    dags = dag.load_submit(tmp_path, tmp_path)
    assert set(dags) == {"submit", good, f"broken {large}"}
    assert "no time to make the tasks of its 3 jobs" in str(vars(dags[f"broken {large}"]))


def test_models_beside_count_as_jobs(tmp_path: Path) -> None:
    """Ten neighbours make 22 jobs of each point: 1,000 points are refused before they are made."""
    share = {"beside": [{"model": {"kind": "zoo", "name": "digits"}}] * 10}
    document: dict[str, Any] = {
        "name": "many",
        "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}},
        "share": share,
        "sweep": {"load.arrivals.rate_rps": list(range(1, 1001))},
    }
    with pytest.raises(SubmissionError, match=r"22,000 jobs, 22 for each point.*at most 10,000"):
        resolve(SubmissionRequest(submission=document), tmp_path)


@pytest.mark.parametrize(
    ("waiting", "jobs", "submissions", "message"),
    [
        (9_990, 10, 99, None),
        (9_990, 11, 0, "9,990 jobs waiting, and this submission has 11; at most 10,000"),
        (0, 1, 100, "100 submissions that have not ended; at most 100"),
    ],
)
def test_a_login_has_so_much_waiting_and_no_more(
    monkeypatch: pytest.MonkeyPatch, waiting: int, jobs: int, submissions: int, message: str | None
) -> None:
    """The next submission is refused with the counts and the remedy; an admin's is not."""
    monkeypatch.setattr(quota, "Cluster", lambda db: SimpleNamespace(waiting_of=lambda login: waiting))
    monkeypatch.setattr(
        "inferbench_tasks.provider.submit.standing.may_hurry", lambda login: login in (None, "admin")
    )
    monkeypatch.setattr(quota, "room_of", lambda login, db, data_dir: 0)
    nowhere: Any = None
    check_quota("admin", 10**6, nowhere, submissions=10**6)
    if message is None:
        check_quota("ann", jobs, nowhere, submissions=submissions)
        return
    with pytest.raises(QuotaError, match=message):
        check_quota("ann", jobs, nowhere, submissions=submissions)
