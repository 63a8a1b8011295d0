"""Artifacts between two data directories with a real PerfDB: fetched once, whole, and never lost."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.located import CARRIER, references
from inferbench_tasks.contracts.located_files import LocatedFiles
from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.perfdb import clients
from inferbench_tasks.perfdb.address import with_database
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, open_store
from inferbench_tasks.stores.depot import Depot
from inferbench_tasks.stores.fetch import Fetch
from inferbench_tasks.stores.holdings import FETCHED, Holdings
from inferbench_tasks.stores.ledger import COLLECTION, Ledger
from inferbench_tasks.stores.limit import CACHE_BYTES
from inferbench_tasks.stores.put import put, put_wanted
from tests.artifact_homes import WEIGHTS, content, digest_of, entry, run_told_of, sent

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def shared_uri(perfdb_server: str) -> Iterator[str]:
    """One database for all tests here: making one takes longer than any of them."""
    uri = with_database(perfdb_server, f"inferbench_test_{uuid.uuid4().hex[:12]}")
    yield uri
    clients.client(uri).drop_database(uri.rpartition("/")[2].partition("?")[0])
    clients.forget(uri)


@pytest.fixture
def perfdb(shared_uri: str, tmp_path: Path) -> PerfDB:
    """It, with nothing of the tests before."""
    db = PerfDB.connect(shared_uri, tmp_path)
    for name in (COLLECTION, f"{COLLECTION}.files", f"{COLLECTION}.chunks", "runs", "devices"):
        db.collection(name).delete_many({})
    return db


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """Two data directories."""
    for name in ("leader", "worker"):
        (tmp_path / name).mkdir()
    return tmp_path / "leader", tmp_path / "worker"


def test_on_one_host_it_is_the_same_file_and_nothing_is_stored(
    perfdb: PerfDB, homes: tuple[Path, Path]
) -> None:
    """A reference made here is the path that it was made of; no store has anything, the ledger knows where it is."""
    leader, _ = homes
    folder = entry(leader)
    depot = Depot(perfdb, leader)
    references = [
        depot.send(str(folder / "model.onnx")),
        depot.send(str(folder)),
        depot.send(str(folder / "parts")),
    ]
    depot.flush()
    again = Depot(perfdb, leader)
    assert [again.receive(each) for each in references] == [
        str(folder / "model.onnx"), str(folder), str(folder / "parts"),
    ]  # fmt: skip
    assert len({digest_of(each) for each in references}) == 1
    assert not list(open_store("gridfs:", perfdb).objects())
    known = Ledger(perfdb).get(digest_of(references[0]))
    assert known is not None and not known.stored and list(known.homes) == [settings.home_id(leader)]


def test_of_a_user_s_folder_the_chosen_files_are_brought_elsewhere_and_read_in_place_at_home(
    perfdb: PerfDB, homes: tuple[Path, Path], tmp_path: Path
) -> None:
    """Two folders with the same files are two places at home, whichever was sent last; another host has the files that
    were chosen, in their order, and no others."""
    leader, worker = homes
    given = []
    for disk in ("fast", "slow"):
        folder = tmp_path / "submissions" / disk
        for name in ("b/2.png", "a/1.png", "a/3.png"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
        listing = leader / "runs" / disk / "files.json"
        listing.parent.mkdir(parents=True)
        listing.write_text(json.dumps(["b/2.png", "a/1.png"]))
        files = LocatedFiles(folder=str(folder), listing=str(listing))
        depot = Depot(perfdb, leader, folders=[tmp_path / "submissions"])
        given.append(files.model_dump(mode="json", context={CARRIER: depot}))
        depot.flush()
    assert given[0]["folder"] == given[1]["folder"] and given[0]["folder"].startswith("artifact:")
    for document, disk in zip(given, ("fast", "slow"), strict=True):
        here = LocatedFiles.model_validate(document, context={CARRIER: Depot(perfdb, leader)})
        assert here.folder == str(tmp_path / "submissions" / disk) and not here.brought
        for digest in references(document):
            put(perfdb, Holdings(leader), digest)
    there = LocatedFiles.model_validate(given[0], context={CARRIER: Depot(perfdb, worker)})
    assert there.brought and [Path(path).read_text() for path in there.paths] == ["b/2.png", "a/1.png"]
    assert all(Path(path).is_relative_to(worker) for path in (*there.paths, there.listing))
    assert not (Path(there.folder) / "a" / "3.png").exists()


def test_no_chosen_file_leads_out_of_its_folder(
    perfdb: PerfDB, homes: tuple[Path, Path], tmp_path: Path
) -> None:
    """Who wrote the listing has opened a stranger's images."""
    leader, _ = homes
    folder = leader / "cache" / "images"
    folder.mkdir(parents=True)
    (leader / "secret").write_text("secret")
    (folder / "link.png").symlink_to(leader / "secret")
    (folder / "pipe.png").mkdir()
    depot = Depot(perfdb, leader)
    for name in ("link.png", "pipe.png", "../../secret", str(leader / "secret")):
        with pytest.raises((StorageError, ValueError)):
            depot.send_files(str(folder), [name])
    assert depot.send_files("/etc", ["passwd"]) == "/etc"


