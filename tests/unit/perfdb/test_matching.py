"""A filter decided in this process, for what lies in no database: as MongoDB would."""

from __future__ import annotations

import pytest

from inferbench_tasks.modelrepo.card import field
from inferbench_tasks.perfdb.queries import matches, parse

MODEL = {"name": "resnet50", "tags": ["a", "b"], "parameters": 25, "flops": None, "task": "image"}


@pytest.mark.parametrize(
    ("query", "matching"),
    [
        ("", True),
        ("name=resnet*", True),
        ("name=bert,resnet50", True),
        ("name=res", False),
        ("name!=bert", True),
        ("name!=resnet50", False),
        ("tag=b", True),
        ("tag!=b", False),
        ("parameters>=25 parameters<26", True),
        ("parameters>25", False),
        ("flops<5", False),
        ("flops=none", True),
        ("flops!=none", False),
        ("task=image name=x", False),
    ],
)
def test_matching(query: str, matching: bool) -> None:
    """Every operator holds for what it says, and for nothing that was not measured."""
    assert matches(parse(query, lookup=field).filter, MODEL) is matching
