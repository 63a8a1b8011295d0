"""Loads that came from another host: who sent, the network between both, their clocks, and what nobody can tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.report.missing import WAITED, waits_reason
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.link import LEAST
from inferbench_tasks.contracts.sending_hosts import all_of
from inferbench_tasks.monitors.two_hosts import WAITS_ERROR_NS

#: The measurements of a link, by where they stand in ``client_host``, in the order of their time.
MOMENTS = {"before": "before the load", "meanwhile": "while it was measured", "after": "after the load"}
_WAITS_ERROR_MS = WAITS_ERROR_NS / 1e6
_NOTE = (
    "Of a byte and its answer over one TCP connection, with the waking of both processes in it, as it is in a "
    "request's time; while the load is measured one each 250 ms. Nothing of it is taken off a latency: what of a "
    "request's time was the network's is not known from other packets. Rates: one connection, counted by who receives."
)


def client_hosts(views: Sequence[RunView]) -> list[tuple[RunView, Mapping[str, Any]]]:
    """The runs whose load came from other hosts, with what ``stages.senders.all_hosts`` stored of each of these."""
    return [(view, host) for view, hosts in _by_run(views) for host in hosts]


def _by_run(views: Sequence[RunView]) -> list[tuple[RunView, list[Mapping[str, Any]]]]:
    known = [(view, view.result.extensions.get("client_host")) for view in views if view.result]
    return [(view, all_of(host)) for view, host in known if host and host.get("link")]


def label_of(view: RunView, host: Mapping[str, Any]) -> str:
    """The run; with the host's name where it is one of several that sent."""
    return f"{view.label}: {host['host']}" if "shards" in host else view.label


def is_further(host: Mapping[str, Any]) -> bool:
    """Whether it is not the first of several that sent; what is said of the run as a whole stands with that one."""
    return "shards" in host and not _leads(host)


def _leads(host: Mapping[str, Any]) -> bool:
    """Whether others shared the load with it."""
    return len(all_of(host)) > 1


