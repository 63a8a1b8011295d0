"""Rules of the code base that no linter checks."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks.structure.imports import PACKAGE as IMPORTS
from benchmarks.structure.imports import cycles, module_graph, room_graph

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "inferbench_tasks"
MAY_IMPORT_AIRFLOW = {"provider"}
#: Seconds or hundreds of megabytes each: they are imported inside the function that needs them.
HEAVY = {
    "torch",
    "tensorflow",
    "keras",
    "sklearn",
    "transformers",
    "onnxruntime",
    "openvino",
    "skl2onnx",
    "plotly",
}
#: Files that are run as a process of their own or hold nothing but what needs the library.
RUN_AS_A_WHOLE = {
    "servers/engines",
    "modelrepo/canonical",
    "modelrepo/networks",
    "backends/triton_models",
    "backends/mlserver_models",
    "backends/torchserve_models",
    "analysis/charts",
}


def modules() -> Iterator[Path]:
    yield from sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    """A module, parsed once for all rules."""
    return ast.parse(path.read_text())


def imported(tree: ast.AST, *, top_level_only: bool) -> set[str]:
    nodes = ast.iter_child_nodes(tree) if top_level_only else ast.walk(tree)
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


def test_only_the_provider_imports_airflow() -> None:
    """Every stage runs without Airflow, which is how the tests and --inline call them."""
    guilty = []
    for path in modules():
        inside = path.relative_to(PACKAGE).parts[0]
        if inside not in MAY_IMPORT_AIRFLOW and "airflow" in imported(tree_of(path), top_level_only=False):
            guilty.append(str(path.relative_to(ROOT)))
    assert guilty == []


def test_stages_store_what_they_measured_under_their_lease() -> None:
    """Each that writes a result or bricks' times: without it a run that was given up could store what it measured."""
    writers = {"save_result", "PerfDBResults"}
    calls = {
        f"{path.relative_to(PACKAGE)}:{node.lineno}": [
            ast.unparse(given) for given in (*node.args, *(keyword.value for keyword in node.keywords))
        ]
        for path in modules()
        if path.parent.name == "stages"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in writers
    }
    # How models are cut is measured by nobody.
    measured = {place: given for place, given in calls.items() if "decompose" not in place}
    assert len(measured) == 3 and all("ctx.lease" in given for given in measured.values()), measured


def test_heavy_libraries_are_imported_where_they_are_needed() -> None:
    """`inferbench validate` must not wait for torch."""
    guilty = {}
    for path in modules():
        inside = path.relative_to(PACKAGE).as_posix()
        if inside.startswith(tuple(RUN_AS_A_WHOLE)):
            continue
        if heavy := imported(tree_of(path), top_level_only=True) & HEAVY:
            guilty[inside] = heavy
    assert guilty == {}


def floors() -> dict[str, int]:
    """Each room's floor, from 0 at the top, as import-linter's contract has it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == [IMPORTS])
    return {f"{IMPORTS}.{room}": floor for floor, row in enumerate(layers) for room in row.split(" | ")}


def test_every_room_has_a_floor() -> None:
    """A package or module at the top level stands in the layers of pyproject.toml, and nothing else does."""
    assert set(floors()) == set(room_graph(module_graph(ROOT)))


def test_no_import_goes_up() -> None:
    """Also not a lazy one, one under TYPE_CHECKING, or a registry's name of a module, which no linter follows."""
    floor = floors()
    upwards = {
        f"{room} -> {target}"
        for room, targets in room_graph(module_graph(ROOT)).items()
        for target in targets
        if floor[target] <= floor[room]
    }
    assert upwards == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Inside the rooms too."""
    assert cycles(module_graph(ROOT, by_name=False)) == []


def test_the_package_imports_nothing() -> None:
    """Airflow looks at providers before it is configured."""
    code = "import sys; before = set(sys.modules); import inferbench_tasks; print(set(sys.modules) - before)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "{'inferbench_tasks'}"


def test_folders_say_what_is_in_them() -> None:
    """No folder of leftovers."""
    names = {path.name for path in PACKAGE.rglob("*") if path.is_dir()}
    assert names & {"utils", "common", "core", "helpers", "misc"} == set()


@pytest.mark.parametrize("folder", ["inferbench_tasks", "tests", "benchmarks", "scripts", "dags", "plugins"])
def test_files_stay_readable(folder: str) -> None:
    """One concept per file; the longest may not grow beyond 500 lines."""
    long = {
        str(p.relative_to(ROOT)): n
        for p in (ROOT / folder).rglob("*.py")
        if (n := len(p.read_text().splitlines())) > 500
    }
    assert long == {}


def test_every_version_is_pinned() -> None:
    """What pyproject.toml asks for stands in constraints.txt with one version."""
    import re

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    pins = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    names = {re.split(r"[\[<>=!~; ]", r)[0].lower().replace("_", "-") for r in wanted}
    assert names - pins == set()
