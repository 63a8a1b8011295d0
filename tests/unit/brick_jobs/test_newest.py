"""Which documents a name stands for: one model, at one size of its free inputs everywhere."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.brick_jobs.interpolation import _apart, _models_of
from inferbench_tasks.brick_jobs.newest import at_last_sizes


def document(
    number: int, batch: int, *of: tuple[str, int | None], isa: str = "x", digest: str = "d"
) -> dict[str, Any]:
    """``of``: the models that it is of: ``made_from``, and how long its texts are; none: of before it was kept."""
    sources = [
        {
            "made_from": key,
            "source": key[0],
            "shapes": [] if length is None else [{"input": "ids", "sizes": [length]}],
        }
        for key, length in of
    ]
    keys = {"made_from": [key for key, _ in of], "sources": sources} if of else {}
    return {
        "_id": number,
        "model": "m",
        "digest": digest,
        "batch_size": batch,
        "instruction_set": isa,
        **keys,
    }


def chosen(*documents: dict[str, Any]) -> list[tuple[int, Any]]:
    """Which are left, and as whose."""
    return [(one["_id"], one.get("made_from")) for one in at_last_sizes(documents)]


def test_all_that_a_name_stands_for_is_of_the_length_that_was_cut_last() -> None:
    """On each instruction set: one that has another length alone has nothing."""
    short, long = ("a40", 40), ("a128", 128)
    found = at_last_sizes(
        [
            document(1, 8, long),
            document(2, 1, short),
            document(3, 1, long, isa="y"),
            document(4, 1, short, isa="z"),
        ]
    )
    assert [(one["_id"], one["shapes"]) for one in found] == [
        (1, (("ids", (128,)),)),
        (3, (("ids", (128,)),)),
    ]


def test_another_model_that_had_the_name_is_none_of_it() -> None:
    """By what it was made from; on another instruction set the name stands for what was cut last there."""
    assert chosen(document(1, 1, ("b", None)), document(2, 8, ("a", None))) == [(1, "b")]
    assert chosen(document(1, 1, ("b", None)), document(2, 8, ("a", None), isa="y")) == [(1, "b"), (2, "a")]


def test_of_several_models_that_are_cut_alike_the_one_that_most_cuts_are_of_counts() -> None:
    """One with other weights was cut at batch 1, too, and came last there: the name's own other sizes stay."""
    own, other = ("a", None), ("b", None)
    assert chosen(document(1, 1, own, other), document(2, 8, own), document(3, 4, own)) == [
        (1, "a"),
        (2, "a"),
        (3, "a"),
    ]


def test_before_it_was_kept_what_models_are_made_of_the_digest_tells() -> None:
    """Such are taken for models without free inputs, beside newer ones of the same digest."""
    assert chosen(document(1, 1), document(2, 8), document(3, 4, digest="e")) == [(1, None), (2, None)]
    assert chosen(document(1, 1, ("a", None)), document(2, 8)) == [(1, "a"), (2, None)]
    assert chosen(document(1, 1, ("a40", 40)), document(2, 8)) == [(1, "a40")]
    assert at_last_sizes([]) == []


def test_models_that_judge_an_interpolation_are_told_apart_by_their_lengths() -> None:
    """One that was cut at 40 in the smaller batch and at 128 in the larger was cut at neither end; of those that share
    all networks at both ends, with other weights, the one that was cut at most sizes counts."""
    wholes: dict[tuple[Any, ...], dict[int, str]] = {}
    for one in (
        document(1, 1, ("a40", 40)), document(2, 8, ("a128", 128)),
        document(3, 1, ("b", None), ("c", None)), document(4, 8, ("b", None), ("c", None)), document(5, 4, ("c", None)),
    ):  # fmt: skip
        for key in _models_of(one):
            wholes.setdefault(key, {}).setdefault(one["batch_size"], f"whole-{one['_id']}")
    assert _apart(wholes, (1, 8)) == [(None, None, "c")]
    assert _models_of(document(6, 1)) == [("m", "d", None)]
