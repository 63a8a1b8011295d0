"""Streams of tokens: over time, against the rate, by objective, between chunks, by turn, and user against system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts import not_steady
from inferbench_tasks.analysis.charts.latency import name
from inferbench_tasks.analysis.charts.style import (
    MAX_RUNS,
    Chart,
    axis,
    bound,
    chart,
    colour,
    line,
)
from inferbench_tasks.analysis.charts.token_groups import by_cached, by_prompt_tokens
from inferbench_tasks.analysis.charts.token_rates import ttft_against_rate
from inferbench_tasks.figures import FIGURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from inferbench_tasks.analysis.report.runs import RunView

_OBJECTIVES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "latency_ms": "last token"}


def charts(views: Sequence[RunView]) -> list[Chart]:
    """All that there is to draw of these runs, which stream."""
    makers: tuple[Callable[[Sequence[RunView]], Chart | None], ...] = (
        over_time, ttft_against_rate, kept_by_objective, gaps, by_turn, by_prompt_tokens, by_cached, pareto,
    )  # fmt: skip
    return [made for make in makers if (made := make(views)) is not None]


def over_time(views: Sequence[RunView]) -> Chart | None:
    """Output tokens per second of the window; a last part of a second stands as the rate that it had."""
    data = []
    for index, view in enumerate(views[:MAX_RUNS]):
        series = view.figure("tokens.over_time") or {}
        if not series.get("t_s"):
            continue
        rates = [n / s for n, s in zip(series["tokens"], series["seconds"], strict=True)]
        data.append(
            _line(view, index, [t + 0.5 for t in series["t_s"]], rates, "%{y:.4g} tokens/s at %{x:.1f} s")
        )
    return (
        data
        and chart(
            data,
            title="Output tokens per second over time",
            xaxis=axis("time since the measurement began, s"),
            yaxis=axis("output tokens per second", rangemode="tozero"),
        )
    ) or None


def kept_by_objective(views: Sequence[RunView]) -> Chart | None:
    """The share of all due requests that kept each bound, and all of them at once."""
    bounds = [name for name in _OBJECTIVES if any(view.figure(f"tokens.each.{name}") for view in views)]
    if not bounds:
        return None
    data = []
    for index, view in enumerate(views[:MAX_RUNS]):
        each = view.figure("tokens.each") or {}
        values = [view.figure(f"tokens.kept_ratio.{name}") if name in each else None for name in bounds]
        values.append(view.figure("tokens.good_ratio") if each else None)
        data.append(
            {
                "type": "bar",
                "name": name(view),
                "x": [*(_OBJECTIVES[bound] for bound in bounds), "all of them"],
                "y": values,
                "marker": {"color": colour(index), "opacity": 1 if view.valid else 0.35},
                "hovertemplate": "%{y:.2%} of all due requests kept %{x}<extra>%{fullData.name}</extra>",
            }
        )
    if all(value is None for trace in data for value in trace["y"]):
        return None  # the section says why
    asked = ((view.job.get("slo") or {}).get("min_good_ratio") for view in views)
    least = {float(ratio) for ratio in asked if ratio is not None}
    return chart(
        data,
        title="Good requests, by objective",
        xaxis=axis("objective", type="category"),
        yaxis=axis("share of all due requests", tickformat=".0%", range=[0, 1.02]),
        barmode="group",
        shapes=[bound(value, f"at least {value:.0%}", along="y") for value in sorted(least)],
    )


def gaps(views: Sequence[RunView]) -> Chart | None:
    """How long chunks came after each other, of all requests together."""
    data = []
    for index, view in enumerate(views[:MAX_RUNS]):
        bins = view.figure("tokens.gaps_by_length") or {}
        if not bins.get("counts"):
            continue
        edges, total = list(bins["edges_ms"]), sum(bins["counts"])
        # A logarithm has no zero: what came in one read with the chunk before it stands one bin below the first.
        edges[0] = edges[0] or edges[1] / 1.26
        edges[-1] = edges[-1] or edges[-2] * 1.26
        shares = [count / total for count in bins["counts"]]
        data.append(_line(view, index, edges, [*shares, shares[-1]], "%{y:.2%} from %{x:.3g} ms", shape="hv"))
    return (
        data
        and chart(
            data,
            title="Gaps between chunks with tokens",
            xaxis=axis("gap, ms (log; ten bins in each decade)", log=True),
            yaxis=axis("share of gaps", tickformat=".0%", rangemode="tozero"),
        )
    ) or None


def by_turn(views: Sequence[RunView]) -> Chart | None:
    """Median time to the first token by the turn of a conversation, whose history grows."""
    data = []
    for index, view in enumerate(views[:MAX_RUNS]):
        turns = [entry for entry in view.figure("tokens.by_turn") or [] if entry["ttft_p50_ms"] is not None]
        if len(turns) > 1:
            x, y = ([entry[key] for entry in turns] for key in ("turn", "ttft_p50_ms"))
            data.append(_line(view, index, x, y, "%{y:.4g} ms in turn %{x}", mode="lines+markers"))
    return (
        data
        and chart(
            data,
            title="Time to the first token by turn (median)",
            xaxis=axis("turn of the conversation", dtick=1),
            yaxis=axis("time to the first token, ms", rangemode="tozero"),
        )
    ) or None


def pareto(views: Sequence[RunView]) -> Chart | None:
    """Tokens/s of the system against those of a user, as a step function: so much at most, so fast each.

    As MLPerf Endpoints draws it (1000 / p90 of TPOT) where all are loads with a fixed number in flight; else by the
    median of each user's tokens/s.
    """
    valid = [view for view in views if view.valid]
    path = "tokens.mlperf_endpoints.tps_per_user"
    mlperf = all(view.figure(path) is not None for view in valid)
    if not mlperf:
        path = "tokens.user_tokens_per_s.p50"
    up = FIGURES["output_tokens_per_s"]
    points = [(view.figure(path), view.value(up), view) for view in valid]
    known = [(x, y, view) for x, y, view in points if x is not None and y is not None]
    if len(known) < 2:
        return None
    steps = step_function((x, y) for x, y, _ in known)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "not beaten in both",
            "x": [0, *(x for x, _ in steps), steps[-1][0]],
            "y": [steps[0][1], *(y for _, y in steps), 0],
            "line": {"color": "#7F7F7F", "dash": "dot", "width": 1.5, "shape": "vh"},
            "hoverinfo": "skip",
        }
    ]
    for x, y, view in known:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": not_steady.named(up, view),
                "x": [x],
                "y": [y],
                "cliponaxis": False,
                "marker": {
                    "size": 10,
                    "color": colour(list(views).index(view)),
                    "symbol": not_steady.symbol(up, view),
                },
                "hovertemplate": f"{name(view)}: %{{x:.4g}} tokens/s each, %{{y:.4g}} in all"
                f"{not_steady.hover(up, view)}<extra></extra>",
            }
        )
    data += not_steady.legend(up, (view for _, _, view in known))
    what = "1000 / p90 of TPOT, as MLPerf Endpoints" if mlperf else "median"
    return chart(
        data,
        title="Tokens per second of the system against those of a user",
        xaxis=axis(f"tokens per second of a user ({what})", range=[0, 1.1 * max(x for x, _, _ in known)]),
        yaxis=axis("output tokens per second", range=[0, 1.1 * max(y for _, y, _ in known)]),
    )


def step_function(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other is at least as good in both, ascending in x: up to each x so much y is reached.

    Nothing is interpolated: between two points holds the lower one's y.
    """
    front: list[tuple[float, float]] = []
    for x, y in sorted(set(points), reverse=True):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front[::-1]


def _line(
    view: RunView, index: int, x: list[Any], y: list[Any], hover: str, *, mode: str = "lines", **more: Any
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name(view),
        "x": x,
        "y": y,
        "line": line(index, **more),
        "opacity": 1 if view.valid else 0.45,
        "hovertemplate": f"{hover}<extra>%{{fullData.name}}</extra>",
    }
