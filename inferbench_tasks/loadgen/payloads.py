"""All requests of a load as bytes, before it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.clients.answers import AnswerCheck, Decode, ExpectedOutput, Outputs
from inferbench_tasks.clients.base import Payload
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.kept_answers import KeepingCheck
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.sampled import SampledPayloads, in_context
from inferbench_tasks.loadgen.shared_inputs import SharedInputs
from inferbench_tasks.protocols.traceparent import context_of
from inferbench_tasks.requests.ragged import rows_of, unpacked

#: Distinct requests are kept up to so many bytes for each shard; then the first are sent again.
_MAX_BYTES = 256 * 2**20
#: A mix of sizes is drawn as a sequence so long, which is then repeated.
_MIX_LENGTH = 8192
#: Of so many requests of a load it is drawn before it begins which are traced, of later ones as they leave.
_DRAWN_AHEAD = 1 << 18

Encode = Callable[[Outputs], bytes]
#: (first sample, how many) -> the request.
Build = Callable[[int, int], bytes]


def read_inputs(path: str) -> Outputs:
    """The arrays of an ``.npz``; InputError if it can't be read or has no samples."""
    try:
        with np.load(Path(path), allow_pickle=False) as archive:
            arrays: Outputs = unpacked(archive)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"The inputs in {path} can't be read as .npz without pickled objects: {error}"
        ) from error
    sizes = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if not arrays or 0 in sizes.values() or len(set(sizes.values())) > 1:
        raise InputError(
            f"The inputs in {path} need one array per input with the samples along the first axis, as many "
            f"in each; found {sizes or 'none'}"
        )
    return arrays


def protocol_codec(plan: LoadPlan) -> tuple[Encode, Decode]:
    """How requests of the plan's protocol are written and its answers read."""
    endpoint = plan.endpoint
    if endpoint.protocol == "http":
        from inferbench_tasks.clients import kserve_http

        return lambda inputs: kserve_http.encode_request(
            endpoint, inputs, binary=plan.binary
        ), kserve_http.decode_answer
    if endpoint.protocol == "openai":
        from inferbench_tasks.clients import openai_form

        target = plan.stream or openai_form.StreamTarget(path="/v1/chat/completions")
        return lambda inputs: openai_form.encode_request(endpoint, target, inputs), openai_form.decode_answer
    if endpoint.protocol == "grpc":
        from inferbench_tasks.clients import kserve_grpc

        return lambda inputs: kserve_grpc.encode_request(endpoint, inputs), kserve_grpc.decode_answer
    from inferbench_tasks.clients import tfs_grpc

    return lambda inputs: tfs_grpc.encode_request(endpoint, inputs), tfs_grpc.decode_answer


def answer_check(plan: LoadPlan) -> AnswerCheck:
    """What the plan's answers must look like."""
    expected = {name: ExpectedOutput(o.shape, o.batched) for name, o in plan.expected.items()}
    largest = max(share.batch_size for share in plan.batches)
    kind = KeepingCheck if plan.keep_answers else AnswerCheck
    return kind(protocol_codec(plan)[1], expected, max_batch_size=largest)


def build_payloads(plan: LoadPlan) -> Sequence[Payload]:
    """The requests in the order in which they are sent, cyclically; the same for every shard.

    A request of several samples has neighbours of the data set, the last ones followed by the first. Where one in so
    many is traced they are by the numbers of requests, see ``SampledPayloads``; a list where all could be
    made ahead.
    """
    over_http = plan.endpoint.protocol == "http"
    if (seed := plan.trace_seed) is not None and (one_in := plan.trace_one_in) is not None:
        built = _built(plan, None)

        def chosen(ahead: range) -> SampledPayloads:
            return SampledPayloads(built, seed, one_in, over_http=over_http, ahead=ahead)

        # A list is looked up without a call, as that of a load without traces is.
        whole = _whole_load(plan)
        return (chosen(whole).made if whole else None) or chosen(_drawn_ahead(plan))
    return _built(plan, seed)


def _whole_load(plan: LoadPlan) -> range:
    """The numbers of all requests, the warm-up's too, where all their times are known and they are not too many."""
    if plan.mlperf is not None or any(segment.offsets_path is None for segment in plan.segments):
        return range(0)
    end = _drawn_ahead(plan).stop  # where some are not drawn ahead it is beyond the bound
    return range(end if end < _DRAWN_AHEAD else 0)


