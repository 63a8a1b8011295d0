"""MLPerf's LoadGen in its accuracy mode: each sample once, and its own log beside the answers that are judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from inferbench_tasks import settings
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.extras import missing
from inferbench_tasks.metrics.interference import NOTE
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.requests.digits import split
from inferbench_tasks.stages.asked import Asked, ask
from inferbench_tasks.submission.schema import LoadSpec
from tests.faulty_answers import Answer, Right, Swaps, WrongInBatches, served
from tests.integration.test_evaluated_answers import INPUTS, SAMPLES, SOURCE, Refuses, scores
from tests.integration.test_varied_pictures import nearest_mean
from tests.load_servers import endpoint

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing("mlperf")), reason="the extra mlperf is not installed"),
]
IDS = np.arange(SAMPLES, dtype=np.int64) * 10
SCENARIOS: dict[str, dict[str, Any]] = {
    "SingleStream": {"kind": "single_stream"},
    "MultiStream": {"kind": "multi_stream", "samples_per_query": 8},
    "Server": {"kind": "server", "rate_rps": 400.0},
    "Offline": {"kind": "offline", "requests": 9},
}


def asked(tmp_path: Path, answer: Answer, scenario: str, **load: Any) -> Asked:
    """The answers to LoadGen's own requests."""
    fields = {
        "arrivals": SCENARIOS[scenario],
        "engine": "mlperf_loadgen",
        "duration_s": 0.1,
        "timeout_ms": 5000.0,
    }
    with served(answer) as port:
        return ask(
            LoadSpec.model_validate({**fields, **load}), INPUTS, SOURCE, endpoint("http", port),
            folder=tmp_path / "evaluate", base_dir=tmp_path, target_latency_ms=100.0, logs=tmp_path / "loadgen",
        )  # fmt: skip


def said(found: Asked) -> tuple[dict[str, Any], list[str]]:
    """What LoadGen's log says beside these answers, and what holds against them."""
    assert found.loadgen is not None
    document, reasons = found.loadgen.compared(found.outputs, found.answered, IDS)
    return document, [reason.text for reason in reasons]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_loadgen_asks_every_sample_once(tmp_path: Path, scenario: str) -> None:
    """However long it takes, and though the samples fill no last query: its log has each once, with our answer."""
    found = asked(tmp_path, Right(scores), scenario)
    assert found.answered.all() and not found.statuses and (found.latency_ms > 0).all()
    assert np.array_equal(found.outputs["scores"], SOURCE["scores"])
    document, reasons = said(found)
    assert not reasons and not document["errors"]
    assert (document["mode"], document["scenario"]) == ("AccuracyOnly", scenario)
    assert document["tests"] == found.passes == (2 if scenario == "MultiStream" else 1)
    assert document["logged"] == SAMPLES
    entries = [
        entry
        for log in document["logs"]
        if log.endswith("accuracy.json")
        for entry in json.loads(Path(log).read_text())
    ]
    assert len(entries) == SAMPLES and len({entry["data"] for entry in entries}) == SAMPLES
    assert len(document["logs"]) == 3 * found.passes


def test_answers_of_a_query_go_to_its_own_samples(tmp_path: Path) -> None:
    """LoadGen chooses who is in a query: of a server that errs in batches the last of each gets the first one's."""
    found = asked(tmp_path, WrongInBatches(scores), "MultiStream")
    wrong = np.flatnonzero((found.outputs["scores"] != SOURCE["scores"]).any(axis=1))
    assert len(wrong) == SAMPLES // 8 + 1  # the last five are a query, too
    assert said(found)[1] == []  # what LoadGen was given is what is judged, right or not


def test_two_requests_that_swap_their_answers_are_two_wrong_ones(tmp_path: Path) -> None:
    """In the server scenario several are under way."""
    found = asked(tmp_path, Swaps(scores), "Server")
    wrong = np.flatnonzero((found.outputs["scores"] != SOURCE["scores"]).any(axis=1))
    assert len(wrong) == 2
    assert said(found)[1] == []


