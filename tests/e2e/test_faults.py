"""What goes wrong on users' machines, and how a run ends then."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.conftest import ONLY_NOTED, QUICK, Cli
from tests.warm import warm

pytestmark = pytest.mark.integration
STAGES = ["generate", "convert", "serve", "load", "collect"]
LONG = ("convert", "serve", "collect")
#: Of a run that goes on to its end.
SHORT = QUICK.replace("duration_s: 3", "duration_s: 1").replace("warmup_s: 1", "warmup_s: 0.3")


def measured(result: dict[str, Any]) -> bool:
    """Whether a run has figures; on a machine that others disturb they may honestly be called invalid.

    A latency that the sender made is withheld there, a throughput never.
    """
    word = result["verdict"].split(":")[0]
    return word in ("valid", "disturbed", "invalid") and bool(result["throughput_rps"])


def before(stage: str, cli: Cli, factory: pytest.TempPathFactory) -> None:
    """Leave in the data directory what is done before a stage, so that this is the first one with work."""
    if stage != "generate":
        warm(cli.data_dir, factory)
    if stage == "convert":
        shutil.rmtree(cli.data_dir / "cache" / "conversions")


def stop_at(cli: Cli, stage: str, number: signal.Signals, *options: str) -> tuple[int, str]:
    child = cli.start("run", cli.submission(), *options)
    cli.wait_for(stage)
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    return child.returncode, out + err


@pytest.mark.parametrize(
    "stage", [pytest.param(of, marks=pytest.mark.long) if of in LONG else of for of in STAGES]
)
def test_ctrl_c_leaves_nothing_running(
    cli: Cli, stage: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Ctrl-C in any stage ends the server and everything else; the run is recorded as cancelled."""
    before(stage, cli, tmp_path_factory)
    code, text = stop_at(cli, stage, signal.SIGINT, "--inline")
    assert code == 130, text
    assert "Traceback" not in text
    assert cli.left_over() == []
    verdicts = [r["verdict"] for r in cli.results()]
    # A stage that ends within the signal's way has ended: then the next one is the cancelled one.
    assert len(verdicts) == 1
    assert verdicts[0].startswith("cancelled: ") or (
        stage == "collect" and ("valid" in verdicts[0] or verdicts[0] == ONLY_NOTED)
    )


@pytest.mark.airflow
def test_sigterm_through_airflow_leaves_nothing_running(warm_cli: Cli) -> None:
    """SIGTERM during the load of a real DAG ends the server, and the run is recorded as cancelled."""
    code, text = stop_at(warm_cli, "load", signal.SIGTERM)
    assert code == 143, text
    assert warm_cli.left_over() == []
    assert [r["verdict"].split(",")[0] for r in warm_cli.results()] == ["cancelled: load"]


def test_a_killed_run_is_settled_by_its_parent(warm_cli: Cli) -> None:
    """kill -9 of the process that runs the stages: the server is ended and the run recorded as failed."""
    child = warm_cli.start("run", warm_cli.submission(), "--inline")
    warm_cli.wait_for("load")
    worker = next(p for p in psutil.Process(child.pid).children() if "inline" in " ".join(p.cmdline()))
    worker.kill()
    out, err = child.communicate(timeout=60)
    assert child.returncode == 1, out + err
    assert warm_cli.left_over() == []
    assert [r["verdict"].split(",")[0] for r in warm_cli.results()] == ["failed: load"]


