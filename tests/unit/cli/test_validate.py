"""``inferbench validate``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks.cli.main import main
from inferbench_tasks.cli.validate import submissions
from inferbench_tasks.errors import InputError

BAD = Path(__file__).parents[2] / "submissions" / "bad"
GOOD = """\
name: good
model: {kind: zoo, name: digits}
load:
  arrivals: {kind: poisson, rate_rps: 200}
"""


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["validate", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD + "sweep:\n  load.batch_size: [1, 8]\n")
    return path


def test_a_good_file_is_named_with_its_jobs(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, exit code 0, nothing on stderr."""
    assert run(str(good)) == 0
    assert capsys.readouterr() == (f"{good}: ok: good, 2 jobs\n", "")


def test_all_problems_of_all_files_come_at_once(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Problems on stderr, the good file on stdout, exit code 2."""
    bad = [BAD / "unknown-kinds.yaml", BAD / "path-traversal.yaml"]
    assert run(str(bad[0]), str(good), str(bad[1]), str(good.parent / "none.yaml")) == 2
    out, err = capsys.readouterr()
    assert out == f"{good}: ok: good, 2 jobs\n"
    assert [line.split(": ")[0] for line in err.splitlines()] == [
        f"{bad[0]}:2", f"{bad[0]}:4", f"{bad[1]}:2", f"{bad[1]}:3", str(good.parent / "none.yaml"),
    ]  # fmt: skip


def test_what_this_machine_has_too_little_of_is_a_warning(
    tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no device is registered: elsewhere it may run, here `run` refuses it."""
    path = tmp_path / "many.yaml"
    path.write_text(
        "kind: training\nname: many\ndata: {kind: dummy, samples: 64}\n"
        "train: {batch_size: 1, max_steps: 1}\ndevices: {count: 64, strategy: ddp}\n"
    )
    assert len(os.sched_getaffinity(0)) < 64
    assert run(str(path)) == 0
    _, err = capsys.readouterr()
    assert ": devices.count: needs 64 devices with a core each; " in err and "`inferbench run` refuses" in err


@pytest.mark.parametrize(
    ("block", "field", "words"),
    [
        (
            "serve: {devices: 3, spread: own_hosts}\n",
            "serve.spread",
            "replica, replica_2 on other hosts needs",
        ),
        ("serve: {devices: [2, 3], spread: own_hosts}\n", "serve.spread", "replica on another host needs"),
        (
            "  from: other_host\n",
            "load.from",
            "load on another host needs a system with workers of two hosts",
        ),
    ],
)
def test_what_one_host_can_not_run_is_said_without_workers(
    block: str, field: str, words: str, tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replicas on hosts of their own and a load from another host: `run` refuses them, and `validate` and `plan` say so
    with what they take, of each need once; exit code 0, for a system with such hosts runs them.
    """
    path = tmp_path / "apart.yaml"
    sweep = "sweep:\n  serve.devices: [2, 3]\n" if "[2, 3]" in block else ""
    path.write_text(GOOD + block.replace("[2, 3]", "2") + sweep)
    told = f": {field}: {words}"
    for command in ("validate", "plan"):
        with pytest.raises(SystemExit) as ended:
            main([command, str(path)])
        err = " ".join(capsys.readouterr().err.split())
        assert ended.value.code == 0 and err.count(told) == 1, err
        assert "`inferbench worker --join` there" in err and "`inferbench submit` in place of `run`" in err
        assert err.count("needs a system with workers of") == (2 if sweep else 1)
    with pytest.raises(SystemExit) as refused:
        main(["run", "--inline", str(path)])
    assert refused.value.code == 2 and told in " ".join(capsys.readouterr().err.split())
    assert not list(data_dir.glob("invocations/*"))


def test_systems_are_checked_by_their_form_where_no_worker_is(
    tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so, and gives no digest of what is not decided; a wrong form is refused all the same."""
    path = tmp_path / "somewhere.yaml"
    path.write_text(f'{GOOD}systems: {{cores: ">=2", all: true}}\n')
    assert run(str(path)) == 0
    assert "warning: systems: its form alone was checked, for no worker" in capsys.readouterr().err
    assert run(str(path), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)[0]["digest"] is None
    path.write_text(f"{GOOD}systems: {{cores: some}}\n")
    assert run(str(path)) == 2
    assert ": systems.cores: must be a number" in capsys.readouterr().err


def test_json_has_every_file_and_problem(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For programs: file, line, field, message; the same exit code, nothing on stderr."""
    bad = BAD / "unknown-backend.yaml"
    assert run(str(good), str(bad), "-o", "json") == 2
    out, err = capsys.readouterr()
    assert err == ""
    first, second = json.loads(out)
    assert (first["ok"], first["name"], first["jobs"], len(first["digest"])) == (True, "good", 2, 64)
    assert (second["ok"], second["file"]) == (False, str(bad))
    (problem,) = second["problems"]
    assert (problem["file"], problem["line"], problem["field"]) == (str(bad), 3, "serve.backend")
    assert problem["message"].startswith("unknown serving backend 'vlm'; did you mean 'vllm'? known: ")


def test_an_objective_that_can_not_be_judged_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A percentile below its floor of samples will be missing, so its bound says nothing; exit code 0."""
    path = tmp_path / "few.yaml"
    path.write_text(GOOD.replace("rate_rps: 200", "rate_rps: 20") + "slo: {p95_ms: 5, p99_ms: 9}\n")
    assert run(str(path)) == 0
    _, err = capsys.readouterr()
    assert "about 200 requests are too few to judge slo.p99_ms (9), which needs 662" in err
    assert "p95_ms" not in err


def test_no_bad_submission_brings_a_traceback() -> None:
    """All of them in one real call: exit code 2, at least a message for each, no traceback."""
    files = sorted(BAD.glob("*.yaml"))
    done = subprocess.run(
        [sys.executable, "-m", "inferbench_tasks.cli.main", "validate", *map(str, files)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    for file in files:
        assert any(line.startswith((f"{file}:", f"{file}: ")) for line in lines), file


@pytest.mark.parametrize("arguments", [[], ["--nonsense"], ["-o", "xml", "x.yaml"]])
def test_a_wrong_call_is_bad_input(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and a word on how to call it."""
    assert run(*arguments) == 2
    assert capsys.readouterr().err


def test_a_folder_is_all_submissions_below_it(tmp_path: Path) -> None:
    """Sub-folders too; a folder without any is an error and not a silent success."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for name in ("z.yaml", "a/b/y.yml", "a/notes.txt"):
        (tmp_path / name).write_text("")
    found = [path.relative_to(tmp_path).as_posix() for path in submissions(tmp_path)]
    assert found == ["a/b/y.yml", "z.yaml"]
    with pytest.raises(InputError, match="has no submission in it"):
        submissions(tmp_path / "empty")
