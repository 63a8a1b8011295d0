"""The digest of all answers."""

from __future__ import annotations

import hashlib

import numpy as np

from inferbench_tasks.contracts.answers_digest import answers_digest
from inferbench_tasks.contracts.arrays import Arrays

SCORES = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)


def test_by_hand() -> None:
    """Name, type, shape and the bytes in little-endian order, of one output."""
    head = b'["scores", "<f4", [2, 2]]\n'
    assert answers_digest({"scores": SCORES}) == hashlib.sha256(head + SCORES.tobytes()).hexdigest()


def test_the_last_bit_counts() -> None:
    """A value's last bit, the sign of zero, a name, a type, a shape and the order of samples are other digests."""
    nearly = SCORES.copy()
    nearly[1, 1] = np.nextafter(np.float32(4), np.float32(5))
    negative = np.zeros(2, dtype=np.float32) * -1
    told: list[Arrays] = [
        {"scores": SCORES},
        {"scores": nearly},
        {"other": SCORES},
        {"scores": SCORES.astype(np.float64)},
        {"scores": SCORES.reshape(4, 1)},
        {"scores": SCORES[::-1]},
        {"scores": negative},
        {"scores": -negative},
        {},
    ]
    assert len({answers_digest(each) for each in told}) == len(told)


def test_how_the_memory_lies_does_not_count() -> None:
    """The order of outputs, big-endian, strided memory and the width of a text's field are the same answers."""
    wide = np.array(["a", "b"], dtype="<U1").astype("<U40")
    one = {"scores": SCORES, "text": np.array(["a", "b"])}
    two = {"text": wide, "scores": np.asfortranarray(SCORES).astype(">f4")}
    assert answers_digest(one) == answers_digest(two)
    assert answers_digest({"t": np.array(["a", "b"])}) != answers_digest({"t": np.array(["ab", ""])})
