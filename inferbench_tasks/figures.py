"""The one table of figures: the numbers by which runs are ranked, bounded, compared, watched, shown and drawn.

A figure has one name, from a submission's ``slo`` through PerfDB's queries, the command line, REST and CSV to the
pages; what earlier versions called it is among its ``aliases`` and stays accepted. Everything that lists, sorts or
judges figures is a view of this table. A metric in a file of its own (``metrics/single``) or of another package (entry
point ``inferbench.metrics``) brings its figure along, which then stands here like the others.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from inferbench_tasks.dotted import contains, value_at
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.figure import Figure, View
from inferbench_tasks.figures_of_quality import QUALITY_FIGURES
from inferbench_tasks.figures_of_tokens import TOKEN_FIGURES
from inferbench_tasks.problem import did_you_mean
from inferbench_tasks.registry import Registry

log = logging.getLogger(__name__)

#: What lies below these parts of a summary may be ranked and recommended by without a line here; less is better.
OPEN = ("resources",)
_OPEN_PATH = re.compile(rf"({'|'.join(OPEN)})(\.[A-Za-z0-9_-]{{1,100}}){{1,8}}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_PATH = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+){0,5}")


def mean_size(samples: float | None, requests: float | None) -> float | None:
    """Samples of a request, from as many of both in the same time: whole, or between sizes where they are mixed."""
    if not samples or not requests:
        return None
    mean = samples / requests
    return float(round(mean)) if math.isclose(mean, round(mean), rel_tol=1e-6) else mean


#: What tells how many samples a request had.
_OF_A_SIZE = ("throughput_samples_per_s", "throughput_rps")


def samples_per_request(summary: Mapping[str, Any]) -> float | None:
    """As measured, so that it holds for every kind of arrivals; None where nothing was answered."""
    samples, requests = map(summary.get, _OF_A_SIZE)
    return mean_size(samples, requests)


def _latency(name: str, title: str, held: int, *views: View) -> Figure:
    return Figure(
        f"{name}_ms", f"e2e_latency_ms.{name}", "ms", title, "lower",
        "done - intended moment of good answers; percentiles exact (inverted CDF), none below their floor of samples",
        noun="p99.9" if name == "p999" else name, interval=f"e2e_latency_ms.ci95.{name}", held=held, views=views,
        aliases=(name, f"latency_{name}_ms"),
    )  # fmt: skip


def _quiet(name: str) -> Figure:
    return Figure(
        f"quiet_{name}_ms", f"quiet.latency_ms.{name}", "ms", f"{name} latency in quiet windows", None,
        "as the whole's, of requests meant to leave while nothing disturbed the machine and no backlog of it was left, "
        "and with as much room until the next disturbance",
        noun=f"{name}, quiet", interval=f"quiet.latency_ms.ci95.{name}", views=(),
    )  # fmt: skip


def _of_a_sample(path: str) -> dict[str, Any]:
    """How a figure of a sample follows from that of a request, and what of the summary that reads."""

    def follows(summary: Mapping[str, Any]) -> float | None:
        value, samples = value_at(summary, path), samples_per_request(summary)
        return float(value) / samples if value is not None and samples else None

    return {"otherwise": follows, "follows_from": (path, *_OF_A_SIZE)}


SHIPPED: tuple[Figure, ...] = (
    _latency("mean", "Mean latency", 1, "report"),
    _latency(
        "p50", "Median latency", 2, "report", "terminal", "list", "board", "sweep", "pareto", "replay", "night", "form"
    ),
    _latency("p90", "p90 latency", 3),
    _latency("p95", "p95 latency", 4, "report", "replay", "night", "form"),
    _latency("p99", "p99 latency", 5, "report", "terminal", "list", "board", "sweep", "replay", "form"),
    _latency("p999", "p99.9 latency", 6, "report"),
    Figure(
        "throughput_rps", "throughput_rps", "requests/s", "Throughput in requests", "higher",
        "good answers that arrived in the window / its length", noun="throughput", head="requests/s",
        per_sample="throughput_samples_per_s", counted="ok", held=7, aliases=("throughput", "min_throughput_rps"),
        rate_free=True,
        views=("report", "terminal", "list", "board", "replay", "night", "form"),
    ),
    Figure(
        "throughput_samples_per_s", "throughput_samples_per_s", "samples/s", "Throughput", "higher",
        "samples of the good answers that arrived in the window / its length", noun="throughput", head="samples/s",
        counted="ok", held=13, aliases=("samples_per_s",), views=("report", "terminal", "sweep", "pareto"),
        rate_free=True,
    ),
    Figure(
        "goodput_rps", "goodput_rps", "requests/s", "Goodput", "higher",
        "good answers in the window within the objective's bound of its highest percentile / the window's length; of "
        "streamed tokens requests that kept every bound / the window's length",
        noun="goodput", counted="ok", held=8, rate_free=True, aliases=("goodput",), views=("report",),
    ),
    Figure(
        "max_rate_rps", "max_rate.rps", "requests/s", "Highest rate that keeps the objective", "higher",
        "highest Poisson rate of which a whole load kept the objective, by bisection (`max_rate` arrivals)",
        noun="max rate", per_sample="max_rate_samples_per_s", interval="max_rate.interval.rps", held=21,
        rate_free=True, bracketed=True,
        views=("report", "terminal"),
    ),
    Figure(
        "max_rate_samples_per_s", "max_rate.samples_per_s", "samples/s", "Highest rate that keeps the objective",
        "higher", "max_rate_rps x samples per request", noun="max rate", interval="max_rate.interval.samples_per_s",
        held=22, rate_free=True, bracketed=True, views=("sweep", "board"),
    ),
    Figure(
        "error_ratio", "error_ratio", "1", "Share of requests that failed", "lower",
        "failed requests of the window / its requests", noun="errors", display_unit="%", display_factor=100,
        share_of="requests", worth=("worth.error_ratio.requests",), held=14, aliases=("max_error_ratio",),
        views=("report",),
    ),
    Figure(
        "cpu_cores", "resources.server.cpu_cores.mean", "cores", "CPU of the server", "lower",
        "growth of the CPU clocks of the server's process group over the window / its length", noun="CPU", held=15,
        worsens=False, follows_rate=True,
        views=("report", "terminal", "replay"),
    ),
    Figure(
        "rss_bytes", "resources.server.rss_bytes.max", "bytes", "Memory of the server", "lower",
        "largest sum of the resident memory of the server's processes in the window; shared pages count in each",
        noun="RSS", display_unit="MiB", display_factor=1 / 2**20, held=16, worsens=False, rate_free=True,
        views=("report", "wide", "sweep"),
    ),
    Figure(
        "accuracy_ratio", "accuracy_ratio", "1", "Share of right answers through the server", "higher",
        "labelled samples whose answer, through the server, was right / labelled samples", noun="accuracy",
        display_unit="%", display_factor=100, held=9, worsens=False, rate_free=True, aliases=("accuracy",),
        right_of="accuracy", interval="accuracy.ci95",
        views=("report", "terminal", "board", "replay"),
    ),
    *QUALITY_FIGURES,
    Figure(
        "joule_per_request", "energy.joule_per_request", "J/request", "Energy of a request", "lower",
        "energy drawn in the window / good answers that arrived in it", noun="energy", energy_based=True,
        per_sample="joule_per_sample", held=10, aliases=("energy_j", "energy"), views=("report",),
        rate_free=True,
    ),
    Figure(
        "joule_per_sample", "energy.joule_per_sample", "J/sample", "Energy", "lower",
        "energy drawn in the window / samples of the good answers that arrived in it", noun="energy",
        energy_based=True, held=17, aliases=("energy_j_per_sample",), views=("board", "sweep", "pareto"),
        rate_free=True,
        **_of_a_sample("energy.joule_per_request"),
    ),
    Figure(
        "co2_g_per_1k", "co2_g_per_1k", "g/1,000 requests", "CO₂ of 1,000 requests", "lower",
        "J/request x 1,000 / 3.6e6 J/kWh x g/kWh of the region's electricity", noun="CO₂", energy_based=True,
        per_sample="co2_g_per_1k_samples", held=11, rate_free=True, aliases=("co2",), views=("report",),
    ),
    Figure(
        "co2_g_per_1k_samples", "co2_g_per_1k_samples", "g/1,000 samples", "CO₂", "lower",
        "J/sample x 1,000 / 3.6e6 J/kWh x g/kWh of the region's electricity", energy_based=True, held=18,
        rate_free=True,
        views=("sweep",), **_of_a_sample("co2_g_per_1k"),
    ),
    Figure(
        "cost_usd_per_1k", "cost_usd_per_1k", "USD/1,000 requests", "Cost of 1,000 requests", "lower",
        "USD/h of the cheapest instance with the device / 3,600 s/h / requests per second x 1,000", noun="cost",
        price_based=True, per_sample="cost_usd_per_1k_samples", counted="ok", held=12, aliases=("cost",),
        rate_free=True,
        views=("report",),
    ),
    Figure(
        "cost_usd_per_1k_samples", "cost_usd_per_1k_samples", "USD/1,000 samples", "Cost", "lower",
        "USD/h of the cheapest instance with the device / 3,600 s/h / samples per second x 1,000", noun="cost",
        price_based=True, counted="ok", held=19, rate_free=True, views=("board", "sweep", "pareto"),
        **_of_a_sample("cost_usd_per_1k"),
    ),
    Figure(
        "cold_start_ms", "cold_start_ms.total_ms", "ms", "Cold start", "lower",
        "from the start of the server's process to its first right answer", noun="cold start", held=20,
        rate_free=True,
        views=("report", "wide", "night"),
    ),
    # Neither more nor less of them is better: they stand beside the whole's and never rank in place of them.
    _quiet("p50"),
    _quiet("p95"),
    _quiet("p99"),
    *TOKEN_FIGURES,
)  # fmt: skip


class BringsFigure(Protocol):
    """What the table needs of a metric's class, see ``metrics.base.Metric``."""

    figure: ClassVar[Figure]


