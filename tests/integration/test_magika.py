"""magika on files whose types are known: its own input, its own words, and a run from the command to the figures."""

from __future__ import annotations

import importlib
import io
import random
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.contracts.named_classes import NamedClasses
from inferbench_tasks.datasets.file_types import WRITERS, content
from inferbench_tasks.errors import MissingExtraError
from inferbench_tasks.modelrepo import magika
from inferbench_tasks.modelrepo.packaged_models import MAGIKA
from inferbench_tasks.modelrepo.packages import fetch
from inferbench_tasks.perfdb.store import PerfDB
from tests.integration.test_layouts import measures, ran

pytestmark = pytest.mark.integration

HEAD = """\
name: layouts
model: {kind: zoo, name: magika}
requests: {kind: dataset, samples: 8}
convert: {format: FORMAT, tolerance_ratio: 0.01}
serve: {backend: BACKEND}
"""
#: Lengths around those at which its package treats a file otherwise.
LENGTHS = (8, 9, 100, 1023, 1024, 1025, 4095, 4096, 4097, 9000)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """magika's own package, unpacked; skipped where it can't be had."""
    folder = tmp_path_factory.mktemp("magika")
    try:
        fetch(MAGIKA, folder, Watch())
    except MissingExtraError as error:
        pytest.skip(str(error))
    return folder


@pytest.fixture
def own(package: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its code, which only a test runs."""
    monkeypatch.syspath_prepend(str(package))
    return importlib.import_module("magika")


def kept(package: Path) -> NamedClasses:
    """What its files say of its classes."""
    return magika.classes({name: (package / file).read_text() for name, file in magika.FILES.items()})


def test_it_is_asked_what_its_own_package_would_ask(own: Any) -> None:
    """Bit for bit: of 560 files of 14 types, and of white space and bytes of all lengths that matter."""
    rng = random.Random(7)
    files = [content(at) for at in range(40 * len(WRITERS))]
    files += [bytes(rng.choice(b" \n\tab\0\xff") for _ in range(size)) for size in LENGTHS for _ in range(20)]
    files.append(b" " * 5000 + b"x" * 10 + b"\n" * 5000)
    tool = own.Magika()
    config = tool._model_config
    seekable = importlib.import_module("magika.types").Seekable
    for file in files:
        theirs = own.Magika._extract_features_from_seekable(
            seekable(io.BytesIO(file)), config.beg_size, config.mid_size, config.end_size,
            config.padding_token, config.block_size, config.use_inputs_at_offsets,
        )  # fmt: skip
        assert magika.first_and_last([file])["bytes"][0].tolist() == theirs.beg + theirs.end


def test_its_rule_says_what_its_own_package_says(own: Any, package: Path) -> None:
    """Of each class at scores around all thresholds."""
    tool, classes = own.Magika(), kept(package)
    label = importlib.import_module("magika.types").ContentTypeLabel
    for at, name in enumerate(classes.names):
        for score in (0.3, 0.49, 0.5, 0.74, 0.75, 0.89, 0.9, 0.94, 0.95, 1.0):
            theirs, _ = tool._get_output_label_from_dl_label_and_score(label(name), score)
            ours = classes.said_as[at] if score >= classes.least[at] else classes.else_said[at]
            assert ours == str(theirs), (name, score)


@pytest.mark.parametrize(
    ("form", "backend"),
    [("onnx", "onnxruntime"), pytest.param("openvino", "openvino", marks=pytest.mark.long)],
)
def test_its_accuracy_on_known_types_is_measured(
    form: str, backend: str, tmp_path: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """All 560 files, 40 of each of 14 types: one, of zlib, is taken for random bytes. Answers stand as the data set's
    classes, and what is none of them as no class."""
    names = "top1_ratio, macro_f1, own_decision_ratio, agreement_ratio"
    head = HEAD.replace("FORMAT", form).replace("BACKEND", backend)
    result = ran(tmp_path, perfdb, perfdb_uri, f"{{dataset: file-types, measures: [{names}]}}", head)
    assert result.valid
    found = measures(result)
    assert found["top1_ratio"] == found["own_decision_ratio"] == pytest.approx(559 / 560)
    assert found["macro_f1"] == pytest.approx((13 + 78 / 79) / 14)
    assert found["agreement_ratio"] == 1.0
    evaluation = result.extensions["evaluation"]
    assert evaluation["dataset"] == "file-types (generated)" and evaluation["samples"] == 560
    assert "high_confidence" in evaluation["data"]["class_names"]["own_rule"]
    rows = stored_table(perfdb, evaluation["answers"]).to_pylist()
    (wrong,) = [row for row in rows if row["answer"] != row["label"]]
    assert list(WRITERS)[wrong["label"]] == "zlib" and wrong["answer"] < -1
