"""Where the time of a request goes, down to the layers: charts and tables of runs with a ``trace`` block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.charts.style import PALETTE, Chart, axis, chart, text
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.tracing.batches import batch_in_words
from inferbench_tasks.tracing.missing import missing_in_words
from inferbench_tasks.tracing.request_parts import CLIENT_PARTS, POST_PROCESS, PRE_PROCESS
from inferbench_tasks.tracing.share import doubts_in_words, share_in_words

Table = dict[str, Any]
#: So many layers are listed, the longest first, and so many runs have a chart of theirs.
_LISTED, _CHARTS = 15, 4
_ONE_BY_ONE = (
    "The same requests, one by one; application: a server without instruments. The instruments of a level distort "
    "its times, deeper ones do not."
)
_OF_A_LOAD = (
    "The median of all requests of the load, traced or not; application: a server without instruments, and no request "
    "carries a trace."
)
#: Spans that are no parts of a request in the server, but around these.
_AROUND = ("request", *CLIENT_PARTS, "server")


def traced(views: Sequence[RunView]) -> list[RunView]:
    """The runs that were traced, or were to be."""
    return [view for view in views if view.trace]


def words(views: Sequence[RunView]) -> str:
    """One sentence a run: which layers take most of the time, or why nothing is known."""
    sentences = []
    for view in traced(views):
        if problem := view.trace.get("problem"):
            sentences.append(f"{view.label} was not traced: {problem.splitlines()[0]}.")
        elif share := share_in_words(view.trace):
            beside = "".join(
                f" {text}" for text in (doubts_in_words(view.trace), _longest_part(view.trace)) if text
            )
            sentences.append(f"{view.label}: {share}.{beside}{_doubts(view.trace)}")
        elif layers := view.trace.get("layers"):
            sentences.append(f"{view.label}: {most_of_it(layers)}.{_batch(view)}{_doubts(view.trace)}")
        else:
            nothing = f"{view.label}: its runtime tells nothing of its layers."
            sentences.append(f"{nothing}{_batch(view)}{_doubts(view.trace)}")
    return " ".join(sentences)


def _batch(view: RunView) -> str:
    """Of which batch the layers are, where it is no single sample or not that of the load."""
    text = batch_in_words(view.result) if view.result is not None else ""
    return f" {text}" if text else ""


def _longest_part(trace: dict[str, Any]) -> str:
    """In which part of the server most of a traced request's time went, by the medians. Results of before processors
    at the client were traced say no level, and have none of these."""
    parts = [
        part
        for part in trace["parts"]
        if part["part"] not in _AROUND and part.get("level", "model") == "model"
    ]
    if not parts:
        return ""
    first = max(parts, key=lambda part: part["median_ms"])
    return f"In the server {first['part']} takes longest, {number(first['median_ms'])} ms in the median."


def _doubts(trace: dict[str, Any]) -> str:
    """What the trace says against itself; results of before its checks say nothing."""
    checks = trace.get("checks") or {}
    counts = {
        "end before they begin": checks.get("negative"),
        "reach beyond their parents": checks.get("beyond_parents"),
    }
    doubts = "".join(f" Of its spans {count} {what}." for what, count in counts.items() if count)
    if missing := missing_in_words(trace):
        doubts += f" {missing}"
    sent = trace.get("sent") or {}
    if problem := sent.get("problem"):
        doubts += f" The collector has {sent['accepted']:,} of its {sent['spans']:,} spans: {problem}."
    return doubts


def most_of_it(layers: dict[str, Any]) -> str:
    """The fewest layers that take half of the time, and the type that takes most."""
    times = sorted((layer["ms"] for layer in layers["layers"]), reverse=True)
    total, sum_ms, count = sum(times), 0.0, 0
    while count < len(times) and sum_ms < total / 2:
        sum_ms += times[count]
        count += 1
    if not total:
        return (
            f"its {len(times)} layers took too short a time to be told from none, in a run's "
            f"{number(layers['framework_ms'])} ms"
        )
    first = layers["by_type"][0]
    return (
        f"{count} of {len(times)} layers take {sum_ms / total:.0%} of the layers' time, {first['type']} "
        f"{first['share_ratio']:.0%}; the layers add up to {layers['explained_ratio']:.0%} of a run's "
        f"{number(layers['framework_ms'])} ms"
    )


def charts(views: Sequence[RunView]) -> list[Chart]:
    """The layers in their order, coloured by their types."""
    shown = [view for view in traced(views) if view.trace.get("layers")][:_CHARTS]
    return [_chart(view, alone=len(shown) == 1) for view in shown]


def _chart(view: RunView, *, alone: bool) -> Chart:
    document = view.trace["layers"]
    types = [row["type"] for row in document["by_type"]]
    data = []
    for place, kind in enumerate(types):
        rows = [layer for layer in document["layers"] if layer["type"] == kind]
        data.append(
            {
                "type": "bar",
                "name": text(kind),
                "x": [layer["order"] for layer in rows],
                "y": [layer["ms"] for layer in rows],
                "customdata": [text(layer["name"]) for layer in rows],
                "marker": {"color": PALETTE[min(place, len(PALETTE) - 1)]},
                "hovertemplate": "%{customdata}<br>%{y:.4g} ms<extra>%{fullData.name}</extra>",
            }
        )
    return chart(
        data,
        title="Layers in their order" if alone else f"Layers in their order, {view.label}",
        xaxis=axis("layer"),
        yaxis=axis("median time, ms", rangemode="tozero"),
        barmode="stack",
        bargap=0.1,
    )


def tables(views: Sequence[RunView]) -> list[Table]:
    """What the instruments cost, the longest layers, and the time by type."""
    known = [view for view in traced(views) if "problem" not in view.trace]
    shares = [view for view in known if share_in_words(view.trace)]
    whole = [view for view in known if view not in shares]
    return [
        *_overheads(whole, _ONE_BY_ONE),
        *_overheads(shares, _OF_A_LOAD),
        *_parts(shares),
        *_longest(whole),
        *_types(whole),
    ]


def _parts(views: Sequence[RunView]) -> list[Table]:
    rows = [
        [
            view.label,
            f"{view.trace['requests']:,} of {view.trace['of']:,}",
            _part_name(part),
            number(part["median_ms"]),
            number(part["longest_ms"]),
        ]
        for view in views
        for part in view.trace["parts"]
    ]
    head = ["run", "requests", "part", "median, ms", "longest, ms"]
    note = "Of the traced requests alone, which were chosen by chance before they left."
    table = {
        "title": "Traced requests of the load", "head": head, "rows": rows, "numbers": [3, 4], "note": note
    }  # fmt: skip
    return [table] if rows else []


def _part_name(part: dict[str, Any]) -> str:
    """Processors are called alike at the client and in the server, and are nothing to compare there; results of before
    the former were traced say no level."""
    processed = part["part"] in (PRE_PROCESS, POST_PROCESS)
    at_client = processed and part.get("level") == "application"
    return f"{part['part']} at the client" if at_client else str(part["part"])


def _overheads(views: Sequence[RunView], note: str) -> list[Table]:
    rows = []
    for view in views:
        for each in view.trace["overheads"]:
            ends = each["ci95"]
            interval = (
                f"{ends[0]:.2f} to {ends[1]:.2f}" if ends and each is not view.trace["overheads"][0] else "–"
            )
            rows.append(
                [view.label, each["level"], number(each["latency_ms"]), f"{each['ratio']:.2f}", interval]
            )
    head = ["run", "instruments down to", "latency, ms", "times that without", "95%"]
    return (
        [{"title": "What instruments cost", "head": head, "rows": rows, "numbers": [2, 3], "note": note}]
        if rows
        else []
    )


def _longest(views: Sequence[RunView]) -> list[Table]:
    rows = []
    for view in views:
        document = view.trace.get("layers")
        if not document:
            continue
        total = sum(layer["ms"] for layer in document["layers"])
        longest = sorted(document["layers"], key=lambda layer: -layer["ms"])[:_LISTED]
        for layer in longest:
            size = "–" if layer["output_bytes"] is None else number(layer["output_bytes"] / 1024)
            cells = [str(layer["order"]), layer["name"], layer["type"], number(layer["ms"])]
            rows.append([view.label, *cells, _percent(layer["ms"] / total if total else None), size])
    head = ["run", "place", "layer", "type", "median, ms", "share", "output, KiB"]
    return (
        [{"title": "The longest layers", "head": head, "rows": rows, "numbers": [1, 4, 5, 6]}] if rows else []
    )


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.1%}"


def _types(views: Sequence[RunView]) -> list[Table]:
    rows = [
        [view.label, row["type"], str(row["count"]), number(row["ms"]), _percent(row["share_ratio"])]
        for view in views
        for row in (view.trace.get("layers") or {}).get("by_type", [])
    ]
    head = ["run", "type", "layers", "ms", "share"]
    return (
        [{"title": "Time by type of layer", "head": head, "rows": rows, "numbers": [2, 3, 4]}] if rows else []
    )
