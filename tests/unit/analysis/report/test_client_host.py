"""A load from another host in the report: who sent, the link, the clocks, and what nobody can tell."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from inferbench_tasks.analysis.charts.round_trips import network
from inferbench_tasks.analysis.report.client_host import tables, words
from inferbench_tasks.analysis.report.provenance import provenance_tables
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.sections import sections
from inferbench_tasks.contracts.link import LinkAround, LinkClock, LinkEnd, MeasuredLink, RoundTrips
from inferbench_tasks.output import OutputFormat, emit
from tests.unit.analysis.builders import records, view

MS = 1_000_000


def link(p50_ms: float, clock: LinkClock | None = None) -> MeasuredLink:
    """700 round trips, half of them that long and half longer."""
    times = [round(p50_ms * MS)] * 350 + [round(2 * p50_ms * MS)] * 350
    return MeasuredLink(
        near=LinkEnd(host="sender", home="a", address="10.0.0.1"),
        far=LinkEnd(host="server", home="b", address="10.0.0.2"),
        measured_at="2026-11-27T12:00:00.000+00:00",
        round_trip=RoundTrips.of(times),
        up_mbit_s=94.0,
        down_mbit_s=93.0,
        clock=clock or LinkClock(ahead_s=0.0125, error_s=0.0002),
    )


def client_host(**changes: Any) -> dict[str, Any]:
    """As ``stages.senders.all_hosts`` stores it."""
    around = LinkAround(before=link(0.4), after=link(0.5), drift_ppm=(-2.0, 3.5))
    return {
        "host": "sender",
        "hardware": {"cpu": "Sender CPU", "cores_logical": 8, "cores_usable": 4, "memory_bytes": 2**34},
        "system": {"kernel": "6.1"}, "link": around.model_dump(mode="json"),
        "round_trip_meanwhile": RoundTrips.of([round(0.7 * MS)] * 80).model_dump(),
        "clock_error_ms": 0.4, "clock_reason": "", "unwatched": "", "quiet": None, "monitors": {}, **changes,
    }  # fmt: skip


def away(host: dict[str, Any] | None = None) -> RunView:
    found = view(records(5.0))
    assert found.result is not None
    found.result.extensions["client_host"] = host or client_host()
    found.result.environment["hardware"] = {"cpu": "Server CPU", "cores_logical": 2, "cores_usable": 2}
    return found


def rows(title: str, views: list[RunView]) -> list[list[str]]:
    return next((table["rows"] for table in tables(views) if table["title"].startswith(title)), [])


def test_it_says_who_sent_and_what_lay_between() -> None:
    """Both hosts with processor and cores; the link before, while and after, with rates and the clocks' bound."""
    run = away()
    assert words([run]) == (
        "run.000: sender sent, server served; the median round trip was 0.4 ms before the load, 0.7 ms while it was "
        "measured, 0.5 ms after the load."
    )
    sender, server = rows("The hosts", [run])
    assert sender == ["run.000", "the load's", "sender", "Sender CPU", "4 of 8", "16"]
    assert server == ["run.000", "the server's", "server", "Server CPU", "2", "–"]
    before, meanwhile, after = rows("The network", [run])
    assert before[2:] == ["700", "0.4", "0.4", "0.8", "0.8", "0.8", "94", "93", "+12.500 ± 0.200"]
    assert meanwhile[1:6] == ["while it was measured", "80", "0.7", "0.7", "0.7"]
    assert meanwhile[6] == "–" and meanwhile[8:] == ["–", "–", "–"]
    assert after[1] == "after the load" and after[4] == "0.5"
    assert rows("The clocks", [run]) == [["run.000", "0.4", "-2.0 to +3.5"]]
    assert rows("What could not", [run]) == [
        ["run.000", "p99 of the round trips while it was measured", "80 of them; it takes 662"]
    ]


def test_what_could_not_be_told_has_its_reason() -> None:
    """A link that was lost, clocks that contradict themselves, a host that nobody watched, waits in too coarse time."""
    lost = LinkAround(
        before=link(0.4, LinkClock(ahead_s=None, error_s=None, reason="it was set")),
        after=None,
        reason="it went away",
    )
    host = client_host(
        link=lost.model_dump(mode="json"), round_trip_meanwhile=None, clock_error_ms=None,
        clock_reason="the clocks are not known", unwatched="the watch is gone",
    )  # fmt: skip
    run = away(host)
    assert [row[1:] for row in rows("What could not", [run])] == [
        ["everything that was recorded on the server's host", "the clocks are not known"],
        ["the server's host to the end of the load", "the watch is gone"],
        ["the link after the load", "it went away"],
        ["the server's Unix time before the load", "it was set"],
    ]
    assert len(rows("The network", [run])) == 1 and rows("The clocks", [run])[0][1:] == ["–", "–"]
    (row, *_) = rows("What could not", [away(client_host(clock_error_ms=6.0))])
    assert row[1:] == [
        "when the server's threads waited for a core",
        "recorded in steps of 40 ms, which may be misplaced by 6 ms (at most 4)",
    ]
    summary = {
        **run.summary, "interference": {"waits_ms": None, "findings": [], "watched": True, "hosts": {"client": {}}},
        "quiet": {"reason": "two clocks"},
    }  # fmt: skip
    whole = view(records(5.0), summary=summary)
    assert whole.result is not None
    whole.result.extensions["client_host"] = client_host()
    assert [row[1] for row in rows("What could not", [whole])][-2:] == [
        "what a request waited for a core",
        "percentiles of quiet windows",
    ]


