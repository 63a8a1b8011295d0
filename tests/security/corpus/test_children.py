"""Code that a user brings with weights, on the real way of a stage: what it can reach of the machine."""

import os
import socket
from pathlib import Path

import pytest

from inferbench_tasks import sandbox
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.running.child import run_in_child
from inferbench_tasks.sandbox import landlock, limits
from inferbench_tasks.sandbox.setting import missing
from inferbench_tasks.stages import generate
from inferbench_tasks.stages.base import Context
from tests.security.bounds import Limits


@pytest.fixture(name="limits")
def _limits() -> Limits:
    """Each test starts a whole stage, whose process imports PyTorch: the sandbox's own limits are what is tested."""
    return Limits(cpu_s=60, mib=1500)


MODULE = """
import os, signal, socket, sys, tempfile
from pathlib import Path
import torch

ALIVE = {pid}
CANARY, HOME = Path({canary!r}), Path({home!r})

def attempt(name, act):
    try:
        act()
        print(name, "DONE", file=sys.stderr)
    except OSError as error:
        print(name, type(error).__name__, file=sys.stderr)

def build():
    attempt("create", lambda: (CANARY.parent / "new").write_text("x"))
    attempt("overwrite", lambda: CANARY.write_text("x"))
    attempt("truncate", lambda: os.truncate(CANARY, 0))
    attempt("remove", CANARY.unlink)
    attempt("submission", lambda: (CANARY.parent / "base" / "net.py").write_text("x"))
    attempt("other-run", lambda: (CANARY.parent / "data" / "runs" / "other" / "x").write_text("x"))
    attempt("others-model", lambda: (CANARY.parent / "data" / "cache" / "models" / "x").write_text("x"))
    attempt("others-conversion", lambda: (CANARY.parent / "data" / "cache" / "foreign" / "other" / "x").write_text("x"))
    attempt("read-others-model", (CANARY.parent / "data" / "cache" / "foreign" / "other" / "model").read_text)
    attempt("system", lambda: (CANARY.parent / "data" / "system" / "x").write_text("x"))
    attempt("environment", lambda: (Path(sys.prefix) / "inferbench-canary").write_text("x"))
    attempt("home", lambda: (HOME / ".inferbench-canary").write_text("x"))
    attempt("signal", lambda: os.kill(ALIVE, 0))
    attempt("read-canary", CANARY.read_text)
    attempt("read-submission", (CANARY.parent / "base" / "secret.txt").read_text)
    attempt("read-other-run", (CANARY.parent / "data" / "runs" / "other" / "requests").read_text)
    attempt("read-database-key", (CANARY.parent / "data" / "perfdb" / "key").read_text)
    attempt("read-logins", (CANARY.parent / "data" / "system" / "passwords").read_text)
    attempt("list-home", lambda: os.listdir(HOME))
    attempt("read-parent", lambda: open(f"/proc/{{ALIVE}}/environ").read())
    attempt("link-out", lambda: os.link(CANARY, "linked"))
    attempt("connect", lambda: socket.create_connection(("127.0.0.1", {port}), 5))
    attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)))
    attempt("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    attempt("local", lambda: socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock"))
    attempt("shell", lambda: os.system(f"touch {{CANARY.parent}}/by-shell"))
    print("own", tempfile.mkdtemp() and "DONE", file=sys.stderr)
    print("sees", sorted(os.environ.values()), file=sys.stderr)
    return torch.nn.Linear(4, 2)
"""
SECRETS = {
    "AIRFLOW__API_AUTH__JWT_SECRET": "canary-jwt", "AIRFLOW__CORE__FERNET_KEY": "canary-fernet",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "canary-sql", "AIRFLOW__CELERY__BROKER_URL": "canary-broker",
    "MONGO_INITDB_ROOT_PASSWORD": "canary-mongo", "INFERBENCH_PERFDB_URI": "mongodb://127.0.0.1:9/canary-uri",
    "INFERBENCH_BROKER_URL": "redis://:canary-broker@127.0.0.1/0", "UV_INDEX_TEAM_PASSWORD": "canary-index",
    "PIP_EXTRA_INDEX_URL": "https://user:canary-index@127.0.0.1/simple",
}  # fmt: skip
DENIED = (
    "create",
    "overwrite",
    "truncate",
    "remove",
    "submission",
    "other-run",
    "others-model",
    "others-conversion",
    "read-others-model",
    "system",
    "environment",
    "home",
    "signal",
    "read-canary",
    "read-submission",
    "read-other-run",
    "read-database-key",
    "read-logins",
    "list-home",
    "read-parent",
    "connect",
    "listen",
    "datagram",
    "local",
)


