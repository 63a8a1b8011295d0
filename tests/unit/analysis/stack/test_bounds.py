"""What bounds the longest layers, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inferbench_tasks.analysis.stack.base import ANALYSES, Subject
from inferbench_tasks.analysis.stack.bounds import bounds_in_words, bounds_of
from tests.unit.analysis.stack.spans import layer, profile, sentence_of
from tests.unit.analysis.stack.test_kernels import LAYERS, aten, kernels, onednn

#: As of test_kernels: conv is bound by arithmetic, fc by memory, of odd nothing is known; in the runs without the
#: instruments of kernels they take 60, 25 and 5 us, and 10 are between them.
LONGEST = [layer("conv", "conv2d", 60), layer("fc", "linear", 25), layer("odd", "custom", 5)]
SUBJECT = Subject(profile([LONGEST]), kernels=kernels())


def sentence(subject: Subject) -> str:
    """Of the table of layers."""
    return sentence_of(ANALYSES.load("layers")(), subject)


def test_the_bottleneck_says_what_bounds_it() -> None:
    """Of three layers one is bound by each, and of one nobody tells; of a trace without kernels nothing is said."""
    assert bounds_of(SUBJECT, SUBJECT.profile.layers) == ["arithmetic", "memory", None]
    assert sentence(SUBJECT) == (
        "3 of 3 layers take 90% of a run's 0.1 ms; of these 1 is memory-bound, 1 is bound by arithmetic, of 1 it is "
        "not known; all layers add up to 90.0% of it."
    )
    for without in (None, kernels(ceilings=None), kernels(threads=2)):
        assert sentence(replace(SUBJECT, kernels=without)).startswith(
            "3 of 3 layers take 90% of a run's 0.1 ms; all"
        )


def test_layers_that_are_all_bound_by_one_thing_are_told_in_one_sentence() -> None:
    """How many of how many take how much of the time, and that they are memory-bound."""
    made = {
        name: onednn("inner_product", at, at + 30, 1_000, 1_000, data_type="f32")
        for at, name in ((0, "a"), (30, "b"), (60, "c"))
    }
    light = [(name, "linear", aten("linear", each[2], each[3], each)) for name, each in made.items()]
    layers = [*(layer(name, "linear", 27) for name in "abc"), layer("d", "relu", 9)]
    said = sentence(Subject(profile([layers]), kernels=kernels(light)))
    assert said.startswith("3 of 4 layers take 81% of a run's 0.1 ms; they are memory-bound; all layers")


def test_layers_of_one_name_are_told_apart_by_their_order() -> None:
    """The first of two is bound by memory, the second, which takes longer, by arithmetic."""
    light = aten("conv2d", 0, 20, onednn("convolution", 0, 20, 1_000, 1_000, data_type="f32"))
    heavy = aten("conv2d", 20, 80, onednn("convolution", 20, 80, 2_000_000, 1_000, data_type="f32"))
    found = kernels([("c", "conv2d", light), ("c", "conv2d", heavy)])
    subject = Subject(profile([[layer("c", "conv2d", 20), layer("c", "conv2d", 60)]]), kernels=found)
    assert bounds_of(subject, subject.profile.layers) == ["memory", "arithmetic"]
    assert bounds_of(subject, subject.profile.layers[1:]) == ["arithmetic"]
    more = replace(subject, profile=profile([[layer("c", "conv2d", 9) for _ in range(3)]]))
    assert bounds_of(more, more.profile.layers) == ["memory", "arithmetic", None]


def test_a_layer_is_not_judged_by_the_least_of_its_kernels() -> None:
    """Of one whose counted kernels take 10 of 60 us nothing is said."""
    mostly = aten(
        "custom", 0, 60, onednn("convolution", 0, 10, 1_000, 1_000, data_type="f32"), aten("odd", 10, 60)
    )
    subject = Subject(
        profile([[layer("c", "custom", 60)]]), kernels=kernels([("c", "custom", mostly), *LAYERS])
    )
    assert bounds_of(subject, subject.profile.layers) == [None]


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (["memory"] * 3, "they are memory-bound"),
        (["arithmetic"] * 2, "they are bound by arithmetic"),
        (["memory"], "it is memory-bound"),
        (["memory", "arithmetic", "memory"], "of these 2 are memory-bound, 1 is bound by arithmetic"),
        (["memory", None, None], "of these 1 is memory-bound, of 2 it is not known"),
        ([None, None], ""),
        ([], ""),
    ],
)
def test_words(bounds: list[str | None], words: str) -> None:
    """All alike in a word, else how many of each and of how many nothing is known; nothing of nothing."""
    assert bounds_in_words(bounds) == words
