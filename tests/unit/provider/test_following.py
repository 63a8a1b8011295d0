"""A run that is watched, look by look."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.perfdb.documents import RunDocument, utc_now
from inferbench_tasks.provider.ui.following import LOG_BYTES, Watch, log_end

SAID = (
    "measuring: 100 requests/s, 1 in flight, 0 errors, p50 2.00 ms, p99 4.00 ms in the last 5 s, "
    "sent late by {} ms (p99)"
)


def record(status: str = "running", **stage: Any) -> RunDocument:
    stages = [{"stage": "load", "state": "running", "started_at": utc_now(), **stage}]
    return RunDocument.model_validate(
        {
            "run_id": "x-1.000", "invocation_id": "x-1", "job_id": "j", "job": {}, "status": status, "stages": stages,
            "submission": {"name": "x", "user": "ann", "digest": "ab" * 32}, "started_at": utc_now(),
            "updated_at": utc_now(),
        }
    )  # fmt: skip


class Runs:
    """A store of one run that counts how often it is asked."""

    def __init__(self, document: RunDocument) -> None:
        self.document, self.asked = document, 0

    def find_runs(self, query: dict[str, Any]) -> list[RunDocument]:
        self.asked += 1
        return [self.document]

    def collection(self, name: str) -> SimpleNamespace:
        """Of what other hosts tell: nothing."""
        return SimpleNamespace(find_one=lambda query: None)


def told(folder: Path, **event: Any) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps({"t": 10.0, "job": 0, "stage": "load", **event}) + "\n")


def test_only_what_is_new_is_said(data_dir: Path) -> None:
    """The page's part again only where it differs; the store is asked where a stage begins or ends; the end is told."""
    folder = data_dir / "invocations" / "x-1"
    folder.mkdir(parents=True)
    runs = Runs(record())
    watch = Watch(runs, runs.document, logs=True)  # type: ignore[arg-type]
    told(folder, event="start")
    told(folder, event="progress", done=1.0, total=None, text=SAID.format("0.50"))
    ((name, html),) = watch.news()
    assert name == "now" and "100 requests/s" in html and "left more than 0.5 ms late" in html
    assert 'class="good">1% of the requests' in html and watch.must_ask
    watch.ask()
    assert runs.asked == 1 and not watch.must_ask and not list(watch.news())
    told(folder, event="progress", done=2.0, total=None, text=SAID.format("12.00"))
    told(folder, event="progress", done=2.0, total=None, text="of another job", job=1)
    ((_, html),) = watch.news()
    assert 'class="bad">1% of the requests left more than 12 ms late' in html and "another" not in html
    (data_dir / "runs" / "x-1.000").mkdir(parents=True)
    (data_dir / "runs" / "x-1.000" / "convert.log").write_text("one\ntwo\n")
    assert list(watch.news()) == [("log", {"name": "convert.log", "text": "one\ntwo\n"})]
    told(folder, event="end", state="done")
    list(watch.news())
    assert watch.must_ask
    runs.document = record("done", state="done")
    watch.ask()
    assert list(watch.news()) == [("end", "done")]


def test_a_line_is_read_once_whenever_it_was_written(data_dir: Path) -> None:
    """Half a line is kept until its end has come."""
    folder = data_dir / "invocations" / "x-1"
    folder.mkdir(parents=True)
    watch = Watch(SimpleNamespace(), record(), logs=False)  # type: ignore[arg-type]
    line = json.dumps(
        {"t": 10.0, "job": 0, "stage": "load", "event": "progress", "done": 1, "total": 4, "text": "half"}
    )
    (folder / "events.jsonl").write_text(line[:30])
    ((_, before),) = watch.news()
    with (folder / "events.jsonl").open("a") as file:
        file.write(line[30:] + "\n")
    ((_, after),) = watch.news()
    assert "half" not in before and "half" in after and "25%" in after


def test_a_log_is_a_plain_file_of_the_run(tmp_path: Path) -> None:
    """The one written to last, its end in whole lines, as text; a link, a pipe or a linked folder is none."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "passwords.log").write_text("secret")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "evil.log").symlink_to(secret / "passwords.log")
    (folder / "server").symlink_to(secret)
    os.mkfifo(folder / "pipe.log")
    assert log_end(folder) is None
    (folder / "server").unlink()
    (folder / "server").mkdir()
    (folder / "convert.log").write_text("old")
    os.utime(folder / "convert.log", (1, 1))
    (folder / "server" / "server.log").write_text("x" * LOG_BYTES + "\nlast\x1b[31m\x00 line\n")
    assert log_end(folder) == {"name": "server/server.log", "text": "last[31m line\n"}
    assert log_end(tmp_path / "none") is None


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INFERBENCH_DATA_DIR", str(tmp_path))
    return tmp_path
