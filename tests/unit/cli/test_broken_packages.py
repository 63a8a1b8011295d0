"""Lists of what is installed: a package's entry that is not what it has to be is named, and hides no other."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from inferbench_tasks.analysis.stack.base import ANALYSES
from inferbench_tasks.analysis.stack.document import analysed, page
from inferbench_tasks.analysis.stack.document import stacks as documents_of
from inferbench_tasks.arrivals.base import ARRIVALS
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.cli import arrivals, backends, datasets, formats, models, trace, training_trainers
from inferbench_tasks.datasets.base import DATASETS
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import FORMATS, Format
from inferbench_tasks.formats.route import possible_precisions, route, usable
from inferbench_tasks.manifests.built_in import datasets as manifests_of_datasets
from inferbench_tasks.manifests.built_in.frameworks import frameworks
from inferbench_tasks.manifests.built_in.models import models as manifests_of_models
from inferbench_tasks.manifests.built_in.stacks import stacks
from inferbench_tasks.modelrepo.zoo import ZOO
from inferbench_tasks.output import OutputFormat
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.judge import judge, require
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.registry import Registry
from inferbench_tasks.servers.sources.base import HARDWARE, SOURCES
from inferbench_tasks.training.trainers.base import TRAINERS
from tests.unit.analysis.stack.test_analyses import SUBJECT

#: What stands in a package: it can be imported, and is nothing that it should be, or fails when it is used.
BROKEN = '''
from inferbench_tasks.analysis.stack.base import Analysis
from inferbench_tasks.datasets.base import DataSource
from inferbench_tasks.datasets.described import Described
from inferbench_tasks.quality.base import Measure


class Nothing:
    """No variant of anything."""


class Leaves(DataSource):
    title, origin, licence, form = "Leaves", "a herbarium", "CC0", "pictures"
    described = "1.0.0"

    def open(self, path):
        raise AssertionError("it was opened")


class Fine(Leaves):
    described = Described("1.0.0", "0" * 64, {"test": 2}, ("oak", "ash"))


class FailingMeasure(Measure):
    title, formula = "Leaves", "leaves / trees"

    def of(self, answered):
        return answered.outputs["leaves"]


class FailingAnalysis(Analysis):
    number, name, title, formula = 16, "leaves", "Leaves", "leaves / trees"

    def rows(self, subject):
        return {}["leaves"]

    def sentence(self, subject, rows):
        return "There are leaves."
'''
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Has a package's entries in a registry for one test."""

    def install(registry: Registry[Any], **entries: str) -> None:
        module = f"broken_{registry.group.partition('.')[2]}"
        about = tmp_path / f"{module}-1.2.dist-info"
        about.mkdir()
        (tmp_path / f"{module}.py").write_text(BROKEN)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.2\n")
        lines = "".join(f"{name} = {module}:{attribute}\n" for name, attribute in entries.items())
        (about / "entry_points.txt").write_text(f"[{registry.group}]\n{lines}")
        monkeypatch.syspath_prepend(str(tmp_path))
        points = [point for of in distributions(path=[str(tmp_path)]) for point in of.entry_points]
        there = {point.name: point for point in points if point.group == registry.group}
        monkeypatch.setitem(vars(registry), "_plugins", there)

    return install


def listed(app: Any, *arguments: str) -> list[dict[str, Any]]:
    """The rows that a command prints."""
    ended = CliRunner().invoke(app, [*arguments, "-o", "json"], catch_exceptions=False)
    assert ended.exit_code == 0
    rows: list[dict[str, Any]] = json.loads(ended.stdout)
    return rows


def test_data_sets_of_a_package_that_are_none_are_named_and_the_others_listed(install: Install) -> None:
    """One that is described by a text, one that is no data set: package and entry, and what is wanted; ``show`` and
    ``check`` say the same, and open nothing.
    """
    ours = [row for row in listed(datasets.app, "list") if row["by"] == "built-in"]
    install(DATASETS, theirs="Leaves", nothing="Nothing", fine="Fine")
    rows = {row["name"]: row for row in listed(datasets.app, "list")}
    assert [row for row in rows.values() if row.get("by") == "built-in"] == ours
    assert rows["fine"]["manifest"] == "fine@1.0.0"
    wrong = (
        "The data set 'theirs' of their-package 1.2 (broken_datasets:Leaves) can't be used: its `described` must be a "
        "Described (inferbench_tasks.datasets.described), or None where it has no manifest; it is of the type str"
    )
    assert rows["theirs"]["what"] == wrong
    assert "(broken_datasets:Nothing) can't be used: AttributeError" in rows["nothing"]["what"]
    for command in ("show", "check"):
        with pytest.raises(InputError) as refused:
            CliRunner().invoke(datasets.app, [command, "theirs"], catch_exceptions=False)
        assert str(refused.value) == wrong
    assert listed(datasets.app, "show", "digits")[0]["samples"] == 450


