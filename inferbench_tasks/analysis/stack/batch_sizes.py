"""XSP 1: throughput and latency over batch sizes, and the best one."""

from __future__ import annotations

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.stack.base import Analysis, Point, Rows, Subject
from inferbench_tasks.analysis.stack.figures import over_batch_sizes

#: A larger batch has to bring so many times the throughput (XSP, 3.1: doubling it brings 5% at least).
_WORTH = 1.05


class BatchSizes(Analysis):
    """Of saturated runs (``systems.found.saturated``), which ask for as much as the server gives, and are not
    instrumented.
    """

    number = 1
    name = "batch_sizes"
    title = "Throughput and latency over batch sizes"
    formula = (
        "samples/s and median latency of the valid saturated run (offline; in a closed loop without a think time, not "
        "of one user with one sample) with the highest throughput at a batch size; best: the smallest one from which "
        "no larger one brings 5% more throughput; no latency of an offline load, which is that of its length"
    )

    def missing(self, subject: Subject) -> str | None:
        """It takes two batch sizes at least."""
        if len(_highest(subject)) > 1:
            return None
        return (
            "valid runs of this model on this stack and device that ask for all it gives (offline; in a closed loop "
            "without a think time, not of one user with one sample), with two batch sizes: sweep load.batch_size"
        )

    def rows(self, subject: Subject) -> Rows:
        """By batch size."""
        points = _highest(subject)
        best = _best(points)
        return [
            {
                "batch_size": point.batch_size,
                "throughput_sps": point.throughput_sps,
                "latency_ms": point.latency_ms,
                "best": point is best,
                "run": point.run_id,
            }
            for point in points
        ]

    def sentence(self, subject: Subject, rows: Rows) -> str:
        """The best."""
        points = _highest(subject)
        best = _best(points)
        other = _other_batch(subject, best)
        if best is points[-1]:
            return (
                f"The largest batch that was measured, {best.batch_size}, has the highest throughput: "
                f"{_reached(best)}; a larger one may bring more.{other}"
            )
        return f"A batch of {best.batch_size} is the best: {_reached(best)}; none that is larger brings 5% more.{other}"

    def figure(self, subject: Subject, rows: Rows) -> Chart:
        """Both over the batch."""
        return over_batch_sizes(rows, self.title)


def _other_batch(subject: Subject, best: Point) -> str:
    """That all other analyses are of requests of another size, and what helps; empty where they are not."""
    size = subject.profile.about.get("batch_size")
    if size is None or size == best.batch_size:
        return ""
    return (
        f" Layers and kernels of this trace are of a batch of {size}; trace: {{batch_size: {best.batch_size}}} has "
        "those of the best."
    )


def _reached(point: Point) -> str:
    latency = "" if point.latency_ms is None else f", {point.latency_ms:.4g} ms"
    return f"{point.throughput_sps:.4g} samples/s{latency}"


def _highest(subject: Subject) -> list[Point]:
    """The run with the highest throughput at each batch size, by batch size."""
    highest: dict[int, Point] = {}
    for point in subject.points:
        known = highest.get(point.batch_size)
        if known is None or known.throughput_sps < point.throughput_sps:
            highest[point.batch_size] = point
    return [highest[size] for size in sorted(highest)]


def _best(points: list[Point]) -> Point:
    """The smallest batch that no larger one beats by enough."""
    return next(
        point
        for at, point in enumerate(points)
        if all(larger.throughput_sps < _WORTH * point.throughput_sps for larger in points[at + 1 :])
    )
