"""Pipelines: what their list of stages must be, and what reading it costs."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.pipelines.base import Pipeline
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.stages.base import Stage


def pipeline(monkeypatch: pytest.MonkeyPatch, **facts: Stage) -> Pipeline[Any]:
    """A pipeline of stages that have nothing but facts."""
    for name, stage in facts.items():
        module = ModuleType(f"probe.{name}")
        module.STAGE = stage  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"probe.{name}", module)
    made: Pipeline[Any] = Pipeline()
    made.kind, made.stages = "probe", tuple(f"probe.{name}" for name in facts)
    return made


def test_a_need_stands_before_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that needs a later one, or none of the pipeline, is named with what stands before it."""
    wrong = pipeline(monkeypatch, first=Stage(needs=("second",)), second=Stage())
    with pytest.raises(InputError, match=r"'probe': first needs second, .* before it stand: none"):
        assert wrong.entries


def test_the_stages_on_the_device_stand_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease has one beginning and one end."""
    wrong = pipeline(monkeypatch, a=Stage(leased=True), b=Stage(), c=Stage(leased=True))
    with pytest.raises(InputError, match="c needs the device, which a stage before it has given back"):
        assert wrong.entries


def test_a_name_stands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Task ids are made of the stages' names."""
    twice = pipeline(monkeypatch, a=Stage())
    twice.stages = (*twice.stages, *twice.stages)
    with pytest.raises(InputError, match="two stages 'a'"):
        assert twice.entries


def test_an_absent_block_adds_no_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage of a block is there for the jobs that have the block, and for no other."""
    made = pipeline(monkeypatch, a=Stage(), b=Stage(block="evaluate"))
    assert [e.name for e in made.of_job(SimpleNamespace(evaluate=None))] == ["a"]
    assert [e.name for e in made.of_job(SimpleNamespace(evaluate={}))] == ["a", "b"]


def test_a_stage_is_there_as_often_as_its_jobs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has the stage's name, the others one with their number; a run's record leads back to the one stage."""
    made = pipeline(
        monkeypatch, a=Stage(), b=Stage(block="shared", times="others"), b_9=Stage(), c=Stage(needs=("b",))
    )
    three = made.of_job(SimpleNamespace(shared=4, others=3))
    assert [(e.name, e.number, e.stage) for e in three if e.stage == "b"] == [
        ("b", 1, "b"), ("b_2", 2, "b"), ("b_3", 3, "b"),
    ]  # fmt: skip
    assert [e.name for e in made.of_job(SimpleNamespace(shared=None, others=3))] == ["a", "b_9", "c"]
    known = {name: made.entry_of(name) for name in ("a", "b", "b_3", "b_9", "a_2", "d")}
    assert {name: entry and entry.name for name, entry in known.items()} == {
        "a": "a", "b": "b", "b_3": "b", "b_9": "b_9", "a_2": None, "d": None,
    }  # fmt: skip


def test_every_stage_says_what_it_needs() -> None:
    """A stage's Input has fields for outputs only of stages that its facts name."""
    import importlib

    names = {entry.name for entry in SERVING.entries}
    for entry in SERVING.entries:
        fields = set(importlib.import_module(entry.module).Input.model_fields)
        assert fields & names <= set(entry.facts.needs)


def test_reading_the_facts_imports_nothing_heavy() -> None:
    """Every task of Airflow makes the plan anew: neither the load generator nor PerfDB's client comes with it."""
    code = (
        "import sys; from inferbench_tasks.pipelines.serving import SERVING; assert SERVING.entries;"
        "print(*(n for n in ('pyarrow', 'pymongo', 'psutil', 'scipy', 'pandas', 'plotly') if n in sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == ""
