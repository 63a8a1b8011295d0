"""A verdict is a value: what decides asks it, its text is for people, and a text alone is read back."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from inferbench_tasks.contracts.verdict import KINDS, VALID, Reason, Verdict, reasons_of, split

STALL = Reason(check="client_stall", figure=203.0, bound=100.0, unit="ms", text="the sender was held up")
STEAL = Reason(check="steal", figure=0.3, bound=0.05, text="the hypervisor took 30.0%")
#: Every reason that the versions could write which stored the text alone, with the check that it is of.
TEXTS = [
    ("empty", "0 requests were measured, at least 1 is needed"),
    ("repeated_records", "3 of 2000 records carry a request id that another record has"),
    (
        "mislabelled_records",
        "7 of 2000 records lie on the other side of the measured window than their phase says",
    ),
    (
        "backward_records",
        "20 of 2000 records have an answer before their request: a clock jumped",
    ),
    (
        "client_stall",
        "the sender of shard 3 was held up for 203.0 ms (at most 100 ms): it was stopped, or the machine was too busy",
    ),
    (
        "client_cpu",
        "the sender of shard 1 used 95% of a core (at most 85%): the client was the bottleneck; use more shards or a "
        "lower load",
    ),
    ("dropped", "10 of 500 requests were never sent (2.00%, at most 0.10%)"),
    (
        "errors",
        "400 of 500 requests failed (80.00%, at most 1.00%): 399 timeout, 1 http_503; the latencies are of the others "
        "only",
    ),
    ("unrecorded", "1000 requests were planned and 995 recorded: 5 differ"),
    (
        "schedule_moved",
        "4 of 1000 requests were recorded with an intended time that was not planned: the schedule was changed under "
        "way",
    ),
    ("lateness_p50", "half of the requests left more than 3.10 ms late (at most 1.00 ms)"),
    (
        "lateness_p99",
        "1% of the requests left more than 30.1 ms late (at most 10.0 ms; the median latency is 5.0 ms)",
    ),
    (
        "lateness_max",
        "the worst request left 203.0 ms late (at most 100 ms): the sender was stopped, or the machine was too busy",
    ),
    ("sent_early", "2 of 1000 requests left before their time, the first by 0.300 ms"),
    (
        "client_share",
        "the p999 is 65.0 ms from the intended moment but 5.0 ms from the send: 60.0 ms of it (at most 20.0 ms) are "
        "the sender's own lateness",
    ),
    ("rate", "45.00 requests/s were sent of 50.00 planned: 10.00% off (at most 1.00%)"),
    (
        "gaps",
        "12.0% of the gaps between requests differ from the plan by more than 5.0 ms (at most 5.0%)",
    ),
    (
        "completions",
        "no answer arrived while requests were being sent: there is no throughput; measure longer",
    ),
    (
        "in_flight",
        "on average 6.40 of 8 users were in flight or thinking: 20.0% off (at most 10.0%)",
    ),
    ("in_flight_max", "10 requests were in flight at once, 8 were asked for"),
    (
        "littles_law",
        "by Little's law 6.40 users were there, 8 were asked for: 20.0% off (at most 10.5%)",
    ),
    ("loadgen_count", "MLPerf LoadGen counted 100 requests and 99 were recorded: 1 differ"),
    (
        "ended_early",
        "the load ended early: 60 of 100 requests had failed (60%, load.max_error_ratio is 0.5)",
    ),
    (
        "ended_early",
        "the load ended early: saturated: 300 requests were waiting for an answer, at most 256 may",
    ),
    ("certificate", "the certificate of the load is not valid"),
    (
        "interference.steal",
        "interference: the hypervisor took 30.0% of the machine's CPU time (at most 5%)",
    ),
    (
        "interference.foreign_cpu",
        "interference: processes that are neither server nor load used 1.20 of 2 cores (60%)",
    ),
    (
        "interference.waited_for_cpu",
        "interference: the server waited for a core in 70% of the time in which it had work to do (at most 50%) while "
        "other processes used 1.20 of 2 cores",
    ),
    (
        "interference.host_clock",
        "interference: the processor's clock moved between 1200 and 3500 MHz",
    ),
    ("interference.gpu_clock", "interference: the GPU's clock moved between 900 and 1590 MHz"),
    (
        "interference.gpu_throttling",
        "interference: the GPU was held back: software thermal slow-down",
    ),
    ("interference.gpu_ecc", "interference: 2 uncorrected ECC error(s) on the GPU"),
    (
        "interference.foreign_gpu_process",
        "interference: 1 process(es) used the GPU that are neither the server's nor a neighbour's",
    ),
    (
        "interference.foreign_gpu_process",
        "interference: 3 processes used the GPU, the server has 1, its neighbours 1",
    ),
    ("neighbour.dropped", "the neighbour mlp: 10 of 500 requests were never sent (2.00%, at most 0.10%)"),
    (
        "neighbour.errors",
        "the neighbour mlp: 400 of 500 requests failed (80.00%, at most 1.00%): 400 timeout; the latencies are of the "
        "others only",
    ),
    (None, "nothing was measured"),
    (None, "something that a package of somebody else found"),
]


@pytest.mark.parametrize(("check", "text"), TEXTS, ids=lambda value: str(value)[:30])
def test_a_reason_that_was_stored_as_a_text_is_known_by_its_check(check: str | None, text: str) -> None:
    """Its figure and its bound are rounded in the text, and are not taken from it."""
    verdict = Verdict.read(f"invalid: {text}")
    assert verdict.reasons == (Reason(text=text, check=check),)
    assert str(verdict) == f"invalid: {text}"
    assert verdict.disturbed == text.startswith("interference: ")
    assert not verdict.valid and verdict.measured


def test_all_reasons_of_a_text_are_told_apart() -> None:
    """Also those that have the separator among their own words."""
    text = f"invalid: {'; '.join(text for _, text in TEXTS)}"
    verdict = Verdict.read(text)
    assert [(reason.check, reason.text) for reason in verdict.reasons] == TEXTS
    assert str(verdict) == text


@pytest.mark.parametrize(
    ("text", "kind", "stage", "words"),
    [
        ("failed: load, The server died", "failed", "load", "The server died"),
        ("failed: serve, no cause given", "failed", "serve", "no cause given"),
        (
            "failed: load, the process that ran it was killed",
            "failed",
            "load",
            "the process that ran it was killed",
        ),
        (
            "failed: serve, it ended without a word: its process was killed, or the next stage never started",
            "failed",
            "serve",
            "it ended without a word: its process was killed, or the next stage never started",
        ),
        (
            "failed: scheduler, its worker is gone; it is run again",
            "failed",
            "scheduler",
            "its worker is gone; it is run again",
        ),
        (
            "failed: load, it was killed, or Airflow lost sight of it, for the last time",
            "failed",
            "load",
            "it was killed, or Airflow lost sight of it, for the last time",
        ),
        ("failed: No space left", "failed", None, "No space left"),
        ("cancelled: load", "cancelled", "load", ""),
    ],
)
def test_a_run_that_did_not_come_to_its_end_names_its_stage(
    text: str, kind: str, stage: str | None, words: str
) -> None:
    """In the text and in the value; a cause keeps its commas and semicolons."""
    verdict = Verdict.read(text)
    assert (verdict.kind, str(verdict)) == (kind, text)
    assert verdict.reasons == (Reason(stage=stage, text=words),)
    assert not verdict.valid and not verdict.measured and not verdict.disturbed


def test_values_say_what_their_texts_always_said() -> None:
    """The texts are those of before there was a value."""
    assert (str(VALID), VALID.valid, VALID.measured) == ("valid", True, True)
    assert Verdict.judged([]) == VALID == Verdict.read("valid")
    assert str(Verdict.judged([STALL, STEAL.within("interference", "interference")])) == (
        "invalid: the sender was held up; interference: the hypervisor took 30.0%"
    )
    assert str(Verdict.failed("serve", "port taken")) == "failed: serve, port taken"
    assert str(Verdict.cancelled("load")) == "cancelled: load"


def test_a_run_is_disturbed_where_nothing_but_the_machine_is_against_it() -> None:
    """A kind of its own, whose text names by what and how much; with a fault of the load's the run is invalid."""
    steal = STEAL.within("interference", "interference")
    verdict = Verdict.judged([steal, steal])
    assert (verdict.kind, verdict.measured, verdict.valid, verdict.bounds_only) == (
        "disturbed",
        True,
        False,
        True,
    )
    assert str(verdict) == "disturbed: the hypervisor took 30.0%; the hypervisor took 30.0%"
    assert [reason.check for reason in verdict.reasons] == [steal.check] * 2
    assert [reason.figure for reason in verdict.reasons] == [steal.figure] * 2
    assert Verdict.of(verdict.as_stored()) == verdict
    mixed = Verdict.judged([steal, STALL])
    assert (mixed.kind, mixed.bounds_only, mixed.disturbed) == ("invalid", False, True)
    with pytest.raises(ValidationError, match="not the machine's doing"):
        Verdict(kind="disturbed", reasons=(STALL,))


