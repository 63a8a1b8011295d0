"""The query language: what it means, and what it refuses."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.queries import parse, parse_sort

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPERATORS = {"$and", "$in", "$nin", "$eq", "$gt", "$gte", "$lt", "$lte"}


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("", {}),
        ("backend=triton", {"backend.kind": {"$eq": "triton"}}),
        ("backend=triton,onnxruntime", {"backend.kind": {"$in": ["triton", "onnxruntime"]}}),
        ("batch>=4", {"load.batch_size": {"$gte": 4}}),
        ("p99<12.5", {"summary.e2e_latency_ms.p99": {"$lt": 12.5}}),
        ("user!=x", {"submission.user": {"$nin": ["x"]}}),
        ("since=7d", {"created_at": {"$gte": NOW - timedelta(days=7)}}),
        ("until=2026-02-01", {"created_at": {"$lt": datetime(2026, 2, 2, tzinfo=UTC)}}),
        ("until=2026-02-01T00:00", {"created_at": {"$lte": datetime(2026, 2, 1, tzinfo=UTC)}}),
        ("until=9999-12-31", {"created_at": {"$lte": datetime(9999, 12, 31, tzinfo=UTC)}}),
        ("until=7d", {"created_at": {"$lte": NOW - timedelta(days=7)}}),
        ("since=2026-02-01", {"created_at": {"$gte": datetime(2026, 2, 1, tzinfo=UTC)}}),
        ("energy=none", {"summary.energy.joule_per_request": {"$eq": None}}),
        ("verdict=valid", {"verdict": {"$eq": "valid"}}),
        ("settings.threads=2", {"backend.settings.threads": {"$eq": 2}}),
        ("settings.fast=true", {"backend.settings.fast": {"$eq": True}}),
        ("'device_name=Tesla T4'", {"device.name": {"$eq": "Tesla T4"}}),
        ("user=$ne", {"submission.user": {"$eq": "$ne"}}),
    ],
)
def test_a_term_is_a_condition(query: str, meant: dict[str, Any]) -> None:
    """Each kind of term becomes the MongoDB condition that says the same."""
    assert parse(query, NOW).filter == meant


def test_all_terms_must_hold() -> None:
    """Two terms on one field both count."""
    meant = [{"load.batch_size": {"$gte": 2}}, {"load.batch_size": {"$lt": 8}}]
    assert parse("batch>=2 batch<8").filter == {"$and": meant}


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("resnet*", ["resnet50", "resnet"], ["my-resnet", "RESNET"]),
        ("a.b?", ["a.bc"], ["axbc", "a.b"]),
        ("(x+*", ["(x+)+$"], ["xx"]),
    ],
)
def test_a_pattern_matches_the_whole_text(pattern: str, matching: list[str], others: list[str]) -> None:
    """Only * and ? are special; everything else in a pattern stands for itself."""
    [compiled] = parse([f"model={pattern}"]).filter["model.name"]["$in"]
    assert all(compiled.search(text) for text in matching)
    assert not any(compiled.search(text) for text in others)


def test_a_verdict_by_its_first_word() -> None:
    """``invalid`` finds every reason, and not what merely speaks of it."""
    [pattern] = parse("verdict=invalid").filter["verdict"]["$in"]
    assert pattern.search("invalid: late")
    assert not pattern.search("failed: load, invalid: x")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("modle=x", "Unknown field 'modle'. Did you mean 'model'? Allowed: run, attempt"),
        ("$where=1", "'$where=1' is not understood"),
        ("resnet", "'resnet' is not understood"),
        ("model>x", "model is text and takes = and != only"),
        ("batch=big", "batch: 'big' is no number"),
        ("batch=nan", "batch: 'nan' is no number"),
        ("batch>=", "a value is missing"),
        ("since=yesterday", "an age (90s, 30m, 12h, 7d, 2w) or a date"),
        ("since=999999999w", "before the calendar starts"),
        ("since>7d", "since takes = only"),
        ("verdict=good", "allowed are valid, disturbed, invalid, failed, cancelled, running"),
        ("model='x", "quotes must be closed"),
        ("settings.$where=1", "'settings.$where=1' is not understood"),
        ("model=" + "*a" * 9, "at most 8 * in a pattern"),
        ("model=x " * 51, "at most 50 terms"),
        ("model=" + "x" * 5000, "too long"),
        ("model=" + "x," * 200, "at most 100 values"),
    ],
)
def test_a_wrong_query_is_refused(query: str, message: str) -> None:
    """The message names the term and what is allowed."""
    with pytest.raises(InputError, match=re.escape(message)):
        parse(query)


def test_conditions_on_runs() -> None:
    """Runs without a result are asked by the same words; a figure rules them all out."""
    assert parse("user=x backend=triton").run_filter == {
        "$and": [{"submission.user": {"$eq": "x"}}, {"job.serve.backend": {"$eq": "triton"}}]
    }
    assert parse("user=x p99<5").run_filter is None


def test_sorting() -> None:
    """Several fields, a minus for descending."""
    assert parse_sort("-throughput,p99") == [
        ("summary.throughput_rps", -1),
        ("summary.e2e_latency_ms.p99", 1),
    ]
    assert parse_sort("") == []
    with pytest.raises(InputError, match="Unknown field 'speed'"):
        parse_sort("speed")


@given(st.text(max_size=60))
def test_no_text_becomes_an_operator(text: str) -> None:
    """Whatever is asked, the filter holds known operators and paths only, or the query is refused."""
    try:
        found = parse(text).filter
    except InputError:
        return
    _check_filter(found)


def _check_filter(condition: dict[str, Any]) -> None:
    for key, value in condition.items():
        assert key in OPERATORS or not key.startswith("$")
        for inner in value if key == "$and" else [value]:
            if isinstance(inner, dict):
                _check_filter(inner)
