"""The model repository on a real PerfDB: versions, words, files, and a model that is served from it."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks import settings
from inferbench_tasks.cli.models import _shown, app
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.child import run_in_child
from inferbench_tasks.stages import generate
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.model import RegistryModel

SPEC = {"dtype": "float32", "shape": (4,)}


def onnx_file(path: Path, scale: float = 2.0, external: str | None = None) -> Path:
    """``y = scale * x``; its weight in a file of its own if ``external`` names one."""
    weight = numpy_helper.from_array(np.full((4,), scale, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "scale",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path, save_as_external_data=bool(external), location=external, size_threshold=0)
    return path


def artifact(path: Path, **changes: Any) -> ModelArtifact:
    """That file as a stage hands it on."""
    values = {
        "name": "scale",
        "framework": "onnx",
        "format": "onnx",
        "path": str(path),
        "digest": FORMATS.load("onnx")().digest(path),
        "parameters": 4,
        "inputs": (TensorSpec(name="x", **SPEC),),
        "outputs": (TensorSpec(name="y", **SPEC),),
        **changes,
    }
    return ModelArtifact.model_validate(values)


@pytest.fixture
def repository(perfdb: PerfDB) -> ModelRepository:
    """An empty one."""
    return ModelRepository(perfdb)


def test_what_is_registered_comes_back(repository: ModelRepository, tmp_path: Path) -> None:
    """Files, weights beside the file included, and all that is known of the model survive."""
    path = onnx_file(tmp_path / "in" / "model.onnx", external="weights.data")
    card, new = repository.register(
        artifact(path, flops=8, accuracy_ratio=0.5), "scale", user="me", licence="MIT", tags=["a.b", "c"]
    )
    assert new
    assert repository.show("scale") == card
    assert (card.version, card.user, card.licence, card.flops, card.accuracy_ratio) == (
        1,
        "me",
        "MIT",
        8,
        0.5,
    )
    fetched = repository.fetch(card, tmp_path / "out")
    assert sorted(p.name for p in fetched.parent.iterdir()) == ["model.onnx", "weights.data"]
    model = artifact(fetched)
    answer = FORMATS.load("onnx")().open(model)({"x": np.ones((2, 4), np.float32)})
    assert answer["y"].tolist() == [[2.0] * 4] * 2


def test_versions(repository: ModelRepository, tmp_path: Path) -> None:
    """Other files make the next version, the same ones none; a deleted number is not given again."""
    first = artifact(onnx_file(tmp_path / "1.onnx", 1.0))
    second = artifact(onnx_file(tmp_path / "2.onnx", 2.0))
    assert repository.register(first, "m")[0].version == 1
    assert repository.register(first, "m")[1] is False
    assert repository.register(second, "m")[0].version == 2
    assert repository.register(first, "m")[0].version == 3
    assert (repository.show("m").version, repository.show("m", 2).digest) == (3, second.digest)
    assert [c.version for c in repository.delete("m", 3)] == [3]
    assert repository.show("m").version == 2
    assert repository.register(first, "m")[0].version == 4
    with pytest.raises(InputError, match="'m' has no version 3; it has 4, 2, 1"):
        repository.show("m", 3)


def _register(args: tuple[PerfDB, str]) -> int:
    db, path = args
    return ModelRepository(db).register(artifact(Path(path)), "m")[0].version


def test_many_register_at_once(perfdb: PerfDB, tmp_path: Path) -> None:
    """Of several who register different files under one name, each gets a version of its own."""
    paths = [str(onnx_file(tmp_path / f"{i}.onnx", float(i))) for i in range(6)]
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        versions = pool.map(_register, [(perfdb, path) for path in paths], chunksize=1)
    assert sorted(versions) == [1, 2, 3, 4, 5, 6]


def test_words_change_and_files_do_not(repository: ModelRepository, tmp_path: Path) -> None:
    """update changes what is said of one version, and refuses everything else."""
    card, _ = repository.register(artifact(onnx_file(tmp_path / "m.onnx")), "m", task="old")
    changed = repository.update("m", task="new", tags=["t"])
    assert (changed.task, changed.tags, changed.digest, changed.files) == (
        "new",
        ["t"],
        card.digest,
        card.files,
    )
    with pytest.raises(InputError, match="digest can't be set; allowed: task, dataset"):
        repository.update("m", digest="x")
    with pytest.raises(InputError, match="tags"):
        repository.update("m", tags=["no spaces"])
    with pytest.raises(InputError, match="no model 'other'"):
        repository.update("other", task="x")


def test_searching(repository: ModelRepository, tmp_path: Path) -> None:
    """Conditions on words, figures and tags; the latest version that matches."""
    repository.register(artifact(onnx_file(tmp_path / "a.onnx", 1.0)), "alpha", task="image-classification")
    repository.register(artifact(onnx_file(tmp_path / "b.onnx", 3.0), parameters=9), "alpha", tags=["big"])
    repository.register(artifact(onnx_file(tmp_path / "c.onnx", 4.0)), "beta", task="text")

    def found(query: str) -> list[str]:
        return [f"{c.name}@{c.version}" for c in repository.search(query)]

    assert found("") == ["alpha@2", "beta@1"]
    assert found("task=image*") == ["alpha@1"]
    assert found("parameters>4") == found("tag=big") == ["alpha@2"]
    assert found("since=1h name=b*,alpha user=anonymous") == ["alpha@2", "beta@1"]
    assert found("until=1h") == []
    assert len(repository.search(all_versions=True)) == 3
    with pytest.raises(InputError, match=r"Unknown field 'nmae'. Did you mean 'name'"):
        repository.search("nmae=x")


def test_deleting_leaves_no_file(repository: ModelRepository, perfdb: PerfDB, tmp_path: Path) -> None:
    """All versions go with their files; what is gone is not there to be shown."""
    for scale in (1.0, 2.0):
        repository.register(artifact(onnx_file(tmp_path / f"{scale}.onnx", scale)), "m")
    assert len(repository.delete("m")) == 2
    assert perfdb.sizes()["files"] == 0
    for action in (repository.show, repository.delete):
        with pytest.raises(InputError, match="no model 'm'"):
            action("m")


@pytest.mark.parametrize("name", ["../up", "a b", "$x", "", "-x"])
def test_a_name_is_safe_everywhere(repository: ModelRepository, tmp_path: Path, name: str) -> None:
    """A name that could become a path, an option or an operator is refused, and nothing is stored."""
    with pytest.raises(InputError, match="name"):
        repository.register(artifact(onnx_file(tmp_path / "m.onnx")), name)
    assert repository.search() == []


def test_a_damaged_or_hostile_entry_is_never_fetched(
    repository: ModelRepository, perfdb: PerfDB, tmp_path: Path
) -> None:
    """Changed bytes and paths that lead out of the folder are errors; no such file is written."""
    card, _ = repository.register(artifact(onnx_file(tmp_path / "m.onnx")), "m")
    out = tmp_path / "out"
    hostile = card.files[0].model_copy(update={"name": "../evil.onnx"})
    with pytest.raises(PerfDBError, match=r"forbidden name '\.\./evil\.onnx'"):
        repository.fetch(card.model_copy(update={"files": [hostile]}), out)
    assert not (tmp_path / "evil.onnx").exists()
    with pytest.raises(PerfDBError, match="its digest is"):
        repository.fetch(card.model_copy(update={"digest": "0" * 64}), out)
    perfdb.collection("fs.chunks").update_one({}, {"$set": {"data": b"other"}})
    with pytest.raises(PerfDBError, match="damaged"):
        repository.fetch(card, out)


def test_a_link_is_not_registered(repository: ModelRepository, tmp_path: Path) -> None:
    """A model's folder can't make us store a file from elsewhere."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").symlink_to(tmp_path / "secret")
    folder = artifact(onnx_file(tmp_path / "m.onnx")).model_copy(update={"path": str(tmp_path / "model")})
    with pytest.raises(InputError, match="is a link"):
        repository.register(folder, "m")


