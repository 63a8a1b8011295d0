"""The front of the leaderboard's picture."""

from __future__ import annotations

from random import Random

from inferbench_tasks.analysis.recommend.scatter import front
from inferbench_tasks.figures import FIGURES

LATENCY, RATE = FIGURES["p99_ms"], FIGURES["throughput_rps"]
Value = tuple[str, float, float]


def test_the_front_by_hand() -> None:
    """Less latency and more throughput are better; equal ones stand there both; each group has its own."""
    values: list[Value] = [("a", 1, 5), ("a", 2, 5), ("a", 2, 6), ("a", 3, 4), ("a", 1, 5), ("b", 9, 1)]
    assert front(values, LATENCY, RATE) == {0, 2, 4, 5}
    assert front(values, LATENCY, LATENCY) == {0, 3, 4, 5}


def test_nothing_of_its_group_beats_what_is_on_the_front() -> None:
    """Of 300 drawn sets: exactly those that no other of their group is as good as in both and better than in one."""
    drawn = Random(1)
    for _ in range(300):
        count = drawn.randrange(20)
        values: list[Value] = [
            (drawn.choice("ab"), float(drawn.randrange(6)), float(drawn.randrange(6))) for _ in range(count)
        ]

        def beaten(mine: Value, others: list[Value] = values) -> bool:
            return any(
                group == mine[0] and x <= mine[1] and y >= mine[2] and (x < mine[1] or y > mine[2])
                for group, x, y in others
            )

        assert front(values, LATENCY, RATE) == {i for i, value in enumerate(values) if not beaten(value)}
