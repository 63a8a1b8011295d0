"""Part of ``load``: how many of the labelled samples the server answers right, asked one by one after the load."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.backends.first_answer import load_samples
from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.contracts.answers import meaning_of
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import Endpoint, Handle, RequestSet
from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.requests.prepare import bytes_of
from inferbench_tasks.stages.base import Context


class ServedAccuracy(Handle):
    """``right``: a bit of each of the ``samples``, the first one's leading, in hexadecimal digits: 1 where the answer
    named its label. ``samples_digest``: of all samples as they were sent, in their order, with their labels.
    """

    samples: int
    right: str
    samples_digest: str

    @property
    def hits(self) -> int:
        """How many were answered right."""
        return int(self.right, 16).bit_count()

    @property
    def ratio(self) -> float:
        """The share of right answers."""
        return self.hits / self.samples

    def summary(self) -> dict[str, Any]:
        """What a result's summary says of it: the counts, with Wilson's interval for other samples of the kind."""
        from inferbench_tasks.quality.intervals import share

        found = share(self.hits, self.samples)
        return {
            "right": self.hits,
            "samples": self.samples,
            "ci95": [found.low, found.high],
            "ci95_method": found.method,
        }


def of_answers(right: NDArray[np.bool_], samples: Arrays, labels: NDArray[np.int64]) -> ServedAccuracy:
    """``right``: whether each sample's answer was; all have samples as their first axis, one at least."""
    bits = "".join("1" if hit else "0" for hit in right)
    return ServedAccuracy(
        samples=len(right),
        right=f"{int(bits, 2):0{-(-len(bits) // 4)}x}",
        samples_digest=samples_digest(samples, labels),
    )


def samples_digest(samples: Arrays, labels: NDArray[np.int64]) -> str:
    """Equal for the very same inputs with the same labels in the same order, and for nothing else."""
    digest = hashlib.sha256(f"{len(labels)}".encode())
    for name, array in sorted(samples.items()):
        digest.update(f"\0{name}\0{array.dtype.str}".encode())
        for row in array:
            digest.update(f"\0{np.shape(row)}\0".encode() + bytes_of(row))
    digest.update(b"\0" + labels.astype("<i8").tobytes())
    return digest.hexdigest()


def accuracy_through_server(
    endpoint: Endpoint, requests: RequestSet, task: str | None, ctx: Context
) -> ServedAccuracy | None:
    """Over all labelled samples, one request each; None without labels, or where answers are no classes.

    A pass of its own, after the load, so that looking at answers costs nothing in the timing.
    """
    if requests.labels_path is None:
        return None
    if requests.processing and requests.processing.answered_path and requests.processing.after:
        return None  # the server answers names or boxes, not scores
    labels: NDArray[np.int64] = np.load(requests.labels_path, allow_pickle=False)
    samples = load_samples(requests.sent_path)
    reference = load_samples(requests.answered_path)
    if meaning_of(task, reference, labelled=True) != "classes":
        return None
    probe = open_probe(endpoint)
    right = np.zeros(len(labels), dtype=bool)
    try:
        for index, label in enumerate(labels.tolist()):
            if index % 50 == 0:
                ctx.progress(index, len(labels), f"checking answers: {index} of {len(labels)} samples")
                if ctx.cancelled():
                    raise CancelledError("Cancelled while the answers were checked")
            answer = probe.infer({name: array[index : index + 1] for name, array in samples.items()})
            right[index] = is_right(answer, reference, label)
    except (Refused, OSError) as error:
        raise LoadError(f"Sample {index} got no answer when the accuracy was checked: {error}") from error
    finally:
        probe.close()
    return of_answers(right, samples, labels)


def is_right(answer: dict[str, NDArray[Any]], reference: dict[str, NDArray[Any]], label: int) -> bool:
    """Whether the answer to one sample names its label, as measures of answers read it (``quality.base.decisions``)."""
    from inferbench_tasks.quality.base import decisions

    return (
        int(decisions({name: output.reshape(1, -1) for name, output in answer.items()}, reference)[0])
        == label
    )
