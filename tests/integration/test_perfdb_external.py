"""Any MongoDB by its URI: used or refused, never replaced by another."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymongo.errors import PyMongoError

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import InputError, LeaseLostError, PerfDBError
from inferbench_tasks.perfdb import clients, launch, mongod, replicaset
from inferbench_tasks.perfdb.held import held
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.fence import Fence
from tests.unit.perfdb.builders import result

pytestmark = pytest.mark.integration


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start a standalone mongod with those options; its address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> str:
        folder = tmp_path / f"standalone-{len(started)}"
        folder.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [str(mongod.find()), "--dbpath", str(folder), "--port", str(port), "--bind_ip", "127.0.0.1"]
        command += ["--nounixsocket", "--wiredTigerCacheSizeGB", "0.25", *options]
        command += ["--wiredTigerEngineConfigString", launch.STORAGE]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        started.append(process)
        deadline = time.monotonic() + 60
        while not _answers(port):
            assert process.poll() is None
            assert time.monotonic() < deadline
        return f"127.0.0.1:{port}"

    yield start
    for process in started:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    with replicaset.direct(port, 1.0) as client:
        try:
            client.admin.command("hello")
        except PyMongoError:
            return False
    return True


def test_a_standalone_is_refused_unless_it_waits_for_the_journal(
    standalone: Callable[..., str], data_dir: Path
) -> None:
    """A server that would lose acknowledged writes is refused with the remedy, which then works."""
    address = standalone()
    with pytest.raises(PerfDBError, match=r"standalone.*--replSet.*or add journal=true"):
        PerfDB.connect(f"mongodb://{address}", data_dir)
    with PerfDB.connect(f"mongodb://{address}/mine?journal=true", data_dir) as db:
        assert db.save_result(result())
        assert db.get_result("run-1").valid
        concern = db._session.database().write_concern.document
        assert (concern["j"], db.server()["database"]) == (True, "mine")


def test_a_standalone_s_results_are_all_asked_about(standalone: Callable[..., str], data_dir: Path) -> None:
    """It tells of no changes: what was written since is in the next answer all the same."""
    with PerfDB.connect(f"mongodb://{standalone()}/mine?journal=true", data_dir) as db:
        seen = []
        for name in ("a", "b"):
            db.save_result(result(name))
            seen.append(len(held(db).rows()))
    assert seen == [1, 2]


def test_a_standalone_s_results_are_written_under_a_lease(
    standalone: Callable[..., str], data_dir: Path
) -> None:
    """It has no transactions: the lease is claimed immediately before. Who lost it stores nothing, no file either."""
    with PerfDB.connect(f"mongodb://{standalone()}/mine?journal=true", data_dir) as db:
        cluster = Cluster(db)
        cluster.register(Device(device_id="a", device_type="cpu", name="a CPU", host="h", cores=(0,)))
        lease = cluster.grant("a", "job", spec={}, run_id="", now_s=0.0, est_end_s=1.0)
        assert lease is not None
        held_lease = Fence("a", "job").enter(db).lease
        assert db.save_result(result("kept"), lease=held_lease)
        assert cluster.release("a", lease.token, "lost")
        with pytest.raises(LeaseLostError, match="does not hold a any more"):
            db.save_result(result("lost"), Path(__file__), held_lease)
        assert [one.run_id for one in db.find_results()] == ["kept"] and db.sizes()["files"] == 0


def test_a_wrong_password_is_named_and_not_shown(standalone: Callable[..., str], data_dir: Path) -> None:
    """A refused login says so; the password is nowhere in the message."""
    address = standalone("--auth")
    with pytest.raises(PerfDBError, match=r"mongodb://\*\*\*@127.0.0.1.*refuses the login") as caught:
        PerfDB.connect(f"mongodb://me:sEcret@{address}/", data_dir)
    assert "sEcret" not in str(caught.value)
    with pytest.raises(PerfDBError, match="refuses the login"):
        PerfDB.connect(f"mongodb://{address}/?journal=true", data_dir)


def test_an_unreachable_server_is_an_error_in_bounded_time(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is used in its place: no embedded server appears."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        uri = f"mongodb://me:sEcret@127.0.0.1:{probe.getsockname()[1]}/?serverSelectionTimeoutMS=300"
    for given, in_environment in ((uri, None), (None, uri)):
        if in_environment:
            monkeypatch.setenv("INFERBENCH_PERFDB_URI", in_environment)
        with pytest.raises(PerfDBError, match=r"mongodb://\*\*\*@127.0.0.1:\d+/.*can't be reached") as caught:
            PerfDB.connect(given, data_dir)
        assert "sEcret" not in str(caught.value)
    assert not (data_dir / "perfdb").exists()
    clients.forget(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "http://x",
        "mongodb://me:p@ss/w:sEcret@h",
        "mongodb://",
        "mongodb://h:port",
        "mongodb://h/?w=x&replicaSet",
    ],
)
def test_a_text_that_is_no_uri(uri: str, data_dir: Path) -> None:
    """A malformed URI is the user's error (exit code 2), without its password."""
    with pytest.raises(InputError, match="can't be used") as caught:
        PerfDB.connect(uri, data_dir)
    assert "sEcret" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_an_external_server_that_goes_away(
    standalone: Callable[..., str], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When patience ends, the error names the server; no embedded one takes over."""
    from inferbench_tasks.perfdb import session

    uri = f"mongodb://{standalone()}/?journal=true&serverSelectionTimeoutMS=200"
    db = PerfDB.connect(uri, data_dir)
    with replicaset.direct(int(uri.split(":")[2].split("/")[0]), 5.0) as client:
        with pytest.raises(PyMongoError):
            client.admin.command("shutdown", force=True)
    with pytest.raises(PerfDBError, match="can't be reached"):
        db._session.retrying(lambda: db._session.database()["results"].find_one({}), "reading", 0.5)
    assert session.PATIENCE_S >= 30
    assert not (data_dir / "perfdb").exists()
    db.close()
