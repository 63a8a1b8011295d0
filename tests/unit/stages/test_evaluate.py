"""What is said of answers, from made-up ones."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.stages.asked import Asked
from inferbench_tasks.stages.evaluate import judge, table_of

SOURCE = {"scores": np.eye(3)}
LABELS = IDS = np.arange(3, dtype=np.int64)


def all_or_none(answered: bool) -> Asked:
    """The source's answers to all samples, or no answer to any."""
    return Asked(
        outputs=SOURCE if answered else {},
        answered=np.full(3, answered),
        latency_ms=np.full(3, 1.0 if answered else np.nan),
        statuses={} if answered else {"timeout": 3},
        passes=1,
    )


def test_figures_are_withheld_where_nothing_is_answered() -> None:
    """Under load, alone, or both: the reason stands where the figures would, and nothing is compared."""
    for load, alone in ((False, True), (True, False), (False, False)):
        asked = all_or_none(load), all_or_none(alone)
        document, _ = judge(*asked, SOURCE, LABELS, IDS, 1e-4, exact=True)
        assert document["differing"]["compared"] == document["differing"]["beyond_tolerance"] == 0
        for part, there in ((document["under_load"], load), (document["one_by_one"], alone)):
            assert part.get("withheld") == (None if there else "3 of 3 samples got no answer")
            assert ("measures" in part) == ("answers_digest" in part) == there
        assert table_of(*asked, SOURCE, LABELS, IDS).column("answer").null_count == (0 if load else 3)
