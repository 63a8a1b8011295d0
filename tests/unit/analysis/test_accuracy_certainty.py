"""How sure an accuracy through the server is: by its number of samples, and in pairs where they are the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from inferbench_tasks.analysis.certainty import Change, of_result
from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.analysis.report.differences import NONE_SHOWN, difference
from inferbench_tasks.analysis.report.paired import NOT_DECIDED
from inferbench_tasks.analysis.report.replay import agreement
from inferbench_tasks.analysis.stated import NOT_COUNTED, needed, part_of, share_error, stated
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.quality.paired import paired
from inferbench_tasks.stages.served_accuracy import ServedAccuracy, of_answers
from tests.unit.perfdb.builders import result

ACCURACY = FIGURES["accuracy_ratio"]
SAMPLES = 256
LABELS = np.arange(SAMPLES, dtype=np.int64) % 10


def answered(*wrong: int, seed: int = 0) -> ServedAccuracy:
    """All samples right but these; ``seed``: which samples they were."""
    right = np.ones(SAMPLES, dtype=bool)
    right[list(wrong)] = False
    inputs = {"x": np.random.default_rng(seed).random((SAMPLES, 2))}
    return of_answers(right, inputs, LABELS)


def of(run_id: str, accuracy: ServedAccuracy, **changes: Any) -> ResultDocument:
    """A run of which a result says all."""
    return result(
        run_id,
        submission={"name": "x", "digest": run_id * 8},
        summary={"accuracy_ratio": accuracy.ratio, "accuracy": accuracy.summary()},
        extensions={"accuracy": accuracy.model_dump(include={"samples_digest", "right"})},
        **changes,
    )


def before(run_id: str, right: int, samples: int | None = SAMPLES) -> ResultDocument:
    """A result of an earlier version; None: of how many samples it is nobody knows."""
    return result(
        run_id,
        submission={"name": "x", "digest": run_id * 8},
        summary={"accuracy_ratio": right / SAMPLES},
        extensions={} if samples is None else {"requests": {"samples": samples}},
    )


def change(first: ResultDocument, second: ResultDocument) -> Change:
    documents = [part_of(each) for each in (first, second)]
    pair = [
        of_result(ACCURACY, ACCURACY.stored(each["summary"]) or 0.0, stated=stated(ACCURACY, each))
        for each in documents
    ]
    return Change.between(*pair)


def test_two_shares_by_hand() -> None:
    """250 of 256: p = 250.5 / 257 = 0.974708, sqrt(p (1 - p) / 256) = 0.009813, 1.0049% of it; 240: 0.935798, 0.015319,
    1.6340%. ln(250 / 240) = 0.040822 of hypot(0.010049, 0.016340) = 0.019183 is 2.128: 98.3%. Results of before say as
    much by the samples of their requests. No drift of 5% is added, nor does a second run of the same samples lessen it.
    """
    assert share_error(250 / 256, 256) == pytest.approx(0.009813, abs=1e-6)
    assert share_error(240 / 256, 256) == pytest.approx(0.015319, abs=1e-6)
    old = change(before("b", 240), before("a", 250))
    assert old.size == pytest.approx(0.040822, abs=1e-6) and old.error == pytest.approx(0.019183, abs=1e-6)
    assert old.rises == pytest.approx(float(norm.cdf(2.128)), abs=1e-4) == pytest.approx(0.983, abs=1e-3)
    other = change(of("b", answered(*range(16), seed=1)), of("a", answered(*range(6), seed=2)))
    assert other == old, "of other samples nothing is known in pairs"
    documents = [before("a", 250).model_dump() | {"run_id": f"a{at}"} for at in range(4)]
    documents += [before("b", 240).model_dump() | {"run_id": f"b{at}"} for at in range(4)]
    assert choose(documents, "accuracy_ratio", []).top[0]["beats_next_probability"] == pytest.approx(
        old.rises
    )


def test_the_same_samples_in_pairs_by_hand() -> None:
    """Of 256 samples both answered 240 right, the first alone 12 and the second alone 2: (13 + 3) / (253 x 243) has the
    root 0.016132, and ln(242 / 252) = -0.040491 is 2.510 of it, 99.4%. As two shares of other samples 2.33, 99.0%. It
    is nearly what the interval of ``quality.paired``, of the difference, is made of, over their mean share.
    """
    first, second = of("a", answered(0, 1, 100, 101)), of("b", answered(*range(2, 14), 100, 101))
    assert (first.summary.accuracy_ratio, second.summary.accuracy_ratio) == (252 / 256, 242 / 256)
    found = change(first, second)
    assert found.size == pytest.approx(-0.040491, abs=1e-6) and found.error == pytest.approx(
        0.016132, abs=1e-6
    )
    assert 1 - found.rises == pytest.approx(0.9940, abs=1e-4)
    others = change(before("a", 252), before("b", 242))
    assert others.size / others.error == pytest.approx(-2.33, abs=0.01)
    a, b = (np.array([bit == "1" for bit in f"{int(each.extensions['accuracy']['right'], 16):0256b}"])
            for each in (first, second))  # fmt: skip
    pairs = paired(a, b)
    assert (pairs.only_first, pairs.only_second) == (12, 2)
    error = (pairs.high - pairs.low) / 2 / norm.ppf(0.975)
    assert error / (247 / 256) == pytest.approx(found.error, rel=0.03)
    back = change(second, first)
    assert (back.size, back.error) == pytest.approx((-found.size, found.error))


def test_a_comparison_of_the_same_samples_tells_more() -> None:
    """Forty were hard for both; of the others two and twelve were wrong: ln(204 / 214) = -0.04784 of sqrt((13 + 3) /
    (215 x 205)) = 0.01905 is 2.51, worse. As of other samples it is 1.14 of the errors of both, and nothing.
    """
    hard, other = [*range(40), 200, 201], [*range(40), *range(210, 222)]
    pair = difference(of("a", answered(*hard)), of("b", answered(*other)), "accuracy_ratio", {})
    apart = difference(of("a", answered(*hard)), of("b", answered(*other, seed=3)), "accuracy_ratio", {})
    assert (pair.verdict, apart.verdict) == ("worse", NONE_SHOWN), "what is hard for both says nothing"
    assert pair.ci95 is not None and apart.ci95 is not None and apart.ci95[0] < pair.ci95[0]


def test_without_a_count_nothing_is_decided() -> None:
    """Neither counts nor the samples of the requests: it says why."""
    found = difference(before("a", 250, None), before("b", 240, None), "accuracy_ratio", {})
    assert found.verdict == NOT_DECIDED
    assert found.reason == f"a run has no interval of its accuracy: {NOT_COUNTED}"
    assert difference(before("a", 250), before("b", 249), "accuracy_ratio", {}).verdict == NONE_SHOWN


def test_leaderboard_and_recommendation_show_its_interval() -> None:
    """Wilson's of 250 of 256: (250 + 1.9208) / 259.8416 -+ ... = 0.9498 to 0.9892. One of before has none of its run,
    and a recommendation its normal one. A bound at 0.95 is kept as surely as 0.0266 / 0.009813 tells: 99.6%.
    """
    first, second = of("a", answered(*range(6))), of("b", answered(*range(8)))
    rows = ranked([first.model_dump(), second.model_dump()], ACCURACY, ())
    assert rows[0]["ci95"] == pytest.approx([0.9498, 0.9892], abs=1e-4)
    assert [row["rank"] for row in rows] == [1, 1]
    (row,) = choose([first.model_dump()], "accuracy_ratio", [Bound("accuracy_ratio", False, 0.95)]).top
    assert row["ci95"] == pytest.approx([0.9498, 0.9892], abs=1e-4)
    assert row["keeps_slo_probability"] == pytest.approx(float(norm.cdf(0.0265625 / 0.009813)), abs=1e-4)
    old = before("c", 250).model_dump()
    assert ranked([old], ACCURACY, ())[0]["ci95"] is None
    (row,) = choose([old], "accuracy_ratio", []).top
    assert row["ci95"] == pytest.approx([0.9765625 - 1.96 * 0.009813, 0.9765625 + 1.96 * 0.009813], abs=1e-4)


def test_a_replay_of_the_same_samples_agrees_as_far_as_pairs_tell() -> None:
    """The very same answers agree; thirty samples less do not."""

    def agrees(then: ServedAccuracy, now: ServedAccuracy) -> Any:
        rows = agreement(of("a", then), of("b", now))
        return next(row["agrees"] for row in rows if row["figure"] == "accuracy_ratio")

    assert agrees(answered(1, 2), answered(1, 2)) is True
    assert agrees(answered(1, 2), answered(*range(30))) is False


def test_what_is_read_of_a_result_is_enough() -> None:
    """Whoever reads parts of results reads the counts, the samples of the requests, and which were right."""
    assert {"summary.accuracy", "extensions.requests.samples", "extensions.accuracy"} <= {*needed(ACCURACY)}
    document = of("a", answered(1))
    assert stated(ACCURACY, part_of(document)) == stated(ACCURACY, document.model_dump())
    assert stated(ACCURACY, part_of(document)).answers is not None
