"""The table of figures: one name each, earlier names accepted, and what metrics of other packages bring."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from inferbench_tasks.analysis.search.servers import MODELLED
from inferbench_tasks.errors import InputError
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES, SHIPPED, Figures, samples_per_request
from inferbench_tasks.perfdb import fields
from inferbench_tasks.registry import Registry

#: What figures were called in CLI, REST, YAML and stored results before each had one name.
EARLIER = {
    "samples_per_s": "throughput_samples_per_s", "energy_j": "joule_per_request", "accuracy": "accuracy_ratio",
    "energy_j_per_sample": "joule_per_sample", "latency_p99_ms": "p99_ms", "min_throughput_rps": "throughput_rps",
    "max_error_ratio": "error_ratio", "p99": "p99_ms", "throughput": "throughput_rps", "goodput": "goodput_rps",
    "cost": "cost_usd_per_1k", "co2": "co2_g_per_1k", "energy": "joule_per_request",
}  # fmt: skip


class OtherPackages(Registry[Any]):
    """A registry in which classes at hand stand as those of other packages."""

    def __init__(self, **metrics: Any) -> None:
        super().__init__("metric", "tests.no.such.group", {})
        self.metrics = metrics

    def __iter__(self) -> Any:
        return iter(self.metrics)

    def load(self, kind: str, where: str = "") -> Any:
        return self.metrics[kind]

    def origin(self, kind: str) -> str:
        return "somewhere 1.0"


def metric(name: str = "jitter_ms", path: str = "jitter_ms", **more: Any) -> Any:
    """The class of a metric that brings such a figure."""

    class Brings:
        figure: ClassVar[Figure] = Figure(name, path, "ms", "Jitter", "lower", "a formula", **more)

    return Brings


def test_names_and_paths_are_unique() -> None:
    """No two figures share a name, an earlier name or a place in the summary; no setting of a run has their name."""
    names = [name for figure in FIGURES.values() for name in (figure.name, *figure.aliases)]
    names += [name for field in (*fields.SETTINGS, fields.VERDICT) for name in (field.name, *field.aliases)]
    assert len(names) == len(set(names))
    paths = [figure.path for figure in FIGURES.values()]
    assert len(paths) == len(set(paths))
    numbers = [figure.held for figure in FIGURES.values() if figure.held]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


def test_what_a_figure_refers_to_is_there() -> None:
    """The figure of a sample beside that of a request, and the one that it stands behind."""
    for figure in FIGURES.values():
        assert figure.per_sample is None or figure.per_sample in FIGURES
        assert figure.after is None or figure.after in FIGURES
    assert set(MODELLED) <= set(FIGURES)


@pytest.mark.parametrize(("earlier", "name"), EARLIER.items())
def test_earlier_names_are_accepted(earlier: str, name: str) -> None:
    """As a figure and as a field of a query."""
    assert FIGURES.named(earlier) is FIGURES[name]
    assert fields.field(earlier).name == name


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    """A misspelt figure; what lies below an open part is a figure all the same."""
    with pytest.raises(InputError, match=r"'p98_ms'; did you mean 'p9.?_ms'\?.* allowed: mean_ms, p50_ms"):
        FIGURES.named("p98_ms")
    assert (
        FIGURES.named("resources.client.cpu_cores.mean").field_path
        == "summary.resources.client.cpu_cores.mean"
    )
    with pytest.raises(InputError, match="not a figure of a run"):
        FIGURES.named("backend.kind")


def test_a_figure_of_a_sample_follows_where_it_was_not_stored() -> None:
    """From that of a request and the samples of one as measured; what is stored counts first."""
    summary: dict[str, Any] = {
        "throughput_rps": 10.0,
        "throughput_samples_per_s": 40.0,
        "cost_usd_per_1k": 2.0,
    }
    figure = FIGURES["cost_usd_per_1k_samples"]
    assert (figure.stored(summary), figure.value(summary)) == (None, 0.5)
    assert figure.value({**summary, "cost_usd_per_1k_samples": 3.0}) == 3.0
    assert figure.value({"cost_usd_per_1k": 2.0}) is None


def test_a_brought_figure_stands_where_it_says() -> None:
    """Behind the figure that it names, found by its name and its other names, shown in the views it names."""
    table = Figures(
        SHIPPED, OtherPackages(jitter=metric(after="p99_ms", aliases=("jitter",), views=("report",)))
    )
    names = list(table)
    assert names[names.index("p99_ms") + 1] == "jitter_ms"
    assert table.named("jitter").name == "jitter_ms" and table.named("jitter").unit == "ms"
    assert "jitter_ms" in [figure.name for figure in table.on("report")]
    assert (list(table.brought()), table.problems()) == (["jitter"], {})


@pytest.mark.parametrize(
    ("brought", "problem"),
    [
        (object, "it has no `figure`"),
        (metric("p99_ms"), "the name 'p99_ms' is that of the figure p99_ms"),
        (
            metric("jitter_ms", aliases=("accuracy",)),
            "the name 'accuracy' is that of the figure accuracy_ratio",
        ),
        (metric(path="e2e_latency_ms"), "its path 'e2e_latency_ms' is that of the figure mean_ms"),
        (metric(path="cold_start_ms.total_ms.mine"), "its path"),
        (metric("Jitter ms"), "is no name of a figure"),
        (metric(path="../jitter"), "is no path below a summary"),
    ],
)
def test_a_figure_that_can_not_stand_in_the_table_is_left_out_with_why(brought: Any, problem: str) -> None:
    """The table and the other metrics are as without it."""
    table = Figures(SHIPPED, OtherPackages(bad=brought, good=metric("good_ms", "good_ms")))
    assert list(table) == [*(figure.name for figure in SHIPPED), "good_ms"]
    assert list(table.problems()) == ["bad"] and problem in table.problems()["bad"]


def test_a_figure_without_a_better_side_is_not_ranked_by() -> None:
    """The message has those that are."""
    side = Figure("colour_hz", "colour_hz", "Hz", "Colour", None, "a formula")
    table = Figures((*SHIPPED, side), OtherPackages())
    with pytest.raises(InputError, match="neither more nor less of it is better; allowed: mean_ms"):
        table.ranking("colour_hz")


def test_heads_have_the_unit_that_people_read() -> None:
    """MiB for bytes, no unit for shares, which are read in per cent."""
    heads = {name: figure.column for name, figure in FIGURES.items()}
    assert (heads["p999_ms"], heads["rss_bytes"], heads["error_ratio"]) == ("p99.9, ms", "RSS, MiB", "errors")
    assert FIGURES["rss_bytes"].displayed(2**21) == 2.0


def test_samples_of_a_request_are_a_mean_where_sizes_are_mixed() -> None:
    """A trace of requests of one and of four samples has 2.5: not two, which makes an energy a quarter too high."""
    summary = {
        "throughput_rps": 100.0, "throughput_samples_per_s": 250.0, "energy": {"joule_per_request": 1.0},
    }  # fmt: skip
    assert samples_per_request(summary) == 2.5
    assert FIGURES["joule_per_sample"].value(summary) == pytest.approx(0.4)
    assert samples_per_request({**summary, "throughput_samples_per_s": 800.0}) == 8
    assert samples_per_request({}) is None