def test_a_failure_is_no_answer_in_loadgens_log(tmp_path: Path) -> None:
    """It knows none: it is given nothing for that sample, which is told as unanswered."""
    found = asked(tmp_path, Refuses(scores), "SingleStream")
    assert found.unanswered == 1 and found.statuses == {"http_5xx": 1}
    document, reasons = said(found)
    assert not reasons and document["logged"] == SAMPLES
    (log,) = (log for log in document["logs"] if log.endswith("accuracy.json"))
    assert [entry["qsl_idx"] for entry in json.loads(Path(log).read_text()) if not entry["data"]] == [3]


def test_an_answer_that_is_not_loadgens_is_found(tmp_path: Path) -> None:
    """Of another value in the last bit the sample is named."""
    found = asked(tmp_path, Right(scores), "Offline")
    found.outputs["scores"][7, 0] = np.nextafter(found.outputs["scores"][7, 0], 9, dtype=np.float32)
    document, reasons = said(found)
    assert document["differing"] == {"count": 1, "samples": [70]}
    assert reasons == [
        "1 of 53 samples have another answer in MLPerf LoadGen's accuracy log than the one that is judged: 70"
    ]


#: The server's own processors decode the pictures, which is one more way of an answer to go astray.
YAML = """\
name: loadgen-asks
model: {kind: file, path: model.onnx}
requests: {kind: files, path: pictures}
processors: {side: server, before: [{kind: image, settings: {size: 8}}]}
serve: {backend: onnxruntime, batching: {max_batch_size: 4, max_delay_ms: 1}}
load:
  engine: mlperf_loadgen
  arrivals: {kind: multi_stream, samples_per_query: 4}
  duration_s: 1
  warmup_s: 0.2
  wait_for_quiet_s: 0
evaluate: {dataset: digits-png, samples: 30}
sweep:
  load.protocol: [http, grpc]
"""


def test_a_real_server_is_asked_in_accuracy_mode_over_both_protocols(
    tmp_path: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """A run of its own beside the one that is timed, with its own logs in PerfDB, in which each sample stands once; the
    answers are the source model's, of pictures that the server decodes itself.
    """
    (tmp_path / "submission.yaml").write_text(YAML)
    onnx.save(nearest_mean(), tmp_path / "model.onnx")
    (tmp_path / "pictures").mkdir()
    for at, picture in enumerate(split().train[:8]):
        Image.fromarray((picture * 255).astype(np.uint8).reshape(8, 8)).save(
            tmp_path / "pictures" / f"{at}.png"
        )
    # Whether others disturb the machine is not asked: a run that was disturbed would be repeated.
    env = os.environ | {
        MODE: NOTE,
        settings.PERFDB_URI: perfdb_uri,
        settings.DATA_DIR: str(tmp_path / "data"),
    }
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(tmp_path / "submission.yaml")]
    done = subprocess.run(
        [*command, "--inline", "-o", "json"], env=env, capture_output=True, text=True, timeout=600
    )
    ran = json.loads(done.stdout)
    assert len(ran) == 2, done.stderr
    for each in ran:
        result = perfdb.get_result(each["run_id"])
        assert not [reason for reason in result.verdict.reasons if str(reason.check).startswith("evaluate.")]
        timed, evaluation = result.extensions["mlperf"], result.extensions["evaluation"]
        said = evaluation["mlperf"]
        assert (timed["summary"]["Mode"], said["mode"]) == ("PerformanceOnly", "AccuracyOnly")
        assert (said["scenario"], said["tests"], said["logged"], evaluation["passes"]) == (
            "MultiStream",
            2,
            30,
            2,
        )
        assert said["missing"]["count"] == said["repeated"]["count"] == said["differing"]["count"] == 0
        assert (
            evaluation["from_source"]["compared"] == 30 and evaluation["from_source"]["beyond_tolerance"] == 0
        )
        assert evaluation["under_load"]["measures"]["top1_ratio"]["value"] > 0.8
        kept = {log["name"]: log for log in said["logs"]}
        assert len(kept) == 6 and not kept.keys() & {log["name"] for log in timed["logs"]}
        digests = Counter(
            entry["data"]
            for name in kept
            if name.endswith("accuracy.json")
            for entry in json.loads(perfdb.files.get(kept[name]["id"]))
        )
        assert digests.total() == 30 and "" not in digests
    report = Path(ran[0]["report"]).read_text()
    assert "in its AccuracyOnly mode (MultiStream), a test of its own beside the one that is timed" in report
