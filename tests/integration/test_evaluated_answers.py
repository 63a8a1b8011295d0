"""Answers under load beside answers one by one: servers that err in one of the two ways are found, with the samples."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.contracts.verdict import Reason
from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.stages import asked as asking
from inferbench_tasks.stages.answers_apart import passes_apart
from inferbench_tasks.stages.answers_judged import judge
from inferbench_tasks.stages.answers_table import table_of
from inferbench_tasks.stages.asked import Asked, ask, one_by_one
from inferbench_tasks.submission.schema import LoadSpec
from tests.faulty_answers import Answer, Repeats, Right, Swaps, WrongInBatches, served
from tests.load_servers import endpoint

CLASSES = 10
SAMPLES = 53
TOLERANCE_RATIO = 1e-4


def scores(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The model: a sample's first number is its place, whose last digit is its class."""
    named = np.eye(CLASSES, dtype=np.float32)[rows[:, 0].astype(int) % CLASSES]
    given: NDArray[np.float32] = (named * (1 + rows[:, :1] / 100)).astype(np.float32)
    return given


class Slow(Right):
    """Each answer takes its time."""

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        time.sleep(0.02)
        return scores(rows)


class Refuses(Right):
    """The sample 3 is refused."""

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        if 3 in rows[:, 0]:
            raise ValueError("not this one")
        return scores(rows)


INPUTS = {"input": np.stack([np.arange(SAMPLES), np.zeros(SAMPLES)], axis=1).astype(np.float32)}
SOURCE = {"scores": scores(INPUTS["input"])}
LABELS = np.arange(SAMPLES, dtype=np.int64) % CLASSES


def asked(tmp_path: Path, answer: Answer, **load: Any) -> tuple[Asked, Asked]:
    """The answers under that load, and one by one."""
    spec = LoadSpec.model_validate({"duration_s": 20.0, "timeout_ms": 5000.0, **load})
    with served(answer) as port:
        where = endpoint("http", port)
        found = [
            ask(each, INPUTS, SOURCE, where, folder=tmp_path / "evaluate", base_dir=tmp_path)
            for each in (spec, one_by_one(spec))
        ]
    return found[0], found[1]


def judged(found: tuple[Asked, Asked]) -> tuple[dict[str, Any], tuple[Reason, ...]]:
    """What is said of them."""
    apart = passes_apart(*found, SOURCE, "classes", TOLERANCE_RATIO)
    return judge(*found, SOURCE, LABELS, np.arange(SAMPLES), TOLERANCE_RATIO, apart=apart, exact=True)


SCENARIOS: dict[str, dict[str, Any]] = {
    "poisson": {"arrivals": {"kind": "poisson", "rate_rps": 400.0}},
    "short-poisson": {"arrivals": {"kind": "poisson", "rate_rps": 400.0}, "duration_s": 0.08},
    "closed-loop": {"arrivals": {"kind": "closed_loop", "concurrency": 4}, "batch_size": 4},
    "multi-stream": {"arrivals": {"kind": "multi_stream", "samples_per_query": 8}},
    "offline": {"arrivals": {"kind": "offline", "requests": 9}},
}


#: Other orders of the same requests.
LONG = ("offline", "multi-stream")


@pytest.mark.parametrize(
    "scenario", [pytest.param(of, marks=pytest.mark.long) if of in LONG else of for of in SCENARIOS]
)
def test_every_sample_is_asked_once(tmp_path: Path, scenario: str) -> None:
    """Whatever the scenario, and however many passes it takes, each sample has its own answer and all are right."""
    found = asked(tmp_path, Right(scores), **SCENARIOS[scenario])
    document, reasons = judged(found)
    assert not reasons
    for one in found:
        assert one.answered.all() and not one.statuses
        assert np.array_equal(one.outputs["scores"], SOURCE["scores"])
        assert (one.latency_ms > 0).all()
    assert found[0].passes > (1 if scenario == "short-poisson" else 0)
    assert document["under_load"]["measures"]["top1_ratio"]["value"] == 1.0
    assert document["differing"] == {
        "compared": SAMPLES,
        "bound_ratio": TOLERANCE_RATIO,
        "beyond_tolerance": 0,
        "other_class": 0,
        "otherwise": 0,
        "largest_ratio": 0.0,
        "samples": [],
    }
    table = table_of(*found, SOURCE, LABELS, np.arange(SAMPLES))
    assert table.column("answer").to_pylist() == LABELS.tolist()