def test_backends_trainers_and_arrivals_of_a_package_that_are_none(install: Install) -> None:
    """A row of each that says why; those of ours are as they were."""
    for registry in (BACKENDS, TRAINERS, ARRIVALS):
        install(registry, theirs="Nothing")
    row = backends.row("theirs")
    assert row["here"].startswith(
        "no: The serving backend 'theirs' of their-package 1.2 (broken_backends:Nothing)"
    )
    assert row["origin"] == "their-package 1.2" and backends.row("onnxruntime")["formats"] == "onnx"
    (row,) = arrivals.rows("theirs", OutputFormat.json)
    assert "(broken_arrivals:Nothing) can't be used: AttributeError" in row["allowed"]
    assert [row["parameter"] for row in arrivals.rows("poisson", OutputFormat.json)] == ["rate_rps"]
    kinds = {kind: training_trainers._row(kind)["here"] for kind in TRAINERS}
    assert "(broken_trainers:Nothing) can't be used: AttributeError" in kinds["theirs"]
    assert "can't be used" not in kinds["torchrun"]


def test_a_load_is_not_refused_for_arrivals_of_a_package_that_are_none(tmp_path: Path) -> None:
    """One that is no arrival process, one that can't be imported: any other load is read, and why they can't be had is
    told once; who names one is told the same.
    """
    about = tmp_path / "broken-1.2.dist-info"
    about.mkdir()
    (tmp_path / "broken.py").write_text("class Nothing: pass\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(
        f"[{ARRIVALS.group}]\ntheirs = broken:Nothing\ngone = nowhere:Nothing\n"
    )
    told = (
        "The arrival process 'gone' of their-package 1.2 can't be imported: ModuleNotFoundError: No module named "
        "'nowhere'\n"
        "The arrival process 'theirs' of their-package 1.2 (broken:Nothing) can't be used: it is no ArrivalProcess "
        "(inferbench_tasks.arrivals.base)\n"
    )
    for kind, code, answer in (("poisson", 0, ""), ("theirs", 2, "unknown arrival process 'theirs'")):
        (tmp_path / "x.yaml").write_text(
            f"name: x\nmodel: {{kind: zoo, name: digits}}\nload: {{arrivals: {{kind: {kind}, rate_rps: 100}}}}\n"
        )
        ended = subprocess.run(
            [sys.executable, "-m", "inferbench_tasks.cli.main", "validate", "x.yaml"],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr[: len(told)]) == (code, told)
        assert answer in ended.stderr[len(told) :] and "Traceback" not in ended.stderr


def test_trace_sources_of_a_package_that_are_none(install: Install) -> None:
    """Of layers and of the hardware: a row of each that says why, beside all others."""
    ours = listed(trace.app, "sources")
    for registry in (SOURCES, HARDWARE):
        install(registry, **{f"theirs_{registry.group.partition('.')[2]}": "Nothing"})
    rows = listed(trace.app, "sources")
    theirs = [row for row in rows if row["source"].startswith("theirs")]
    assert [row for row in rows if row not in theirs] == ours
    assert [(row["level"], row["here"]) for row in theirs] == [("layer", False), ("hardware", False)]
    assert all("of their-package 1.2" in row["why_not"] for row in theirs)


