"""Requests of a client on another host: on the clock of their server's host, against made-up clocks that are known."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from inferbench_tasks.errors import LoadError
from inferbench_tasks.timing.other_clock import OtherClock
from inferbench_tasks.tracing.assemble import TOLERANCE_NS, Asked, Assembled, assemble
from inferbench_tasks.tracing.share import share_in_words
from inferbench_tasks.tracing.spans import Span
from inferbench_tasks.tracing.two_hosts import at_most, on_our_clock, ways
from tests.two_clocks import MS, Clock, S, asked_around

EPOCH_NS = 1_700_000_000_000_000_000
#: 30 s ahead, and 50 ppm faster.
OTHER = Clock(lambda at_ns: 30 * S + round(at_ns * 50e-6))
START_NS, LASTS_NS = 10 * S, 30 * S
US = 1_000
SPAN = "b" * 16


def request(at_ns: int, **more: Any) -> Asked:
    """One of 6 ms as its client told it: sent after 1 ms, the first byte comes after 5 ms."""
    intended, sent, first, done = (OTHER.at(at_ns + after_ms * MS) for after_ms in (0, 1, 5, 6))
    return Asked(f"{at_ns:032x}", SPAN, 0, intended, sent, first, done, **more)


def served(*at_ns: int) -> dict[str, Any]:
    """What the server tells of them, on our clock: there after 1.5 ms, done after 4; 2.5 ms in all."""
    after_us = {
        "started": 1500, "received": 1600, "decoded": 1700, "enqueued": 1700, "taken": 1800, "joined": 1900,
        "inferred": 3700, "split": 3800, "resumed": 3900, "encoded": 4000,
    }  # fmt: skip
    rows = [
        {
            **{f"{name}_ns": at + us * US for name, us in after_us.items()},
            "trace_id": f"{at:032x}", "parent_id": SPAN, "rows": 1, "unseen": [], "used": {},
        }
        for at in at_ns
    ]  # fmt: skip
    offsets = [{"offset_ns": EPOCH_NS, "error_ns": 50}, {"offset_ns": EPOCH_NS, "error_ns": 50}]
    return {"requests": rows, "runs": [], "layers": [], "lost": 0, "ignored": 0, "epoch_offsets": offsets}


def traced(at_ns: list[int], out_ms: float = 0.1, back_ms: float = 0.1, **more: Any) -> Assembled:
    """Put together as ``trace`` does it, with questions that took that long each way, by chance a little more."""
    clock = OtherClock.told(
        *asked_around(OTHER, START_NS, LASTS_NS, random.Random(1), out_ms=out_ms, back_ms=back_ms)
    )
    assert clock is not None
    return assemble(on_our_clock([request(at, **more) for at in at_ns], clock), served(*at_ns), 0)


MOMENTS = [START_NS + n * 977 * MS for n in range(30)]


@pytest.mark.parametrize(("out_ms", "back_ms"), [(0.1, 0.1), (4.0, 0.1), (0.1, 4.0)])
def test_spans_end_where_they_must_to_the_uncertainty_that_is_stated(out_ms: float, back_ms: float) -> None:
    """Of each request each part at its client, whose clock is half a minute ahead and gains 50 ppm, over half a minute.
    What its server told lies where it was; lengths are those that were told; nothing is called a defect."""
    made = traced(MOMENTS, out_ms, back_ms)
    assert made.defects == made.unanswered == 0
    truly = {"request": (0, 6), "wait to send": (0, 1), "to first byte": (1, 5), "to last byte": (5, 6)}
    roots = {span.trace_id: span for span in made.spans if span.parent < 0}
    assert len(roots) == len(MOMENTS)
    for span in made.spans:
        at_ns = EPOCH_NS + int(span.trace_id, 16)
        error_ns = roots[span.trace_id].attributes["clock_error_ns"]
        if span.level == "application":
            begins_ms, ends_ms = truly[span.name]
            assert abs(span.start_ns - at_ns - begins_ms * MS) <= error_ns
            assert abs(span.end_ns - at_ns - ends_ms * MS) <= error_ns
            # By its own clock, which runs 50 ppm faster.
            assert span.duration_ns == pytest.approx((ends_ms - begins_ms) * MS * (1 + 50e-6), abs=2)
        elif span.name == "server":
            assert (span.start_ns - at_ns, span.end_ns - at_ns) == (1500 * US, 4000 * US)
    errors_ns = [root.attributes["clock_error_ns"] for root in roots.values()]
    assert made.clock["hosts_error_ns"] == max(errors_ns)
    # Half of the shortest way there and back, either way's share of which nobody knows, and half of it once more.
    assert (out_ms + back_ms) / 2 * MS < max(errors_ns) < (out_ms + back_ms) * MS + MS


def test_what_does_not_fit_is_a_defect_beyond_the_uncertainty_alone() -> None:
    """A server's span that begins before its request was sent, by less than the clocks are known to, is none; beyond
    that it is. Of two spans of one host it does not matter how its clock lies to another one."""
    at_ns = MOMENTS[3]
    clock = OtherClock.told(*asked_around(OTHER, START_NS, LASTS_NS, None))
    assert clock is not None
    (asked,) = on_our_clock([request(at_ns)], clock)
    error_ns = asked.clock_error_ns

    def defects(moved_ns: int, name: str | None = None, of: Asked = asked) -> int:
        told = served(at_ns)
        (row,) = told["requests"]
        for key in [f"{name}_ns"] if name else [key for key in row if key.endswith("_ns")]:
            row[key] += moved_ns
        return assemble([of], told, 0).defects

    lead_ns = at_ns + 1500 * US - asked.sent_ns
    assert error_ns > TOLERANCE_NS
    assert defects(-lead_ns - TOLERANCE_NS - error_ns) == 0
    assert defects(-lead_ns - TOLERANCE_NS - error_ns - 1) == 1
    # The same of two spans of one host, and of a request that says nothing of another clock.
    assert defects(-lead_ns - TOLERANCE_NS - 1, of=replace(asked, clock_error_ns=0)) == 1
    assert defects(-(200 * US + TOLERANCE_NS) - 1, "enqueued") == 1


def test_what_processors_did_comes_along() -> None:
    """Their moments are the client's, too, and when the answer was there; how long each worked is no moment."""
    at_ns = MOMENTS[0]
    before = {"started_ns": OTHER.at(at_ns), "ended_ns": OTHER.at(at_ns + MS // 2), "worked_ns": {"image": 7}}
    after = {"started_ns": OTHER.at(at_ns + 6 * MS), "ended_ns": OTHER.at(at_ns + 6 * MS), "worked_ns": {}}
    made = traced([at_ns], before=before, after=after, answered_ns=OTHER.at(at_ns + 6 * MS))
    root, *_ = made.spans
    parts = {span.name: span for span in made.spans if span.level == "application"}
    assert parts["pre-process"].attributes == {"image_ns": 7}
    inside = [span for name, span in parts.items() if name != "request"]
    assert inside[0].start_ns == root.start_ns and inside[-1].end_ns == root.end_ns
    assert all(root.start_ns <= span.start_ns <= span.end_ns <= root.end_ns for span in inside)


def test_a_client_that_does_not_tell_of_the_first_byte_has_none_here_either() -> None:
    """A moment that is none stays none."""
    clock = OtherClock.told(*asked_around(OTHER, START_NS, LASTS_NS, None))
    assert clock is not None
    (moved,) = on_our_clock([replace(request(MOMENTS[0]), first_byte_ns=-1)], clock)
    assert moved.first_byte_ns == -1 and moved.answered_ns is None


def test_requests_of_a_clock_that_was_set_are_none() -> None:
    """Said so, rather than put where they were not."""
    jumps = Clock(lambda at_ns: OTHER.at(at_ns) - at_ns + (15 * MS if at_ns > 25 * S else 0))
    before, meanwhile, _ = asked_around(jumps, START_NS, LASTS_NS, None)
    _, _, after = asked_around(OTHER, START_NS, LASTS_NS, None)
    clock = OtherClock.told(before, meanwhile, after)
    assert clock is not None  # before and behind it there was no telling
    with pytest.raises(LoadError, match="one of them was set"):
        on_our_clock([request(MOMENTS[15])], clock)


def test_of_the_way_between_both_no_part_below_the_uncertainty_is_told() -> None:
    """Both ways are 1.6 ms together, whatever the clocks: 0.6 there, of which the server read the body for 0.1, and 1
    back, each of which is told only where it is more than they may be wrong by."""
    both_ms = pytest.approx(1.6, abs=0.001)
    spans = traced(MOMENTS).spans
    told = ways(spans, 100 * US)
    assert told == {
        "requests": 30,
        "both_ms": both_ms,
        "there_ms": pytest.approx(0.6, abs=0.1),
        "back_ms": pytest.approx(1.0, abs=0.1),
    }
    assert ways(spans, 800 * US) == {**told, "both_ms": both_ms, "there_ms": None}
    assert ways(spans, 2 * MS) == {"requests": 30, "both_ms": both_ms, "there_ms": None, "back_ms": None}
    assert ways([span for span in spans if span.name != "server"], 0) is None


def test_the_words_of_a_trace_say_from_where_it_was_asked() -> None:
    """And to what its clocks are known; of one host there is no word."""
    trace: dict[str, Any] = {"one_in": 20, "requests": 5, "of": 100, "failed": 0, "unanswered": 0}
    plain = share_in_words(trace)
    hosts = {"client": "loader", "server": "gpu1", "error_ms": 0.1249, "clocks": [], "ways": None}
    assert plain is not None and plain.endswith("by chance")
    assert share_in_words({**trace, "hosts": hosts}) == (
        f"{plain}; they were sent by loader and lie on the clock of their server's host, gpu1, to within 0.13 ms: what "
        "took less between the two is told of neither way"
    )
    for each_ms, words in ((None, ""), (0.75, " (0.75 there, 0.75 back)")):
        ways = {"requests": 5, "both_ms": 1.5, "there_ms": each_ms, "back_ms": each_ms}
        said = share_in_words({**trace, "hosts": {**hosts, "ways": ways}})
        assert said is not None
        assert said.endswith(f"told of neither way; there and back took 1.5 ms in the median{words}")


def test_of_requests_that_all_failed_no_clock_is_called_known() -> None:
    """No error of nought stands there."""
    hosts: dict[str, Any] = {
        "client": "loader",
        "server": "gpu1",
        "error_ms": None,
        "clocks": [],
        "ways": None,
    }
    said = share_in_words(
        {"one_in": 20, "requests": 3, "of": 60, "failed": 3, "unanswered": 0, "hosts": hosts}
    )
    assert said is not None and said.endswith("the clock of their server's host, gpu1")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.1249, "0.13"), (0.12, "0.12"), (1.949, "2.0"), (9.96, "10.0"), (123.4, "130"), (0, "0")],
)
def test_a_bound_is_never_rounded_down(value: float, shown: str) -> None:
    """Two digits, and nothing is taken away."""
    assert at_most(value) == shown


def test_spans_of_one_host_say_nothing_of_another_clock() -> None:
    """Their documents are what they were."""
    made = assemble([request(MOMENTS[0])], None, 0)
    assert made.clock == {} and all("clock_error_ns" not in span.attributes for span in made.spans)
    assert isinstance(made.spans[0], Span)