def test_a_server_that_errs_in_batches_only_is_found(tmp_path: Path) -> None:
    """The samples that stood last in a request are named, and the run does not count."""
    document, reasons = judged(
        asked(
            tmp_path, WrongInBatches(scores), arrivals={"kind": "closed_loop", "concurrency": 2}, batch_size=4
        )
    )
    last_of_each = [*range(3, 52, 4)]  # the 53rd sample is alone in its request
    assert sorted(document["differing"]["samples"]) == last_of_each
    assert document["one_by_one"]["measures"]["top1_ratio"]["value"] == 1.0
    assert document["under_load"]["measures"]["top1_ratio"]["value"] == pytest.approx(1 - 13 / SAMPLES)
    assert {reason.check for reason in reasons} == {"evaluate.differing", "evaluate.from_source"}
    assert "13 of 53 samples are answered otherwise under load than one by one" in str(reasons[0])


def test_a_server_that_swaps_two_answers_is_found(tmp_path: Path) -> None:
    """Two samples get each other's answer: both are named."""
    found = asked(tmp_path, Swaps(scores), arrivals={"kind": "closed_loop", "concurrency": 2})
    document, reasons = judged(found)
    one, other = document["differing"]["samples"]
    assert np.array_equal(found[0].outputs["scores"][one], SOURCE["scores"][other])
    assert np.array_equal(found[0].outputs["scores"][other], SOURCE["scores"][one])
    assert reasons[0].check == "evaluate.differing" and reasons[0].figure == 2


def test_a_server_that_repeats_its_last_answer_is_found(tmp_path: Path) -> None:
    """It errs one by one too: the source model's own answers tell which samples got another one's."""
    found = asked(tmp_path, Repeats(scores), arrivals={"kind": "single_stream"})
    document, reasons = judged(found)
    wrong = np.flatnonzero((found[0].outputs["scores"] != SOURCE["scores"]).any(axis=1))
    assert len(wrong) == SAMPLES // 7
    assert sorted(document["from_source"]["samples"]) == wrong.tolist()
    assert "evaluate.from_source" in {reason.check for reason in reasons}


def test_without_all_answers_there_is_no_figure(tmp_path: Path) -> None:
    """A refused sample is told with the server's status, and no share is given of the others."""
    document, _ = judged(asked(tmp_path, Refuses(scores), arrivals={"kind": "closed_loop", "concurrency": 2}))
    part = document["under_load"]
    assert part["unanswered"] == 1 and part["failures"] == {"http_5xx": 1}
    assert part["withheld"] == "1 of 53 samples got no answer"
    assert "measures" not in part and "classes" not in document


def test_a_scenario_that_asks_nothing_is_an_error(tmp_path: Path) -> None:
    """Where no server listens the evaluation fails and says so, instead of beginning again for ever."""
    spec = LoadSpec.model_validate({"arrivals": {"kind": "closed_loop", "concurrency": 1}, "duration_s": 1.0})
    with served(Right(scores)) as port:
        pass
    with pytest.raises(LoadError):
        ask(spec, INPUTS, SOURCE, endpoint("http", port), folder=tmp_path / "evaluate", base_dir=tmp_path)


def test_what_a_killed_life_of_the_run_left_is_in_nobody_s_way(tmp_path: Path) -> None:
    """The next life asks anew, and leaves nothing of either."""
    left = tmp_path / "evaluate"
    (left / "load").mkdir(parents=True)
    (left / "samples.parquet").write_bytes(b"half of it")
    found = asked(tmp_path, Right(scores), **SCENARIOS["closed-loop"])
    assert [each.unanswered for each in found] == [0, 0]
    assert not left.exists()


def test_a_cancelled_run_asks_no_more(tmp_path: Path) -> None:
    """It is no failure."""
    spec = one_by_one(LoadSpec.model_validate(SCENARIOS["closed-loop"]))
    with served(Right(scores)) as port, pytest.raises(CancelledError, match="while the samples were sent"):
        ask(
            spec, INPUTS, SOURCE, endpoint("http", port), folder=tmp_path / "evaluate", base_dir=tmp_path,
            cancelled=lambda: True,
        )  # fmt: skip


def test_alone_all_samples_are_asked_in_one_pass_which_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the load's duration: it is that of its scenario, which this is none of."""
    monkeypatch.setattr(asking, "_TOLD_S", 0.0)
    spec = one_by_one(LoadSpec.model_validate({**SCENARIOS["closed-loop"], "duration_s": 0.1}))
    told: list[tuple[int, int]] = []
    with served(Slow(scores)) as port:
        found = ask(
            spec, INPUTS, SOURCE, endpoint("http", port), folder=tmp_path / "evaluate", base_dir=tmp_path,
            asking=lambda done, total: told.append((done, total)),
        )  # fmt: skip
    assert found.passes == 1 and found.unanswered == 0
    assert told == sorted(told) and told[0] == (0, SAMPLES) and told[-1] == (SAMPLES, SAMPLES)
    assert any(0 < done < SAMPLES for done, _ in told)
