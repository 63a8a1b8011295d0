"""Variants by name, ours and third parties'."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.arrivals.base import ARRIVALS
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.errors import InputError, UnknownKindError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.registry import Registry

GROUP = "inferbench.test_registry"


def registry(**built_in: str) -> Registry[Any]:
    return Registry("test variant", GROUP, built_in)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A third party's distribution, as pip leaves one: modules and metadata with entry points."""
    (tmp_path / "third_party_variants.py").write_text("class Own:\n    pass\n")
    (tmp_path / "third_party_broken.py").write_text("import a_module_that_is_not_there\n")
    info = tmp_path / "third_party-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        f"[{GROUP}]\n"
        "own = third_party_variants:Own\n"
        "broken = third_party_broken:Anything\n"
        "taken = third_party_variants:Own\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_built_in_kind_is_the_class_of_its_module() -> None:
    """By "module:attribute"."""
    assert registry(fraction="fractions:Fraction").load("fraction").__name__ == "Fraction"


def test_an_unknown_kind_is_told_with_the_known_ones() -> None:
    """What, where, and what is allowed."""
    known = registry(b="fractions:Fraction", a="decimal:Decimal")
    with pytest.raises(UnknownKindError) as caught:
        known.load("c", "serve.backend (x.yaml:3)")
    assert str(caught.value) == "Unknown test variant 'c' at serve.backend (x.yaml:3); known: a, b"
    assert list(known) == ["a", "b"]
    assert "c" not in known
    assert 5 not in known


def test_a_third_party_registers_by_entry_point(plugin: Path) -> None:
    """Its kind is known, can be loaded, and says where it comes from."""
    known = registry(taken="fractions:Fraction")
    assert list(known) == ["broken", "own", "taken"]
    assert known.load("own").__module__ == "third_party_variants"
    assert known.origin("own") == "third-party 1.2"


def test_a_third_party_takes_no_built_in_kind_over(plugin: Path) -> None:
    """Figures under a built-in's name are the built-in's."""
    known = registry(taken="fractions:Fraction")
    assert known.load("taken").__name__ == "Fraction"
    assert known.origin("taken") == "built-in"


def test_a_broken_plugin_is_named_and_hides_no_other(plugin: Path) -> None:
    """The others are listed and loaded as if it were not there."""
    known = registry()
    with pytest.raises(InputError) as caught:
        known.load("broken")
    assert str(caught.value) == (
        "The test variant 'broken' of third-party 1.2 can't be imported: "
        "ModuleNotFoundError: No module named 'a_module_that_is_not_there'"
    )
    assert known.load("own").__name__ == "Own"


@pytest.mark.parametrize("real", [ARRIVALS, BACKENDS, FORMATS], ids=lambda real: str(real.what))
def test_every_built_in_kind_is_there_and_named_as_it_is_registered(real: Registry[Any]) -> None:
    """Each kind loads, lies in the module of its name, and calls itself by its kind."""
    for kind in real:
        variant = real.load(kind)
        if real.origin(kind) != "built-in":
            continue
        assert variant.__module__.rsplit(".", 1)[-1] == kind
        own = getattr(variant, "kind", None) or variant.model_fields["kind"].annotation.__args__[0]
        assert own == kind


def test_knowing_the_kinds_imports_nothing_heavy() -> None:
    """Listing and loading what a submission may name brings no framework into the process."""
    program = """
        import sys
        from inferbench_tasks.arrivals.base import ARRIVALS
        from inferbench_tasks.backends.base import BACKENDS
        from inferbench_tasks.formats.base import FORMATS
        from inferbench_tasks.submission.schema import Submission
        for registry in (ARRIVALS, BACKENDS, FORMATS):
            for kind in registry:
                registry.load(kind)
        heavy = {"torch", "tensorflow", "sklearn", "pandas", "plotly", "onnxruntime", "airflow", "docker", "grpc"}
        print(sorted(heavy & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
