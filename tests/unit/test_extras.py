"""Optional parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks import extras
from inferbench_tasks.errors import InputError, MissingExtraError


def test_an_installed_part_is_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there needs no word."""
    _part(monkeypatch, "numpy", "pydantic")
    extras.require("x")
    assert capsys.readouterr() == ("", "")


def test_a_missing_part_of_a_foreign_environment_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another's environment is not changed; the error names what to run."""
    _part(monkeypatch, "no-such-distribution-here")
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"make all.*pip install 'inferbench\[x\]'"):
        extras.require("x")


def test_every_part_is_an_extra_of_the_project() -> None:
    """The parts are those of pyproject.toml, each with what it brings, so that the named command works."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert extras.names() == set(project["optional-dependencies"])
    assert set(extras.MEGABYTES) <= extras.names()
    assert not any(extras.missing(name) for name in extras.names())


def test_another_build_of_the_same_module_counts() -> None:
    """A module of the distribution's name is enough; what has neither is missing."""
    assert extras._is_there("importlib") and not extras._is_there("no-such-distribution-here")


def test_an_unknown_part_is_refused() -> None:
    """The error lists the parts that there are."""
    with pytest.raises(InputError, match="no optional part 'vlm'; it has: .*openvino.*torch"):
        extras.missing("vlm")


def _part(monkeypatch: pytest.MonkeyPatch, *needs: str) -> None:
    monkeypatch.setattr(extras, "names", lambda: frozenset({"x"}))
    monkeypatch.setattr("importlib.metadata.requires", lambda _: [f'{name}; extra == "x"' for name in needs])