def test_of_runs_only_the_own_one_leaves_and_no_link_leads_out(
    perfdb: PerfDB, homes: tuple[Path, Path]
) -> None:
    """A stranger's code in a stage's child may name another run's files, or a folder that is a link to elsewhere."""
    leader, _ = homes
    own, other = leader / "runs" / "own", leader / "runs" / "other"
    for folder in (own, other):
        folder.mkdir(parents=True)
        (folder / "images.npy").write_text("x")
    (own / "images").symlink_to("/etc/apt")
    depot = Depot(perfdb, leader, run_dir=own)
    assert depot.send(str(own / "images.npy")).startswith("artifact:")
    for path in (str(other), str(other / "images.npy"), str(own / "images"), str(leader / "runs")):
        assert depot.send(path) == path


def test_what_lies_elsewhere_never_leaves(perfdb: PerfDB, homes: tuple[Path, Path], tmp_path: Path) -> None:
    """A stage that names a file outside of caches, runs and the submission sends nothing but the name."""
    leader, _ = homes
    secret = leader / "system" / "secrets.json"
    secret.parent.mkdir()
    secret.write_text("{}")
    depot = Depot(perfdb, leader)
    for path in (
        str(secret),
        "/etc/passwd",
        "relative",
        str(leader / "cache" / ".." / "system" / "secrets.json"),
    ):
        assert depot.send(path) == path
    link = entry(leader)
    (link / "model.onnx").unlink()
    (link / "model.onnx").symlink_to(secret)
    assert depot.send(str(link / "model.onnx")) == str(link / "model.onnx")
    with pytest.raises(StorageError, match="can't be part"):
        depot.send(str(link))


def test_another_host_has_the_same_files(perfdb: PerfDB, homes: tuple[Path, Path]) -> None:
    """Names, contents and modes; fetched once, and used from there on without a store."""
    leader, worker = homes
    folder = entry(leader)
    (folder / "model.onnx").chmod(0o755)
    reference = sent(perfdb, leader, folder)
    path = Path(Depot(perfdb, worker).receive(reference))
    assert path.is_relative_to(worker / FETCHED) and content(path) == content(folder / "model.onnx")
    assert path.stat().st_mode & 0o777 == 0o755
    assert (path.parent / "parts" / "weights.bin").stat().st_mode & 0o777 == 0o644
    for item in list(open_store("gridfs:", perfdb).objects()):
        open_store("gridfs:", perfdb).delete(item.key)
    assert Depot(perfdb, worker).receive(reference) == str(path)
    with pytest.raises(StorageError, match="has no"):
        Depot(perfdb, worker).receive(reference.replace("model.onnx", "../../../etc/passwd"))


def test_devices_of_another_home_have_it_stored(perfdb: PerfDB, homes: tuple[Path, Path]) -> None:
    """As soon as one is registered, what is made is put into the store at once; an own device changes nothing."""
    from inferbench_tasks.cluster.device import Device
    from inferbench_tasks.cluster.store import Cluster

    leader, worker = homes
    device = {"device_type": "cpu", "name": "c", "host": "h"}
    Cluster(perfdb).register(Device(device_id="own", home=settings.home_id(leader), **device))
    depot = Depot(perfdb, leader)
    depot.send(str(entry(leader)))
    depot.flush()
    assert not list(open_store("gridfs:", perfdb).objects())
    Cluster(perfdb).register(Device(device_id="other", home=settings.home_id(worker), **device))
    depot.send(str(entry(leader)))
    depot.flush()
    assert len(list(open_store("gridfs:", perfdb).objects())) == 3