def test_a_disturbed_verdict_is_known_by_its_text_alone() -> None:
    """As the API's clients and tables have it: its reasons are the machine's, named where they are known."""
    verdict = Verdict.read(
        "disturbed: the hypervisor took 8.1% of the machine's CPU time (at most 5%); something new"
    )
    assert [reason.check for reason in verdict.reasons] == ["interference.steal", "interference.unknown"]
    assert verdict.bounds_only and verdict.disturbed


def test_only_the_machines_own_doings_are_a_disturbance() -> None:
    """The group of a reason's check decides, whatever its words are."""
    assert Verdict.judged([STALL, STEAL.within("interference", "interference")]).disturbed
    assert not Verdict.judged([STALL.within("neighbour", "interference: the neighbour mlp")]).disturbed
    assert not Verdict.judged([Reason(text="interference: in words alone")]).disturbed


@given(st.sampled_from(KINDS[1:]), st.text(min_size=1).filter(lambda text: not text[0].isspace()))
def test_a_text_is_never_changed_by_being_read(kind: str, words: str) -> None:
    """Whatever stands in it."""
    assert str(Verdict.read(f"{kind}: {words}")) == f"{kind}: {words}"


@pytest.mark.parametrize(
    "text", ["ok", "invalid", "failed: ", "Valid", "valid ", "invalid:x", "cancelled", ""]
)
def test_what_is_no_verdict_is_refused(text: str) -> None:
    """With the forms that are allowed."""
    with pytest.raises(ValueError, match="is no verdict; allowed: 'valid', 'invalid: <reasons>'"):
        Verdict.read(text)


