"""Optional parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks import extras
from inferbench_tasks.errors import MissingExtraError


def test_an_installed_part_is_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there needs no word."""
    monkeypatch.setitem(extras.EXTRAS, "x", extras.Extra(("json", "importlib.metadata"), 1))
    extras.require("x")
    assert capsys.readouterr() == ("", "")


def test_a_missing_part_of_a_foreign_environment_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another's environment is not changed; the error names what to run."""
    monkeypatch.setitem(extras.EXTRAS, "x", extras.Extra(("no_such_module_here.sub",), 1))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"make all.*pip install 'inferbench\[x\]'"):
        extras.require("x")


def test_every_part_is_an_extra_of_the_project() -> None:
    """The names are those of pyproject.toml, so that the named command works."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(extras.EXTRAS) <= set(project["optional-dependencies"])