@pytest.mark.skipif(bool(missing()), reason="this kernel lacks a part of the sandbox")
def test_a_users_code_uses_its_run_alone_and_sees_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can't read or touch the submission, other runs, secrets, InferBench's environment or processes, has no
    network, and the stage's work is done.
    """
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    base, data, canary = tmp_path / "base", tmp_path / "data", tmp_path / "canary"
    secrets = (base / "secret.txt", data / "runs" / "other" / "requests", data / "perfdb" / "key")
    others = (data / "cache" / "models" / "model", data / "cache" / "foreign" / "other" / "model")
    for path in (canary, *secrets, data / "system" / "passwords", *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("kept")
    listener = socket.create_server(("127.0.0.1", 0))  # PerfDB's port, or another's
    module = MODULE.format(
        pid=os.getpid(), canary=str(canary), home=str(Path.home()), port=listener.getsockname()[1]
    )
    (base / "net.py").write_text(module)
    save_file(torch.nn.Linear(4, 2).state_dict(), base / "w.safetensors")
    (base / "w.safetensors.signature.json").write_text(
        '{"inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],'
        ' "outputs": [{"name": "y", "dtype": "float32", "shape": [2]}]}'
    )
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    job = {
        "name": "t",
        "model": {"kind": "file", "path": "w.safetensors", "module": "net.py"},
        "requests": {"samples": 8},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}, "seed": 1},
    }
    inp = generate.Input.model_validate({"run_id": "r", "job_id": "j", "job": job})
    with listener:
        output = run_in_child(generate, inp, Context(data_dir=data, base_dir=base))
    log = (data / "runs" / "r" / "generate.log").read_text()
    assert output.model.digest and Path(output.model.path).is_relative_to(data / "cache" / "foreign")
    assert "own DONE" in log and "link-out DONE" not in log
    assert [name for name in DENIED if f"{name} PermissionError" not in log] == []
    assert "sees [" in log and "canary-" not in log.partition("sees [")[2].partition("]")[0]
    assert canary.read_text() == "kept" and sorted(p.name for p in tmp_path.iterdir()) == [
        "base",
        "canary",
        "data",
    ]


def test_where_the_sandbox_is_required_nothing_runs_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal comes before a process is started."""
    monkeypatch.setattr(landlock, "landlock_abi", lambda: 0)
    monkeypatch.setenv(sandbox.SANDBOX, "require")
    job = {
        "name": "t",
        "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}},
    }
    inp = generate.Input.model_validate({"run_id": "r", "job_id": "j", "job": job})
    with pytest.raises(InputError, match="no Landlock"):
        run_in_child(generate, inp, Context(data_dir=tmp_path, base_dir=tmp_path))


def test_a_module_that_takes_all_memory_or_never_ends_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage fails with the reason, and no process is left."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    base = tmp_path / "base"
    base.mkdir()
    save_file(torch.nn.Linear(4, 2).state_dict(), base / "w.safetensors")
    (base / "w.safetensors.signature.json").write_text(
        '{"inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],'
        ' "outputs": [{"name": "y", "dtype": "float32", "shape": [2]}]}'
    )
    job = {
        "name": "t",
        "model": {"kind": "file", "path": "w.safetensors", "module": "net.py"},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}},
    }
    (base / "net.py").write_text("import time\ntime.sleep(600)\n")
    inp = generate.Input.model_validate({"run_id": "r", "job_id": "j", "job": job})
    context = Context(data_dir=tmp_path / "data", base_dir=base)
    monkeypatch.setenv(limits.TIME, str(8 / 3600))
    with pytest.raises(StageError, match="took longer than"):
        run_in_child(generate, inp, context)
    monkeypatch.delenv(limits.TIME)
    monkeypatch.setenv(limits.MEMORY, "0.5")  # less than an interpreter with PyTorch has
    with pytest.raises(StageError, match="MiB of memory; allowed are"):
        run_in_child(generate, inp, context)


#: A module that leaves something in its run's folder where later stages open files by their names.
LEAVES = """
import os
import torch

def build():
    {leaves}
    return torch.nn.Linear(4, 2)
"""


@pytest.mark.parametrize("what", ["pipe", "link"])
def test_nothing_that_a_module_leaves_leads_who_writes_after_it_elsewhere(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe in the place of the next stage's log, which Landlock allows; a link, where the kernel has none: the stage
    fails and names it, it is removed, and the file that it leads to stays as it is."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    base, canary = tmp_path / "base", tmp_path / "canary"
    base.mkdir()
    canary.write_text("kept")
    context = Context(data_dir=tmp_path / "data", base_dir=base)
    left = context.run_dir("r") / "convert.log"
    if what == "link":
        monkeypatch.setenv(sandbox.SANDBOX, "off")  # as without Landlock
    leaves = {"pipe": f"os.mkfifo({str(left)!r})", "link": f"os.symlink({str(canary)!r}, {str(left)!r})"}
    (base / "net.py").write_text(LEAVES.format(leaves=f"os.path.lexists({str(left)!r}) or {leaves[what]}"))
    save_file(torch.nn.Linear(4, 2).state_dict(), base / "w.safetensors")
    (base / "w.safetensors.signature.json").write_text(
        '{"inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],'
        ' "outputs": [{"name": "y", "dtype": "float32", "shape": [2]}]}'
    )
    job = {
        "name": "t",
        "model": {"kind": "file", "path": "w.safetensors", "module": "net.py"},
        "requests": {"samples": 8},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}},
    }
    inp = generate.Input.model_validate({"run_id": "r", "job_id": "j", "job": job})
    with pytest.raises(StageError, match=f"left what is no plain file .*a {what}.* at {left}"):
        run_in_child(generate, inp, context)
    assert not os.path.lexists(left) and canary.read_text() == "kept"