@pytest.mark.parametrize(
    "fields",
    [{"kind": "valid", "reasons": [STALL]}, {"kind": "invalid"}, {"kind": "failed"}, {"kind": "good"}],
)
def test_a_kind_has_the_reasons_that_it_needs(fields: dict[str, Any]) -> None:
    """None against a valid run, one at least against any other."""
    with pytest.raises(ValidationError):
        Verdict.model_validate(fields)


@pytest.mark.parametrize(
    "verdict",
    [
        VALID,
        Verdict.judged([STALL, Reason(text="late")]),
        Verdict.failed("load", "x"),
        Verdict.cancelled("load"),
    ],
)
def test_it_is_stored_as_text_and_value_and_survives_both(verdict: Verdict) -> None:
    """Figures and bounds come back; what is not known is not stored."""
    stored = verdict.as_stored()
    assert stored["verdict"] == str(verdict)
    assert Verdict.of(stored) == verdict
    assert None not in [value for reason in stored["judgement"]["reasons"] for value in reason.values()]
    assert pickle.loads(pickle.dumps(verdict)) == verdict
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_a_document_without_the_value_is_read_by_its_text() -> None:
    """One of an earlier version; and one whose run such a version ended since: the text is the newer."""
    assert Verdict.of({"verdict": "failed: load, x"}) == Verdict.failed("load", "x")
    stale = {**Verdict.cancelled("load").as_stored(), "verdict": "failed: load, x"}
    assert Verdict.of(stale) == Verdict.failed("load", "x")
    assert Verdict.of({}) is None and Verdict.of({"verdict": None, "judgement": None}) is None


def test_reasons_of_a_certificate_are_read_in_both_forms() -> None:
    """Texts, as they were stored before, and values."""
    text = "10 requests were in flight at once, 8 were asked for"
    stored = {"reasons": [text, STALL.model_dump()]}
    assert reasons_of(stored) == (Reason(text=text, check="in_flight_max"), STALL)
    assert reasons_of({}) == ()


def test_tables_show_the_first_word_apart() -> None:
    """Of a verdict's text, and of the status of a run that has none yet."""
    assert split("invalid: late: by 3 ms") == ("invalid", "late: by 3 ms")
    assert split("valid") == ("valid", "") and split("running") == ("running", "")
