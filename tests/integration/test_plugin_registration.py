"""Airflow registers the plugin exactly once: from a checkout, from an installed package, and where there are both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.provider import plugins_folder
from inferbench_tasks.provider.metadata_db import airflow_environment
from inferbench_tasks.provider.system.config import environment

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
ROOT = Path(__file__).parents[2]
FOLDER = "$PLUGINS_FOLDER/inferbench_plugin.py"
ENTRY_POINT = "inferbench==0.1.0"

#: What both of Airflow's plugin managers have registered, as JSON: the core's and the task SDK's, in one process.
REGISTERED = """
import json
from airflow import plugins_manager as core
from airflow.sdk import plugins_manager as sdk

def of(manager):
    plugins, errors = manager._get_plugins()
    return {"sources": [str(p.source).split(":")[0] for p in plugins if p.name == "inferbench"], "errors": errors}

views, _ = core._get_ui_plugins()
apps, middlewares = core.get_fastapi_plugins()
(plugin,) = [p for p in core._get_plugins()[0] if p.name == "inferbench"]
import inferbench_tasks
print(json.dumps({
    "core": of(core),
    "names": sorted(p.name for p in core._get_plugins()[0]),
    "sdk": of(sdk),
    "package": inferbench_tasks.__path__[0],
    "pages": [view["href"] for view in views],
    "apps": [app["url_prefix"] for app in apps],
    "middlewares": [middleware["name"] for middleware in middlewares],
    "listeners": [listener.__name__ for listener in plugin.listeners],
    "links": [link.name for link in core.get_operator_extra_links()],
    "weights": sorted(core.get_priority_weight_strategy_plugins()),
}))
"""


def registered(
    home: Path, variables: dict[str, str], *, python: str = sys.executable, cwd: Path = ROOT
) -> dict[str, Any]:
    """What Airflow registers in a fresh process with these settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
    env |= {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"} | variables
    done = subprocess.run([python, "-c", REGISTERED], env=env, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def once(source: str) -> dict[str, Any]:
    """One plugin, from there, and nothing that Airflow calls an error."""
    return {"sources": [source], "errors": {}}


def bare_python(folder: Path) -> tuple[str, Path]:
    """An environment with all that this one has but InferBench, and where its packages lie."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    here, there = (
        Path(prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        for prefix in (sys.prefix, folder)
    )
    for path in here.iterdir():
        if "inferbench" not in path.name:
            (there / path.name).symlink_to(path)
    return str(folder / "bin" / "python"), there


def test_a_checkout_registers_it_from_its_folder(tmp_path: Path) -> None:
    """The editable install's entry point is there too, started in the checkout even twice, and yields nothing."""
    variables = environment(
        tmp_path,
        port=1,
        execution_port=3,
        broker_port=2,
        dags=ROOT / "dags",
        submissions=tmp_path,
        data_dir=tmp_path,
    )
    answer = registered(tmp_path, variables)
    assert answer["core"] == answer["sdk"] == once(FOLDER)
    pages = (
        "home",
        "new",
        "leaderboard",
        "runs",
        "models",
        "trainings",
        "manifests",
        "bricks",
        "datasets",
        "evaluations",
        "systems",
        "devices",
        "stack",
        "traces",
        "compare",
        "recommend",
        "cluster",
        "regression",
    )
    assert answer["pages"] == [f"/inferbench/{page}" for page in pages]
    assert answer["apps"] == ["/inferbench"] and answer["middlewares"] == [
        "InferBench",
        "InferBench's limit of a body",
    ]
    assert answer["listeners"] == ["inferbench_tasks.provider.submit.notes"]
    assert sorted(answer["links"]) == ["Leaderboard", "Report", "Report", "Run", "Trace"]
    assert answer["weights"] == ["inferbench_tasks.provider.weights.ShortestJobFirst"]


def test_a_folder_of_the_user_s_own_leaves_it_to_the_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AIRFLOW__CORE__PLUGINS_FOLDER of the user is kept, and our plugin is there beside his."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "his.py").write_text(
        "from airflow.plugins_manager import AirflowPlugin\nclass His(AirflowPlugin):\n    name = 'his'\n"
    )
    monkeypatch.setenv(plugins_folder.SETTING, str(own))
    variables = airflow_environment(tmp_path, tmp_path / "dags")
    answer = registered(tmp_path, variables, cwd=tmp_path)
    assert answer["core"] == answer["sdk"] == once(ENTRY_POINT)
    assert answer["names"] == ["his", "inferbench"]


def test_a_folder_without_an_installed_package_is_enough(tmp_path: Path) -> None:
    """The code on the path and no entry point at all."""
    python, _ = bare_python(tmp_path / "env")
    shutil.copytree(ROOT / "inferbench_tasks", tmp_path / "code" / "inferbench_tasks")
    code = str(tmp_path / "code")
    variables = {plugins_folder.SETTING: str(ROOT / "plugins"), "PYTHONPATH": code}
    answer = registered(tmp_path, variables, python=python, cwd=tmp_path)
    assert answer["core"] == answer["sdk"] == once(FOLDER)
    assert answer["package"] == f"{code}/inferbench_tasks"


def test_an_installed_package_needs_no_checkout(tmp_path: Path) -> None:
    """A wheel brings the same plugin by its entry point, and sets no folder of plugins."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "inferbench_tasks", source / "inferbench_tasks")
    wheels = tmp_path / "wheels"
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*command, "--wheel-dir", str(wheels), str(source)], check=True)
    python, packages = bare_python(tmp_path / "env")
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    answer = registered(tmp_path, {}, python=python, cwd=tmp_path)
    assert answer["core"] == answer["sdk"] == once(ENTRY_POINT)
    assert answer["package"] == f"{packages}/inferbench_tasks"
    assert answer["apps"] == ["/inferbench"] and len(answer["pages"]) == 18
    code = "from inferbench_tasks.provider.plugins_folder import setting; print(setting())"
    assert subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True).stdout == "{}\n"