def test_formats_of_a_package_that_are_none_are_on_no_way(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list of ways and the ways themselves are those without it, and why is told once."""
    ours, ways = formats.rows(), possible_precisions("torch", "onnx")
    capsys.readouterr()
    install(FORMATS, theirs="Nothing")
    assert formats.rows() == ours and possible_precisions("torch", "onnx") == ways
    told = capsys.readouterr().err
    assert told.count("The model format 'theirs' of their-package 1.2 (broken_formats:Nothing)") == 1
    why = r"model format 'theirs' of their-package 1\.2 \(broken_formats:Nothing\) can't be used"
    with pytest.raises(InputError, match=rf"^The {why}"):
        route("torch", "theirs")
    with pytest.raises(InputError, match=rf"gguf can't be converted to onnx; allowed: .*; The {why}"):
        route("gguf", "onnx")


def test_a_format_of_a_package_is_asked_once_for_all_ways(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many ways are searched; where other packages are installed, all are asked anew."""
    ours = usable()
    ways = possible_precisions("torch", "onnx")
    asked: list[str] = []
    ask = FORMATS.told

    def told(kind: str, tell: Callable[[type[Format]], object], where: str = "") -> object:
        asked.append(kind)
        return ask(kind, tell, where)

    monkeypatch.setattr(FORMATS, "told", told)
    install(FORMATS, theirs="Nothing")
    for _ in range(3):
        assert usable() == ours and possible_precisions("torch", "onnx") == ways
    assert asked.count("theirs") == asked.count("onnx") == 1
    monkeypatch.setitem(vars(FORMATS), "_plugins", {})
    assert usable() == ours and asked.count("theirs") == 1 and asked.count("onnx") == 2


def test_models_and_manifests_of_what_is_none_are_left_out(
    install: Install, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The lists of models and of manifests have all others; who, and why, is told, of manifests in the log."""
    made = (manifests_of_models, stacks, frameworks, manifests_of_datasets.datasets)
    cards, ids = models._zoo(), [[manifest.id for manifest in make()] for make in made]
    for registry, entry in ((ZOO, "Nothing"), (BACKENDS, "Nothing"), (DATASETS, "Leaves")):
        install(registry, theirs=entry)
    capsys.readouterr()
    assert models._zoo() == cards
    assert "The zoo model 'theirs' of their-package 1.2 (broken_zoo:Nothing)" in capsys.readouterr().err
    with caplog.at_level(logging.WARNING):
        assert [[manifest.id for manifest in make()] for make in made] == ids
    for words in (
        "no manifest of the model theirs",
        "no stack of the backend theirs",
        "no manifest of the data set of the model theirs",
        "no manifest of the data set theirs",
    ):
        assert words in caplog.text


def test_measures_of_a_package_that_are_none_are_left_out(install: Install) -> None:
    """One that is none, one that fails, one that can't be imported: each is left out with package and reason, and
    whoever asks for all that fit has all others. Who names one is told before anything is started.
    """
    scores = np.random.default_rng(1).random((20, 3))
    answered = Answered({"y": scores}, {"y": scores}, np.arange(20) % 3)
    ours = judge(answered)
    assert ours.values
    install(MEASURES, theirs="Nothing", fails="FailingMeasure", gone="Absent")
    found = judge(answered)
    assert found.values == ours.values
    assert found.left_out == ours.left_out | {
        "theirs": "The measure of quality 'theirs' of their-package 1.2 (broken_quality:Nothing) can't be used: "
        "it is no Measure (inferbench_tasks.quality.base)",
        "fails": "The measure of quality 'fails' of their-package 1.2 (broken_quality:FailingMeasure) can't be used: "
        "KeyError: 'leaves'",
        "gone": "The measure of quality 'gone' of their-package 1.2 can't be imported: AttributeError: module "
        "'broken_quality' has no attribute 'Absent'",
    }
    with pytest.raises(InputError, match=r"\(broken_quality:Nothing\) can't be used: it is no Measure"):
        require(answered, ["theirs"], "digits")
    with pytest.raises(InputError, match="can't be had on digits") as refused:
        require(answered, ["ssim"], "digits")
    assert "top1_ratio" in str(refused.value) and "theirs" not in str(refused.value)


def test_analyses_of_a_package_that_are_none_are_named(install: Install) -> None:
    """One that is none, one that fails, one that can't be imported: each stands behind all others and says why; who
    asks for the table of one is told the same.
    """
    ours = [(each["number"], each["name"], each["sentence"]) for each in analysed(SUBJECT)["analyses"]]
    install(ANALYSES, theirs="Nothing", fails="FailingAnalysis", gone="Absent")
    document = documents_of([SUBJECT])
    rows = document["stacks"][0]["analyses"]
    assert [(each["number"], each["name"], each["sentence"]) for each in rows[:-3]] == ours
    assert [(each["number"], each["name"], each["rows"]) for each in rows[-3:]] == [
        (None, "fails", []), (None, "gone", []), (None, "theirs", []),
    ]  # fmt: skip
    fails, gone, theirs = (each["missing"] for each in rows[-3:])
    assert fails.endswith("(broken_stack_analyses:FailingAnalysis) can't be used: KeyError: 'leaves'")
    assert gone.startswith(
        "The analysis across the stack 'gone' of their-package 1.2 can't be imported: Attr"
    )
    assert theirs.endswith("can't be used: it is no Analysis (inferbench_tasks.analysis.stack.base)")
    text = page(document)
    assert "<h3>theirs</h3>" in text and "<h3>1. " in text and "it is no Analysis" in text
    with pytest.raises(InputError, match="it is no Analysis"):
        CliRunner().invoke(trace.app, ["show", "latest", "--analysis", "theirs"], catch_exceptions=False)
