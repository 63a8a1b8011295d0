"""What the benchmark of several senders says of its rounds, and what it does not."""

from __future__ import annotations

from benchmarks.load.parts import Sent
from benchmarks.load.senders import Round, own_cores, ratios, verdict


def rounds(*of_linear: float, kept_off: float | None = 0.0) -> list[Round]:
    """Two senders beside one, in machines of another speed each round."""
    return [
        {1: Sent((1000.0 * at,), 0.0), 2: Sent((1000.0 * at * ratio,) * 2, kept_off)}
        for at, ratio in enumerate(of_linear, 1)
    ]


def test_what_several_send_is_compared_with_one_of_the_same_round() -> None:
    """A machine that is three times as fast in another round changes nothing; the median decides."""
    assert ratios(rounds(0.9, 0.96, 1.0), 2) == [0.9, 0.96, 1.0]
    assert verdict(rounds(0.9, 0.96, 1.0), 2, cores=4) == "pass"
    assert verdict(rounds(0.9, 0.94, 1.0), 2, cores=4) == "FAIL"


def test_senders_without_cores_of_their_own_are_not_judged() -> None:
    """However good they look: two need four, two of which the servers have."""
    words = verdict(rounds(1.0, 1.0, 1.0), 2, cores=3)
    assert words == "not judged: 2 senders and their servers need 4 cores, there are 3"


def test_rounds_in_which_they_were_kept_off_their_cores_count_for_nothing() -> None:
    """Neither for nor against: three calm ones are needed, of the one sender too."""
    busy = rounds(0.5, 0.5, 0.5, 0.5, kept_off=0.03)
    assert verdict(busy + rounds(1.0, 1.0, 1.0), 2, cores=4) == "pass"
    words = verdict(busy + rounds(1.0, 1.0), 2, cores=4)
    assert words.startswith("not judged") and "at most 2% of the time in 2 of 6 rounds" in words
    alone = [{1: Sent((1.0,), 0.5), 2: Sent((1.0, 1.0), 0.0)}] * 3
    assert verdict(alone, 2, cores=4).startswith("not judged")


def test_where_the_kernel_tells_no_waits_nothing_is_judged() -> None:
    """Unknown is not calm."""
    assert verdict(rounds(1.0, 1.0, 1.0, kept_off=None), 2, cores=4).startswith("not judged: this kernel")


def test_two_hardware_threads_are_one_core() -> None:
    """One of each physical core; where the kernel tells nothing of them each counts."""
    assert own_cores([0, 1, 2, 3], [[0, 2], [1, 3]]) == [0, 1]
    assert own_cores([1, 2, 3], [[0, 2], [1, 3]]) == [1, 2]
    assert own_cores([2, 5], []) == [2, 5]