def _drawn_ahead(plan: LoadPlan) -> range:
    """The numbers of the measured requests, as far as they are known; those of all senders together."""
    segment = plan.segments[-1]
    if segment.offsets_path is not None:
        count = len(np.load(segment.offsets_path, mmap_mode="r"))
    else:
        # How many a closed loop will have nobody knows, but of one that ends with a number of them.
        known = segment.max_requests if not segment.quota_from_ns else None
        count = (known or _DRAWN_AHEAD) if segment.kind == "closed" else 0
    return range(segment.first_request_id, segment.first_request_id + min(count, _DRAWN_AHEAD))


def _built(plan: LoadPlan, seed: str | None) -> Sequence[Payload]:
    """``seed``: of the contexts of all requests, by their samples; None: they carry none."""
    rng = np.random.default_rng([plan.seed, 0x5A11])
    samples, build = _placed(plan, plan.shared) if plan.shared else _carried(plan)
    budget = _MAX_BYTES // len(plan.batches)
    by_size = [_of_size(samples, share.batch_size, build, budget) for share in plan.batches]
    if seed is not None:
        over_http = plan.endpoint.protocol == "http"
        by_size = [
            [in_context(each, context_of(seed, each.sample_index), over_http=over_http) for each in payloads]
            for payloads in by_size
        ]
    if plan.in_order:
        (payloads,) = by_size
        if len(payloads) < samples:
            raise InputError(
                f"The requests have more than {_MAX_BYTES >> 20} MiB in all; send fewer or shorter ones"
            )
        # The number of a request says which it is; the measured part begins with the first.
        shift = plan.segments[-1].first_request_id % len(payloads)
        return [*payloads[len(payloads) - shift :], *payloads[: len(payloads) - shift]]
    orders = [rng.permutation(len(payloads)) for payloads in by_size]
    if len(by_size) == 1:
        return [by_size[0][index] for index in orders[0]]
    weights = np.array([share.weight for share in plan.batches])
    drawn = rng.choice(len(by_size), size=_MIX_LENGTH, p=weights / weights.sum())
    counts = [0] * len(by_size)
    sequence = []
    for size in drawn.tolist():
        order = orders[size]
        sequence.append(by_size[size][order[counts[size] % len(order)]])
        counts[size] += 1
    return sequence


def build_groups(plan: LoadPlan, groups: Sequence[Sequence[int]]) -> list[Payload]:
    """Requests with exactly the samples of each group, in that order."""
    inputs = read_inputs(plan.inputs_path)
    encode, _ = protocol_codec(plan)
    return [
        Payload(encode({name: rows_of(array, rows) for name, array in inputs.items()}), rows[0], len(rows))
        for rows in groups
    ]


def _carried(plan: LoadPlan) -> tuple[int, Build]:
    """The number of samples, and how a request with some of them is written: they are part of it."""
    inputs = read_inputs(plan.inputs_path)
    encode, _ = protocol_codec(plan)
    samples = len(next(iter(inputs.values())))

    def build(start: int, batch_size: int) -> bytes:
        rows = np.arange(start, start + batch_size) % samples
        arrays: dict[str, NDArray[np.generic]] = {
            name: rows_of(array, rows) if plan.batched else array[start] for name, array in inputs.items()
        }
        return encode(arrays)

    return samples, build


def _placed(plan: LoadPlan, shared: SharedInputs) -> tuple[int, Build]:
    """The same of samples in shared memory: a request says where they lie."""
    from inferbench_tasks.clients import kserve_grpc, kserve_http

    encode = kserve_grpc.encode_placed if plan.endpoint.protocol == "grpc" else kserve_http.encode_placed
    return shared.samples, lambda start, batch_size: encode(plan.endpoint, shared.tensors(start, batch_size))


def _of_size(samples: int, batch_size: int, build: Build, budget: int) -> list[Payload]:
    payloads: list[Payload] = []
    total = 0
    for start in range(0, samples, batch_size):
        wire = build(start, batch_size)
        payloads.append(Payload(wire, start, batch_size))
        total += len(wire)
        if total + len(wire) > budget:
            break
    return payloads
