"""What a Celery worker has in memory before it forks a task."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import textwrap

import pytest

from inferbench_tasks.pipelines.base import PIPELINES
from inferbench_tasks.stages import evaluate

pytestmark = pytest.mark.airflow
CODE = """
import json, sys, threading
from inferbench_tasks.provider import preload
print(json.dumps([sorted(sys.modules), [thread.name for thread in threading.enumerate()]]))
"""


def test_workers_import_what_tasks_need_and_nothing_that_does_not_survive_a_fork() -> None:
    """The stages of all pipelines are in memory; no framework, no model runtime, no thread."""
    process = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    modules, threads = json.loads(process.stdout.splitlines()[-1])
    for kind in PIPELINES:
        assert {entry.module for entry in PIPELINES.load(kind).entries} <= set(modules)
    assert not {"torch", "tensorflow", "openvino", "onnxruntime"} & set(modules)
    assert threads == ["MainThread"]


def test_an_evaluation_imports_nothing_more() -> None:
    """Whatever stage ``evaluate`` imports when it runs is in memory, as all measures are that it judges by."""
    run = ast.parse(textwrap.dedent(inspect.getsource(evaluate.run))).body[0]
    assert isinstance(run, ast.FunctionDef)
    statements = [node for node in run.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert len(statements) > 5
    code = (
        "import sys\n"
        "from inferbench_tasks.provider import preload\n"
        "from inferbench_tasks.quality.measures import MEASURES\n"
        "before = set(sys.modules)\n" + "\n".join(map(ast.unparse, statements)) + "\n"
        "[MEASURES.load(name) for name in MEASURES if MEASURES.origin(name) == 'built-in']\n"
        "print(sorted(set(sys.modules) - before))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.splitlines()[-1] == "[]"


def test_celery_imports_it() -> None:
    """The settings that Airflow hands to Celery are its own, with this module as one that workers import first."""
    from airflow.providers.celery.executors.default_celery import DEFAULT_CELERY_CONFIG

    from inferbench_tasks.provider.celery_config import CELERY_CONFIG
    from inferbench_tasks.provider.system.config import TUNED

    module, _, name = TUNED["AIRFLOW__CELERY__CELERY_CONFIG_OPTIONS"].rpartition(".")
    assert (module, name) == ("inferbench_tasks.provider.celery_config", "CELERY_CONFIG")
    assert {key: CELERY_CONFIG[key] for key in DEFAULT_CELERY_CONFIG} == DEFAULT_CELERY_CONFIG
    assert CELERY_CONFIG["imports"] == (
        "inferbench_tasks.provider.preload",
        "inferbench_tasks.provider.joining.guard",
    )
