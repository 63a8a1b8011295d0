"""Stage ``load``: the traffic, and the raw record of every request."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.arrivals.max_rate import MaxRate
from inferbench_tasks.backends.first_answer import load_samples
from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.contracts.answers import meaning_of
from inferbench_tasks.contracts.handles import Endpoint, RequestSet
from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.networks.base import emulated
from inferbench_tasks.stages import max_rate, one_load
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.stages.load_order import Input as Input
from inferbench_tasks.stages.one_load import Output as Output
from inferbench_tasks.stages.shared_memory import inputs_in_memory

STAGE = Stage(needs=("generate", "serve"), leased=True, block="load", unread=("generate.model",))


def run(inp: Input, ctx: Context) -> Output:
    """Apply the load with the monitors running; every record made is kept, whatever happens."""
    folder = ctx.run_dir(inp.run_id)
    load = inp.job.traffic
    with (
        emulated(load.network, inp.serve.endpoint, folder, load.seed) as endpoint,
        inputs_in_memory(inp, endpoint),
    ):
        if isinstance(load.arrivals, MaxRate):
            output = max_rate.search(inp, ctx, folder, endpoint, load.arrivals)
        else:
            output = one_load.apply(inp, ctx, folder, endpoint)
    task = inp.generate.model.task
    accuracy = accuracy_through_server(inp.serve.endpoint, inp.generate.requests, task, ctx)
    return output.model_copy(update={"accuracy_ratio": accuracy})


def accuracy_through_server(
    endpoint: Endpoint, requests: RequestSet, task: str | None, ctx: Context
) -> float | None:
    """The share of right answers over all labelled samples, one request each; None without labels, or where answers
    are no classes.

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
    right = 0
    try:
        for index, label in enumerate(labels.tolist()):
            if index % 50 == 0:
                ctx.progress(index, len(labels), f"checking answers: {index} of {len(labels)} samples")
                if ctx.cancelled():
                    raise CancelledError("Cancelled while the answers were checked")
            answer = probe.infer({name: array[index : index + 1] for name, array in samples.items()})
            right += is_right(answer, reference, label)
    except (Refused, OSError) as error:
        raise LoadError(f"Sample {index} got no answer when the accuracy was checked: {error}") from error
    finally:
        probe.close()
    return right / len(labels)


def is_right(answer: dict[str, NDArray[Any]], reference: dict[str, NDArray[Any]], label: int) -> bool:
    """Whether the answer to one sample names its label: as a class id, or by its largest score."""
    names = [name for name in reference if name in answer] or list(answer)
    for name in names:
        output = answer[name]
        if output.dtype.kind in "iu" and output.size == 1:
            return int(output.reshape(-1)[0]) == label
    scores = answer[names[0]].reshape(-1)
    return bool(np.isfinite(scores).all() and int(np.argmax(scores)) == label)