@pytest.mark.parametrize("stage", [pytest.param("convert", marks=pytest.mark.long), "load"])
def test_mongod_killed_during_a_stage(cli: Cli, stage: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """kill -9 of PerfDB's server in the middle of a stage: it is started again and nothing is lost."""
    before(stage, cli, tmp_path_factory)
    child = cli.start("run", cli.submission(), "--inline")
    cli.wait_for(stage)
    os.kill(cli.told("perfdb", "status")["pid"], signal.SIGKILL)
    out, err = child.communicate(timeout=120)
    assert [measured(r) for r in cli.results()] == [True], out + err
    (result,) = cli.results()
    assert cli.told("results", "show", result["run"])["run_id"] == result["run"]


def test_two_runs_at_once_take_turns(warm_cli: Cli) -> None:
    """Two runs at once don't measure each other: the second, which would begin amid the first, waits until it ended."""
    first = warm_cli.start(
        "run", warm_cli.submission(QUICK.replace("duration_s: 3", "duration_s: 8")), "--inline"
    )
    warm_cli.wait_for("generate")
    second = warm_cli.start(
        "run", warm_cli.submission(SHORT.replace("quick", "other"), "other.yaml"), "--inline"
    )
    for child in (first, second):
        child.communicate(timeout=120)
    results = {r["submission"]: r for r in warm_cli.results()}
    assert all(measured(r) for r in results.values()), results
    assert set(results) == {"quick", "other"}
    windows = []
    for result in results.values():
        load = json.loads((warm_cli.data_dir / "runs" / result["run"] / "load.json").read_text())
        windows.append((load["measure_start_ns"], load["measure_end_ns"]))
    (_, first_end), (second_start, _) = sorted(windows)
    assert first_end < second_start


@pytest.mark.parametrize("content", [None, b"\x08\x07not a model"])
def test_a_missing_or_corrupt_model_file(cli: Cli, content: bytes | None) -> None:
    """A model file that is missing or no model ends the run with the file's name, without a traceback."""
    if content is not None:
        (cli.folder / "m.onnx").write_bytes(content)
    text = QUICK.replace("{kind: zoo, name: digits}", "{kind: file, path: m.onnx}")
    done = cli.run("run", "--inline", cli.submission(text))
    assert done.returncode == 2
    assert "m.onnx" in done.stderr
    assert "Traceback" not in done.stderr
    assert cli.left_over() == []


def test_a_data_directory_that_can_not_be_written(cli: Cli) -> None:
    """A data directory below a file: exit code 1 and what to do about it."""
    cli.data_dir.write_text("a file")
    done = cli.run("run", "--inline", cli.submission())
    assert done.returncode == 1
    assert "can't be written" in done.stderr and "--data-dir" in done.stderr
    assert "Traceback" not in done.stderr
    cli.data_dir.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="changing the user takes root")
def test_a_second_user_is_told_whose_directory_it_is(cli: Cli) -> None:
    """Another user of the machine can't use this data directory, and is told to take one of their own."""
    cli.data_dir.mkdir(mode=0o700)
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    cli.folder.chmod(0o755)
    for parent in cli.folder.parents:
        if parent.owner() == "root" and str(parent).startswith(("/tmp/pytest", str(cli.folder.parents[1]))):
            parent.chmod(0o755)
    child = cli.start("run", "--inline", cli.submission(), prefix=as_nobody)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 1, out + err
    assert "INFERBENCH_DATA_DIR" in err
    assert "Traceback" not in err


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of 600 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    return folder


def test_no_space_left(cli: Cli, small_disk: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A full disk: the run fails with a message that says so, and leaves nothing running."""
    try:
        cli.data_dir = small_disk / "data"
        warm(cli.data_dir, tmp_path_factory)
        first = cli.run("run", "--inline", cli.submission(SHORT))
        assert [measured(r) for r in cli.results()] == [True], first.stderr
        free = shutil.disk_usage(small_disk).free
        (small_disk / "filler").write_bytes(b"\0" * (free - 64 * 1024))
        done = cli.run("run", "--inline", cli.submission(SHORT))
        assert done.returncode == 1
        assert "space" in done.stderr.lower(), done.stderr
        assert "Traceback" not in done.stderr
        assert cli.left_over() == []
        (small_disk / "filler").unlink()
        assert any(measured(r) for r in cli.results()), "what was measured before is still there"
        cli.run("perfdb", "stop")
    finally:
        subprocess.run(["umount", "--lazy", str(small_disk)], check=True)
