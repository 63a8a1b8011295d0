"""Abilities by comparison."""

from __future__ import annotations

from inferbench_tasks.contracts.likeness import instead, likeness


def test_only_what_is_told_and_differs_is_unlike() -> None:
    """What nobody told may be alike, and an ability of another form is none of it."""
    asked = likeness("runtime r", "r 1 on P (x)")
    assert instead(asked, {"runtime r": "r 2 on P (x)"}) == "r 2 on P (x)"
    for tells in ({"runtime r": "r 1 on P (x)"}, {"runtime s": "s 9"}, {}):
        assert instead(asked, tells) == ""
    assert instead("nginx over http", {"nginx over http": "none"}) == ""
    assert instead("", {"": "none"}) == ""


def test_what_a_worker_writes_may_be_anything() -> None:
    """Of what has no names nothing is told, and of a long text the beginning is shown."""
    asked = likeness("runtime r", "r 1")
    assert instead(asked, ["runtime r"]) == instead(asked, None) == ""
    assert len(instead(asked, {"runtime r": "x" * 10_000})) == 300
    assert instead(asked, {"runtime r": ["r 1"]}) == "['r 1']"