def test_a_submission_gets_a_registered_model(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``kind: registry`` resolves to the version named, else the latest; fetched once, then cached."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    repository = ModelRepository(perfdb)
    for scale in (1.0, 2.0):
        repository.register(artifact(onnx_file(tmp_path / f"{scale}.onnx", scale)), "m", task="scaling")
    for version, scale in ((1, 1.0), (None, 2.0)):
        source = resolve(RegistryModel(kind="registry", name="m", version=version), tmp_path)
        model = build_model(source, data_dir, Watch())
        answer = FORMATS.load("onnx")().open(model)({"x": np.ones((1, 4), np.float32)})
        assert answer["y"].tolist() == [[scale] * 4]
        assert (model.name, model.version, model.task) == ("m", version or 2, "scaling")
        assert model.flops is not None
    with pytest.raises(InputError, match="has no version 7; it has 2, 1"):
        resolve(RegistryModel(kind="registry", name="m", version=7), tmp_path)


def test_what_opens_a_registered_model_has_no_login_and_no_network(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stages' child has neither PerfDB's address nor a way to it, and the model and its requests are made; what was
    fetched for it does not stay, and is not fetched again.
    """
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ModelRepository(perfdb).register(artifact(onnx_file(tmp_path / "m.onnx", external="weights.data")), "m")
    commands: list[tuple[str, dict[str, str]]] = []
    popen = subprocess.Popen

    def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
        if "inferbench_tasks.running.child_main" in command:
            commands.append((command[4], options["env"]))
        return popen(command, **options)

    monkeypatch.setattr("inferbench_tasks.running.child.subprocess.Popen", start)
    job = {
        "name": "t", "model": {"kind": "registry", "name": "m"}, "requests": {"samples": 8},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}, "seed": 1},
    }  # fmt: skip
    for run_id in ("first", "again"):
        inp = generate.Input.model_validate({"run_id": run_id, "job_id": "j", "job": job})
        output = run_in_child(generate, inp, Context(data_dir=data_dir, base_dir=tmp_path))
        assert Path(output.model.path).is_relative_to(data_dir / "cache" / "foreign")
        assert not (data_dir / "runs" / run_id / "registered").exists()
    assert len(commands) == 2
    for text, env in commands:
        reach = json.loads(text)
        assert reach["connects"] == [] and not reach["datagrams"] and not reach["local_sockets"]
        assert perfdb_uri not in env.values() and settings.PERFDB_URI not in env
        assert str(data_dir / "perfdb") not in reach["reads"]


def test_the_command_line(
    perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """register a file, show, search (with the built-in models), update, fetch and delete."""
    from typer.testing import CliRunner

    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)

    def models(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    path = onnx_file(tmp_path / "scale.onnx")
    made = json.loads(models("register", "ours", "--file", str(path), "--licence", "MIT", "-o", "json"))
    assert (made["version"], made["format"], made["licence"]) == (1, "onnx", "MIT")
    assert made["inputs"] == [{"name": "x", "dtype": "float32", "shape": [4]}]
    assert made["digest"] == FORMATS.load("onnx")().digest(path)
    assert json.loads(models("show", "ours@1", "-o", "json"))["versions"] == [1]
    found = {m["name"]: m["kind"] for m in json.loads(models("search", "-o", "json"))}
    assert found["ours"] == "registry"
    assert found["digits"] == "zoo"
    assert [
        m["name"] for m in json.loads(models("search", "licence=MIT", "kind=registry", "-o", "json"))
    ] == ["ours"]
    assert json.loads(models("update", "ours", "--task", "scaling", "-o", "json"))["task"] == "scaling"
    fetched = Path(models("fetch", "ours", str(tmp_path / "out")).strip())
    assert fetched.read_bytes() == path.read_bytes()
    models("delete", "ours", "--yes")
    assert json.loads(models("search", "kind=registry", "-o", "json")) == []
    for wrong in (
        ["register", "x"],
        ["update", "ours@0", "--task", "x"],
        ["update", "ours"],
        ["delete", "ours"],
    ):
        with pytest.raises(InputError):
            CliRunner().invoke(app, wrong, catch_exceptions=False)


def test_a_card_without_secrets_of_the_store(repository: ModelRepository, tmp_path: Path) -> None:
    """What is shown has the files' sizes and none of the store's ids."""
    card, _ = repository.register(artifact(onnx_file(tmp_path / "m.onnx")), "m")
    shown = _shown(card)
    assert shown["files"] == {"m.onnx": (tmp_path / "m.onnx").stat().st_size}
    assert card.files[0].id not in str(shown)
