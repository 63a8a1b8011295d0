"""What a host tells of its runtimes, and what the host of a shard's device has to be like."""

from __future__ import annotations

import pytest

from inferbench_tasks.bricks.measure.session import setting
from inferbench_tasks.bricks.runtimes.told import asked_by, told_here
from inferbench_tasks.cluster.device import TELLS
from tests.schedulers import device


def test_a_host_is_like_itself() -> None:
    """Whatever it is: what its worker tells is what the stage that cuts there asks for, with any number of cores."""
    here = device("here.cpu", capabilities={TELLS: told_here()})
    for cores in ([0], [0, 1]):
        assert here.lacks(asked_by(setting(cores, len(cores)))) == ""
    assert "runtime onnxruntime" in told_here()


@pytest.mark.parametrize(
    "other",
    [
        {"runtime": "onnxruntime 0.1"},
        {"processor": "another"},
        {"instruction_set": "x86_64-avx9"},
    ],
    ids=str,
)
def test_another_version_processor_or_instruction_set_is_not_alike(other: dict[str, str]) -> None:
    """Each by itself; the reason says what it is there, so that people see what differs."""
    asked = setting([0], 1)
    here = device("here.cpu", capabilities={TELLS: told_here()})
    told = here.lacks(asked_by(asked.model_copy(update=other)))
    assert f"there it is {asked.runtime} on {asked.processor} ({asked.instruction_set})" in told


def test_a_host_that_tells_nothing_of_a_runtime_may_have_it() -> None:
    """As workers of before it was told, and one on which it is installed once it is needed."""
    asked = asked_by(setting([0], 1))
    assert device("old.cpu").lacks(asked) == ""
    assert (
        device("other.cpu", capabilities={TELLS: {"runtime openvino": "openvino 1 on P (x)"}}).lacks(asked)
        == ""
    )