def _own_files() -> dict[str, str]:
    """A file of ``metrics/single`` holds the metric of its name: ``tail_ratio.py`` the class ``TailRatio``."""
    folder = Path(__file__).parent / "metrics" / "single"
    kinds = sorted(path.stem for path in folder.glob("[a-z]*.py"))
    return {k: f"inferbench_tasks.metrics.single.{k}:{k.title().replace('_', '')}" for k in kinds}


METRICS: Registry[type[BringsFigure]] = Registry("metric", "inferbench.metrics", _own_files)


class Figures(Mapping[str, Figure]):
    """Every figure by its name, in the table's order; what a metric brings stands behind the figure it names.

    Metrics are imported when all figures are asked for, or a name that the table does not have.
    """

    def __init__(self, shipped: tuple[Figure, ...], metrics: Registry[type[BringsFigure]]) -> None:
        self._shipped = shipped
        self._ours = {name: figure for figure in shipped for name in (figure.name, *figure.aliases)}
        self._metrics = metrics

    def __iter__(self) -> Iterator[str]:
        return (figure.name for figure in self._ordered)

    def __len__(self) -> int:
        return len(self._ordered)

    def __getitem__(self, name: str) -> Figure:
        return self._ours[name] if name in self._ours else self._theirs[name]

    def named(self, name: str) -> Figure:
        """The figure of that name, or of an earlier one, or a path below an open part (``resources.…``).

        InputError lists what is allowed.
        """
        if (figure := self.get(name)) is not None:
            return figure
        if _OPEN_PATH.fullmatch(name):
            return Figure(name, name, "", name, "lower", "as the monitors recorded it", views=())
        hint = did_you_mean(name, [*self._ours, *self._theirs]) or "."
        raise InputError(
            f"Unknown figure {name[:60]!r}{hint} That is not a figure of a run; allowed: {', '.join(self)}"
        )

    def ranking(self, name: str) -> Figure:
        """Like ``named``, of a figure that results can be ranked by; InputError where neither way is better."""
        figure = self.named(name)
        if figure.better is None:
            allowed = ", ".join(f.name for f in self._ordered if f.better is not None)
            raise InputError(f"{figure.name}: neither more nor less of it is better; allowed: {allowed}")
        return figure

    def offered(self, *, streamed: bool = False) -> tuple[Figure, ...]:
        """Those by which runs can be ranked or bounded; ``streamed``: also those of streams of tokens."""
        return tuple(
            figure for figure in self._ordered if figure.better and (streamed or not figure.streamed)
        )

    def on(self, view: View) -> tuple[Figure, ...]:
        """Those that are shown there, in their order."""
        return tuple(figure for figure in self._ordered if view in figure.views)

    def brought(self) -> dict[str, Figure]:
        """Kind of metric -> its figure."""
        return self._loaded[0]

    def problems(self) -> dict[str, str]:
        """Kind of metric -> why it is left out."""
        return self._loaded[1]

    @cached_property
    def _theirs(self) -> dict[str, Figure]:
        return {name: f for f in self.brought().values() for name in (f.name, *f.aliases)}

    @cached_property
    def _ordered(self) -> tuple[Figure, ...]:
        ordered = list(self._shipped)
        for figure in self.brought().values():
            names = [known.name for known in ordered]
            ordered.insert(names.index(figure.after) + 1 if figure.after in names else len(names), figure)
        return tuple(ordered)

    @cached_property
    def _loaded(self) -> tuple[dict[str, Figure], dict[str, str]]:
        figures: dict[str, Figure] = {}
        problems: dict[str, str] = {}
        for kind in self._metrics:
            try:
                figures[kind] = self._checked(self._metrics.load(kind), [*self._shipped, *figures.values()])
            except InferBenchError as error:
                if self._metrics.origin(kind) == "built-in":
                    raise
                log.warning("metric left out kind=%s origin=%s: %s", kind, self._metrics.origin(kind), error)
                problems[kind] = str(error)
        return figures, problems

    @staticmethod
    def _checked(metric: Any, known: list[Figure]) -> Figure:
        """A metric's figure, which can stand beside those that are known; InputError says why it can't."""
        figure = getattr(metric, "figure", None)
        if not isinstance(figure, Figure):
            raise InputError("it has no `figure`, an inferbench_tasks.figures.Figure")
        if bad := [name for name in (figure.name, *figure.aliases) if not _NAME.fullmatch(name)]:
            raise InputError(
                f"{bad[0][:60]!r} is no name of a figure: letters a-z, digits and '_', at most 60"
            )
        if not _PATH.fullmatch(figure.path):
            raise InputError(
                f"{figure.path[:60]!r} is no path below a summary, such as jitter_ms or mine.jitter_ms"
            )
        for other in known:
            if clash := {figure.name, *figure.aliases} & {other.name, *other.aliases}:
                raise InputError(f"the name {clash.pop()!r} is that of the figure {other.name}")
            if contains(figure.path, other.path) or contains(other.path, figure.path):
                raise InputError(f"its path {figure.path!r} is that of the figure {other.name}")
        return figure


FIGURES = Figures(SHIPPED, METRICS)