def test_of_two_hosts_that_shared_a_load_each_has_its_rows() -> None:
    """With its name; the server's host and what is said of the run as a whole stand there once."""
    second = client_host(host="other", shards=[1], clock_error_ms=6.0)
    run = away(client_host(shards=[0], second=second))
    assert words([run]).count(
        " sent, server served; "
    ) == 2 and "run.000: other sent, server served" in words([run])
    assert [row[1:3] for row in rows("The hosts", [run])] == [
        ["the load's", "sender"], ["the load's", "other"], ["the server's", "server"],
    ]  # fmt: skip
    assert {row[0] for row in rows("The network", [run])} == {"run.000: sender", "run.000: other"}
    assert [row[:2] for row in rows("The clocks", [run])] == [
        ["run.000: the server's host", "0.4"], ["run.000: other", "6"],
    ]  # fmt: skip
    untold = [row[:2] for row in rows("What could not", [run])]
    assert ["run.000: other", "when its senders' threads waited for a core"] in untold
    chart = network([run])
    assert chart is not None
    labels = {label for trace in chart["data"] for label in trace["y"]}
    assert {"run.000: other: link before the load", "run.000: sender: requests"} <= labels
    assert "run.000: other: requests" not in labels
    facts = {row[0]: row[1] for table in provenance_tables([run]) for row in table["rows"]}
    assert facts["load's host.host"] == "sender" and facts["load's host.second.host"] == "other"


def test_of_three_hosts_that_shared_a_load_each_has_its_rows() -> None:
    """All before the server's, which stands there once; what is said of the run stands with the first."""
    second = client_host(host="other", shards=[1], clock_error_ms=6.0)
    third = client_host(host="last", shards=[2], clock_error_ms=2.0)
    run = away(client_host(shards=[0], second=second, third=third))
    assert [row[1:3] for row in rows("The hosts", [run])] == [
        ["the load's", "sender"], ["the load's", "other"], ["the load's", "last"], ["the server's", "server"],
    ]  # fmt: skip
    assert [row[:2] for row in rows("The clocks", [run])] == [
        ["run.000: the server's host", "0.4"], ["run.000: other", "6"], ["run.000: last", "2"],
    ]  # fmt: skip
    assert [sentence.split()[1] for sentence in words([run]).split("run.000")[1:]] == [
        "sender",
        "other",
        "last",
    ]
    chart = network([run])
    assert chart is not None
    labels = {label for trace in chart["data"] for label in trace["y"]}
    assert "run.000: last: link before the load" in labels
    assert [label for label in labels if label.endswith(": requests")] == ["run.000: sender: requests"]
    facts = {row[0]: row[1] for table in provenance_tables([run]) for row in table["rows"]}
    assert facts["load's host.third.host"] == "last"


def test_the_picture_has_the_link_beside_the_requests() -> None:
    """On one axis: each measurement's percentiles, and those of the latencies."""
    chart = network([away()])
    assert chart is not None
    marks = {trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in chart["data"]}
    assert list(marks["p50"].values())[:3] == [0.4, 0.7, 0.5]
    assert (
        "run.000: link while it was measured" not in marks["p99"]
        and "run.000: link before the load" in marks["p99"]
    )
    assert marks["p50"]["run.000: requests"] == pytest.approx(5.0, rel=0.1)


def test_a_load_of_the_server_s_own_host_has_nothing_of_it() -> None:
    """No section, no picture, no rows; beside one from another host its runs are left out."""
    alone = view(records(5.0), "run.001")
    assert tables([alone]) == [] and words([alone]) == "" and network([alone]) is None
    titles = [section.title for section in sections([alone])]
    assert "The load's host and the network" not in titles
    (section,) = [s for s in sections([alone, away()]) if s.title == "The load's host and the network"]
    assert section.charts and {row[0] for table in section.tables for row in table["rows"]} == {"run.000"}


def test_the_terminal_and_the_provenance_have_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    """``results show`` has each field under its path; the host is among what differs between two runs."""
    run = away()
    assert run.result is not None
    emit(copy.deepcopy(run.result.model_dump()), OutputFormat.table)
    shown = capsys.readouterr().out
    for path in (
        "client_host.host", "client_host.hardware.cores_usable", "link.before.round_trip.p99_ms",
        "link.after.up_mbit_s", "round_trip_meanwhile.p50_ms", "clock_error_ms", "clock_reason", "unwatched",
    ):  # fmt: skip
        assert path in shown, path
    facts = {row[0]: row[1] for table in provenance_tables([run]) for row in table["rows"]}
    assert facts["load's host.host"] == "sender" and facts["load's host.hardware.cores_logical"] == "8"