def round_trips(host: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By the moments of ``MOMENTS``; without those that were not measured."""
    link = host["link"]
    measured = {
        "before": link["before"]["round_trip"],
        "meanwhile": host.get("round_trip_meanwhile"),
        "after": link["after"] and link["after"]["round_trip"],
    }
    return {moment: trip for moment, trip in measured.items() if trip}


def words(views: Sequence[RunView]) -> str:
    """Who sent to whom, and the median round trip between them, in a sentence for each run."""
    sentences = []
    for view, host in client_hosts(views):
        trips = [
            f"{number(trip['p50_ms'])} ms {MOMENTS[moment]}"
            for moment, trip in round_trips(host).items()
            if trip["p50_ms"] is not None
        ]
        way = f"; the median round trip was {', '.join(trips)}" if trips else ""
        far = host["link"]["before"]["far"]
        sentences.append(f"{view.label}: {host['host']} sent, {far['host']} served{way}.")
    return " ".join(sentences)


def tables(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """The hosts, the link, the clocks, and what could not be told with its reason; [] without such a run."""
    away = client_hosts(views)
    if not away:
        return []
    untold = [[label_of(view, host), *row] for view, host in away for row in _untold(view, host)]
    found = [
        _table(
            "The hosts", ["run", "which", "host", "processor", "cores", "memory, GiB"], _hosts(views), (4, 5)
        ),
        {**_link(away), "note": _NOTE},
        _table(
            "The clocks: how far what was recorded on another host may be misplaced beside the load",
            ["run", "at most, ms", "the server's clock gained, ppm"],
            [
                [_clock_of(view, host), number(host.get("clock_error_ms")), _drift(host)]
                for view, host in away
            ],
            (1, 2),
        ),
        _table("What could not be told", ["run", "what", "why"], untold),
    ]
    return [table for table in found if table["rows"]]


def _table(title: str, head: list[str], rows: list[list[str]], numbers: Sequence[int] = ()) -> dict[str, Any]:
    return {"title": title, "head": head, "rows": rows, "numbers": list(numbers)}


def _hosts(views: Sequence[RunView]) -> list[list[str]]:
    rows = []
    for view, hosts in _by_run(views):
        assert view.result is not None
        served: dict[str, Any] = view.result.environment.get("hardware") or {}
        far = hosts[0]["link"]["before"]["far"]["host"]
        rows += [
            _host([view.label, "the load's", host["host"]], host.get("hardware") or {}) for host in hosts
        ]
        rows.append(_host([view.label, "the server's", far], served))
    return rows


def _host(first: list[str], hardware: dict[str, Any]) -> list[str]:
    logical, usable = hardware.get("cores_logical"), hardware.get("cores_usable")
    cores = number(logical) if usable in (None, logical) else f"{number(usable)} of {number(logical)}"
    memory = hardware.get("memory_bytes")
    return [*first, hardware.get("cpu") or "–", cores, number(memory and memory / 2**30)]


def _link(away: Sequence[tuple[RunView, Mapping[str, Any]]]) -> dict[str, Any]:
    rows = []
    for view, host in away:
        for moment, trip in round_trips(host).items():
            link = host["link"].get(moment) or {}
            clock = link.get("clock") or {}
            rows.append(
                [
                    label_of(view, host), MOMENTS[moment], number(trip["count"]),
                    *(number(trip[name]) for name in ("min_ms", *LEAST, "max_ms")),
                    number(link.get("up_mbit_s")), number(link.get("down_mbit_s")), _ahead(clock),
                ]
            )  # fmt: skip
    head = [
        "run", "when", "round trips", "least, ms", "p50, ms", "p90, ms", "p99, ms", "most, ms", "to the server, Mbit/s",
        "from it, Mbit/s", "its Unix time ahead, ms",
    ]  # fmt: skip
    return _table("The network between them", head, rows, range(2, len(head)))


def _ahead(clock: dict[str, Any]) -> str:
    if clock.get("ahead_s") is None or clock.get("error_s") is None:
        return "–"
    return f"{clock['ahead_s'] * 1e3:+,.3f} ± {clock['error_s'] * 1e3:,.3f}"


def _clock_of(view: RunView, host: Mapping[str, Any]) -> str:
    """Whose clock lies elsewhere: the server's host's, beside that of the first that sent; or another sender's."""
    return f"{view.label}: the server's host" if _leads(host) else label_of(view, host)


def _drift(host: Mapping[str, Any]) -> str:
    """The range that the two measurements leave."""
    drift = host["link"].get("drift_ppm")
    return "–" if drift is None else f"{drift[0]:+,.1f} to {drift[1]:+,.1f}"


def _untold(view: RunView, host: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(what, why)."""
    link, error_ms = host["link"], host.get("clock_error_ms")
    if error_ms is None:
        yield "everything that was recorded on the server's host", host.get("clock_reason") or "–"
    elif error_ms > _WAITS_ERROR_MS:
        whose = "its senders'" if is_further(host) else "the server's"
        yield (
            f"when {whose} threads waited for a core",
            f"recorded in steps of 40 ms, which may be misplaced by {number(error_ms)} ms (at most "
            f"{_WAITS_ERROR_MS:g})",
        )
    if host.get("unwatched"):
        yield "the server's host to the end of the load", host["unwatched"]
    if link["after"] is None:
        yield "the link after the load", link.get("reason") or "–"
    elif link.get("drift_ppm") is None:
        yield "how far the clocks drifted", "before or after the load they contradicted themselves"
    for moment, trip in round_trips(host).items():
        missing = [name for name in LEAST if trip[name] is None]
        if missing:
            names = ", ".join(name.removesuffix("_ms") for name in missing)
            least = " and ".join(f"{LEAST[name]:,}" for name in missing)
            yield (
                f"{names} of the round trips {MOMENTS[moment]}",
                f"{trip['count']:,} of them; it takes {least}",
            )
        clock = (link.get(moment) or {}).get("clock") or {}
        if clock.get("reason"):
            yield f"the server's Unix time {MOMENTS[moment]}", clock["reason"]
    if is_further(host):
        return
    if reason := waits_reason(view):
        yield WAITED, reason
    if reason := view.figure("quiet.reason"):
        yield "percentiles of quiet windows", reason
