"""Where Airflow reads the plugin from."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from inferbench_tasks.provider import plugins_folder
from inferbench_tasks.provider.metadata_db import airflow_environment
from inferbench_tasks.provider.plugin import InferBenchPlugin
from inferbench_tasks.provider.system.config import environment

ROOT = Path(__file__).parents[3]


def settings(home: Path) -> list[str | None]:
    """The plugins folder of ``inferbench up`` and of ``inferbench run``."""
    ports = {"port": 1, "broker_port": 2, "execution_port": 3}
    up = environment(home, **ports, dags=home, submissions=home, data_dir=home)
    return [made.get(plugins_folder.SETTING) for made in (up, airflow_environment(home, home))]


def test_both_commands_read_the_checkout_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``up`` and ``run`` name plugins/ beside dags/, unless the user has a folder of his own."""
    monkeypatch.delenv(plugins_folder.SETTING, raising=False)
    assert settings(tmp_path) == [str(ROOT / "plugins")] * 2
    monkeypatch.setenv(plugins_folder.SETTING, "/of/the/user")
    assert settings(tmp_path) == ["/of/the/user"] * 2


def test_without_a_checkout_nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder ``plugins`` that lies beside an installed package is somebody else's."""
    monkeypatch.delenv(plugins_folder.SETTING, raising=False)
    monkeypatch.setattr(plugins_folder, "__file__", str(tmp_path / "inferbench_tasks" / "provider" / "x.py"))
    (tmp_path / "plugins").mkdir()
    assert plugins_folder.setting() == {}


def test_the_entry_point_steps_back_where_the_folder_s_file_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class, until Airflow has read the file; an unfinished or foreign module of its name changes nothing."""
    monkeypatch.delitem(sys.modules, plugins_folder.MODULE, raising=False)
    assert plugins_folder.plugin is InferBenchPlugin
    spec = importlib.util.spec_from_file_location(
        plugins_folder.MODULE, ROOT / "plugins" / f"{plugins_folder.MODULE}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, plugins_folder.MODULE, module)
    assert plugins_folder.plugin is InferBenchPlugin
    spec.loader.exec_module(module)
    assert plugins_folder.plugin is None
