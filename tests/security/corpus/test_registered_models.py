"""Records of the model repository that name files elsewhere."""

import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.modelrepo.registered import RegisteredSource
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.store import PerfDB


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "..\\secret", ""])
def test_a_models_file_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """``file`` obeys the rule of the names of ``files``: nothing outside the folder is read."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_text("canary")
    db: Any = SimpleNamespace(files=None)
    card = ModelCard(name="m", version=1, format="onnx", file=name)
    with pytest.raises(PerfDBError, match="forbidden name"):
        ModelRepository(db).fetch(card, folder)


def _kept(
    card: ModelCard, make_file: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> RegisteredSource:
    """A source whose record and file came into the repository past every check."""
    source = RegisteredSource.__new__(RegisteredSource)
    source.card, source.name, source.version = card, card.name, card.version

    def fetch(self: ModelRepository, card: ModelCard, folder: Path) -> Path:
        make_file(folder / card.file)
        return folder / card.file

    monkeypatch.setattr(ModelRepository, "fetch", fetch)
    monkeypatch.setattr(PerfDB, "connect", lambda *_: nullcontext())
    return source


@pytest.mark.parametrize("form", ["aotinductor", "tensorrt"])
def test_machine_code_is_refused_without_the_operators_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A record with such a format is not even fetched; the message names the setting, which allows it."""
    card = ModelCard(name="m", version=1, format=form, file="model.bin")
    source = _kept(card, lambda path: path.write_bytes(b"code"), monkeypatch)
    with pytest.raises(InputError, match="machine code.*INFERBENCH_REGISTRY_CODE"):
        source.make(tmp_path, Watch())
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv(settings.REGISTRY_CODE, "allow")
    assert source.make(tmp_path, Watch()).file == "model.bin"


@pytest.mark.parametrize(
    ("form", "name"), [("torchscript", "model.pt"), ("pt2", "model.pt2"), ("onnx", "model.onnx")]
)
def test_a_fetched_model_is_checked_as_a_users_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, name: str
) -> None:
    """A registered file may have been put there, or restored, by somebody else."""
    pytest.importorskip("torch")

    def hostile(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("m/code/__torch__.py", "import os")
            archive.writestr("m/models/model.json", "{}")
            archive.writestr("m/version", "3")

    card = ModelCard(name="m", version=1, format=form, file=name)
    with pytest.raises(InputError, match=name):
        _kept(card, hostile, monkeypatch).make(tmp_path, Watch())


def test_python_code_never_comes_from_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where machine code may: a submission names the code that it runs."""
    monkeypatch.setenv(settings.REGISTRY_CODE, "allow")

    def module(path: Path) -> None:
        path.mkdir()
        (path / "module.py").write_text("raise SystemExit")

    card = ModelCard(name="m", version=1, format="torch", file="model")
    with pytest.raises(InputError, match="Python code"):
        _kept(card, module, monkeypatch).make(tmp_path, Watch())