def test_a_host_that_joins_later_asks_and_gets(perfdb: PerfDB, homes: tuple[Path, Path]) -> None:
    """What was made before it came is asked for, stored by the home that has it, and fetched; without an answer the
    error says where it was made."""
    leader, worker = homes
    depot = Depot(perfdb, leader)
    reference = depot.send(str(entry(leader) / "model.onnx"))
    depot.flush()
    with pytest.raises(StorageError, match="whose system did not store it"):
        Depot(perfdb, worker, wait_s=0.1).receive(reference)
    told: list[str] = []

    def tell(done: float, total: float | None, text: str) -> None:
        if text.startswith("waiting"):
            told.append(text)
            assert put_wanted(perfdb, Holdings(leader), settings.home_id(leader)) == [digest_of(reference)]

    path = Depot(perfdb, worker, told=tell).receive(reference)
    assert told and content(path) == b"graph" + WEIGHTS
    assert Ledger(perfdb).wanted_of(settings.home_id(leader)) == []


def test_a_damaged_copy_here_is_fetched_again_and_reported(perfdb: PerfDB, homes: tuple[Path, Path]) -> None:
    """A flipped byte, a missing file, a truncated one: the next use has the right content, and the ledger says so."""
    leader, worker = homes
    reference = sent(perfdb, leader, entry(leader))
    path = Path(Depot(perfdb, worker).receive(reference))
    weights = path.parent / "parts" / "weights.bin"

    def flip() -> None:
        with open(weights, "r+b") as file:
            file.seek(1000)
            file.write(bytes([WEIGHTS[1000] ^ 1]))

    def shorten() -> None:
        os.truncate(weights, 10)

    for number, damage in enumerate((flip, weights.unlink, shorten), 1):
        damage()
        again = Depot(perfdb, worker).receive(reference)
        assert again == str(path) and content(path) == b"graph" + WEIGHTS
        known = Ledger(perfdb).get(digest_of(reference))
        assert known is not None and len(known.faults) == number
        assert "weights.bin in the cache" in known.faults[-1].what


