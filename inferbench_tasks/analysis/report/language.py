"""Streams of tokens in words and tables: whether the figures are the server's, and what each figure means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.report import server_side
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.mlperf_endpoints import regions
from inferbench_tasks.loadgen.token_summary import by_reason

#: Checks of the certificate that fail by the client's doing.
_CLIENTS = {
    "client_stall", "client_cpu", "client_stalled", "client_share_p50", "stamp_delay_p99", "clock_step",
    "lateness_p50", "lateness_p99", "chunk_ceiling",
}  # fmt: skip
#: A median wait before the send that is longer than this, and than a tenth of the time to the first token, is told.
_WAIT_MS = 1.0
#: The network as it is: nothing is emulated (`configs/networks.yaml`).
_NO_NETWORK = "lan"


def streams(views: Sequence[RunView]) -> list[RunView]:
    """The measured runs whose answers are streams of tokens."""
    return [view for view in views if view.measured and view.figure("tokens")]


def whose(view: RunView) -> str:
    """Whether the times are the server's, the client's or a network's between them, in a sentence."""
    certificate = (view.result.certificate if view.result else None) or {}
    failed = [
        check for check in certificate.get("checks", []) if not check["ok"] and check["name"] in _CLIENTS
    ]
    if failed:
        return f"{view.label}: the client had its part: {'; '.join(check['reason'] for check in failed)}."
    ttft, from_send = (view.figure(f"tokens.{name}.p50") for name in ("ttft_ms", "ttft_from_send_ms"))
    if ttft is None or from_send is None:
        return (
            f"{view.label}: whose the time to the first token is can't be told, for there is no median of it."
        )
    figures = certificate.get("figures") or {}
    delay, cpu = figures.get("stamp_delay_p99_ms"), figures.get("client_cpu_ratio")
    parts = []
    if delay is not None:
        parts.append(f"chunks were read {number(delay)} ms (p99) after they arrived, which is in no figure")
    if cpu is not None:
        parts.append(f"the sender used {cpu:.0%} of a core")
    beside = f" ({', '.join(parts)})" if parts else ""
    if ttft - from_send > max(_WAIT_MS, 0.1 * ttft):
        return (
            f"{view.label}: of a median of {number(ttft)} ms to the first token {number(from_send)} ms followed the "
            f"send: requests waited for a free connection first, as users would{beside}."
        )
    network = (view.result.load.network if view.result else None) or _NO_NETWORK
    also = "" if network == _NO_NETWORK else f" and those of the emulated network ({network})"
    return (
        f"{view.label}: the times are the server's{also}: {number(from_send)} of {number(ttft)} ms (medians) to the "
        f"first token followed the send{beside}."
    )


def words(views: Sequence[RunView]) -> str:
    """Of all of them, and what was said to be no model: a line each; what is the same of several is said once."""
    said = [line for view in views for line in (whose(view), server_side.verdict(view)) if line]
    of_runs: dict[str, list[str]] = {}
    for view in views:
        if models := [name for name in view.figure("tokens.server") or [] if "no model" in name]:
            text = f"the server says that it is no model ({models[-1]})."
            of_runs.setdefault(text, []).append(view.label)
        for reason, names in by_reason(view.figure("tokens") or {}).items():
            of_runs.setdefault(f"no {' and no '.join(names)}: {reason}.", []).append(view.label)
    return "\n".join([*said, *(f"{', '.join(labels)}: {text}" for text, labels in of_runs.items())])


def table(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """Every figure of streams that any of them has, a row each; its definition is the head's hint."""
    rows, hints = [], []
    for figure in FIGURES.values():
        if figure.streamed and any(view.value(figure) is not None for view in views):
            name = f"{figure.title}, {figure.shown_unit}" if figure.shown_unit else figure.title
            rows.append([name, *(_cell(view, figure) for view in views)])
            hints.append(figure.formula)
    head = ["figure", *map(_named, views)]
    title = "Figures of streamed tokens (point at a name for its definition)"
    tables = [
        {"title": title, "head": head, "rows": rows, "hints": hints, "numbers": list(range(1, len(head)))}
    ]
    return (tables if rows else []) + _endpoints(views)


def _cell(view: RunView, figure: Figure) -> str:
    """A figure as the table of runs has it: a bound where the machine was disturbed."""
    value = view.value(figure)
    if value is None:
        return number(None)
    text = number(figure.displayed(value))
    return f"{figure.bound_sign}{text}" if view.bounds_only else text


def _named(view: RunView) -> str:
    """The run, and what its figures are worth where that is not what they say."""
    return view.label if view.valid else f"{view.label} ({view.state})"


def _endpoints(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """The loads with a fixed number of requests in flight, as MLPerf Endpoints has its points."""
    points = [(view, point) for view in views if (point := view.figure("tokens.mlperf_endpoints"))]
    if not points:
        return []
    named = regions(point["concurrency"] for _, point in points) or {}
    names = ("system_tps", "tps_per_user", "ttft_p90_ms")
    note = "By MLPerf Endpoints' definitions (rules v1.0, sections 4.1 and 5.5); no submission to it."
    if not named:
        note += " Regions need a lowest concurrency of 1 to 32 and a highest above 32."
    return [
        {
            "title": "As points of MLPerf Endpoints",
            "note": note,
            "head": ["run", "concurrency", "region", *names],
            "rows": [
                [
                    _named(view),
                    point["concurrency"],
                    named.get(point["concurrency"], "–"),
                    *(number(point[n]) for n in names),
                ]
                for view, point in points
            ],
            "numbers": [1, 3, 4, 5],
        }
    ]