@pytest.mark.parametrize("damage", ["flipped", "truncated", "longer", "gone", "manifest"])
def test_a_damaged_copy_in_the_store_is_stored_again(
    damage: str, perfdb: PerfDB, homes: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing false is ever used: the copy is removed, reported, asked for, and put again by who has it."""
    monkeypatch.setenv("INFERBENCH_ARTIFACTS", f"file://{tmp_path}/shared")
    leader, worker = homes
    reference = sent(perfdb, leader, entry(leader))
    blob = tmp_path / "shared" / BLOBS / hashlib.sha256(WEIGHTS).hexdigest()
    wrong = {
        "flipped": bytes([WEIGHTS[0] ^ 1]) + WEIGHTS[1:], "truncated": WEIGHTS[:-1], "longer": WEIGHTS + b"x",
    }  # fmt: skip
    if damage == "manifest":
        blob = tmp_path / "shared" / MANIFESTS / digest_of(reference)
        wrong["manifest"] = b'{"files": []}'
    blob.unlink()
    if damage in wrong:
        blob.write_bytes(wrong[damage])

    def tell(done: float, total: float | None, text: str) -> None:
        if text.startswith("waiting"):
            put_wanted(perfdb, Holdings(leader), settings.home_id(leader))

    path = Depot(perfdb, worker, told=tell).receive(reference)
    assert content(path) == b"graph" + WEIGHTS
    known = Ledger(perfdb).get(digest_of(reference))
    assert known is not None and known.faults
    assert not list((worker / FETCHED).glob(".*.part"))


def test_a_host_s_two_processes_fetch_it_once(
    perfdb: PerfDB, shared_uri: str, homes: tuple[Path, Path]
) -> None:
    """Four at once: each has the path, and the store was read for one."""
    leader, worker = homes
    reference = sent(perfdb, leader, entry(leader))
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    children = [
        context.Process(target=_receive, args=(shared_uri, worker, reference, answers)) for _ in range(4)
    ]
    for child in children:
        child.start()
    found = [answers.get(timeout=60) for _ in children]
    for child in children:
        child.join()
    assert len({path for path, _ in found}) == 1 and content(found[0][0]) == b"graph" + WEIGHTS
    assert sorted(reads for _, reads in found)[:3] == [0, 0, 0]


def _receive(uri: str, home: Path, reference: str, answers: Any) -> None:
    from inferbench_tasks.stores.gridfs_store import GridFSStore

    reads: list[str] = []
    read = GridFSStore.read

    def counted(self: GridFSStore, key: str, start: int = 0, length: int = -1) -> bytes:
        reads.append(key)
        return read(self, key, start, length)

    GridFSStore.read = counted  # type: ignore[method-assign]
    path = Depot(PerfDB.connect(uri, home), home).receive(reference)
    answers.put((path, len(reads)))


KILLED = """
import os, sys
from pathlib import Path
from inferbench_tasks.perfdb import clients
from inferbench_tasks.perfdb.address import with_database
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import open_store
from inferbench_tasks.stores.fetch import Fetch
from inferbench_tasks.stores.holdings import Holdings
uri, home, digest = sys.argv[1:]
def told(done, total):
    print(done, flush=True)
    if done > total / 2:
        os.kill(os.getpid(), 9)
store = open_store("gridfs:", PerfDB.connect(uri, Path(home)))
Fetch(store, Holdings(Path(home)), told=told, part_bytes=20_000)(digest)
"""


def test_a_killed_fetch_goes_on_where_it_was(
    perfdb: PerfDB, shared_uri: str, homes: tuple[Path, Path]
) -> None:
    """kill -9 amid the parts: nothing is there; the next asks for the rest alone, and has the right content."""
    leader, worker = homes
    digest = digest_of(sent(perfdb, leader, entry(leader)))
    code = subprocess.run(
        [sys.executable, "-c", KILLED, shared_uri, str(worker), digest], capture_output=True, text=True
    )
    assert code.returncode == -signal.SIGKILL, code.stderr
    assert not (worker / FETCHED / digest).exists() and Holdings(worker).find(digest) is None
    store = open_store("gridfs:", perfdb)
    asked: list[int] = []
    read = store.read

    def counted(key: str, start: int = 0, length: int = -1) -> bytes:
        asked.append(start)
        return read(key, start, length)

    store.read = counted  # type: ignore[method-assign]
    holding = Fetch(store, Holdings(worker), part_bytes=20_000)(digest)
    assert content(holding.root / "model.onnx") == b"graph" + WEIGHTS
    assert len(asked) <= 10  # of 15 parts, a file of one part, and the manifest
    assert not list((worker / FETCHED).glob(".*.part"))


def test_the_cache_stays_within_its_bound(
    perfdb: PerfDB, homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was used longest ago goes; what a run uses never does, also where that is beyond the bound."""
    leader, worker = homes
    references = [sent(perfdb, leader, entry(leader, os.urandom(100_000))) for _ in range(4)]
    monkeypatch.setenv(CACHE_BYTES, "250000")
    run_told_of(perfdb, "used", references[0], "running")
    for number, reference in enumerate(references):
        path = Path(Depot(perfdb, worker).receive(reference))
        os.utime(path.parent / "entry.json", (1000 + number, 1000 + number))
    here = [(worker / FETCHED / digest_of(reference)).exists() for reference in references]
    assert here == [True, False, False, True]
    Ledger(perfdb)._db.collection("runs").update_one({"_id": "used"}, {"$set": {"status": "done"}})
    Depot(perfdb, worker).receive(references[1])
    here = [(worker / FETCHED / digest_of(reference)).exists() for reference in references]
    assert here == [False, True, False, True]
    monkeypatch.setenv(CACHE_BYTES, "lots")
    with pytest.raises(InputError, match="a size is needed"):
        Depot(perfdb, worker).receive(references[2])


def test_a_lying_manifest_of_a_cache_is_not_stored(perfdb: PerfDB, homes: tuple[Path, Path]) -> None:
    """Who made an entry may have written any digest: what is stored under one has it."""
    leader, _ = homes
    folder = entry(leader)
    about = json.loads((folder / "entry.json").read_text())
    about["files"]["model.onnx"] = other = hashlib.sha256(b"other").hexdigest()
    (folder / "entry.json").write_text(json.dumps(about))
    with pytest.raises(StorageError, match="not what its cache's manifest says"):
        sent(perfdb, leader, folder)
    assert open_store("gridfs:", perfdb).size(f"{BLOBS}/{other}") is None


def test_the_ledger_s_own_documents_are_no_artifacts(perfdb: PerfDB) -> None:
    """The collector's lock is not listed."""
    ledger = Ledger(perfdb)
    assert ledger.lock()
    ledger.unlock()
    assert ledger.all() == [] and perfdb.collection(COLLECTION).count_documents({}) == 1
