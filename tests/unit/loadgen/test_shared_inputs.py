"""Inputs in shared memory: each request's place holds exactly the samples that it would carry over the network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.clients import kserve_grpc, kserve_http
from inferbench_tasks.clients.grpc_message import unframe
from inferbench_tasks.clients.shared_memory import register
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError, LoadError
from inferbench_tasks.loadgen import shared_inputs
from inferbench_tasks.loadgen.payloads import build_payloads
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.shared_inputs import layout, write
from inferbench_tasks.protocols.kserve_proto import message
from inferbench_tasks.protocols.shared_memory import BYTE_SIZE, OFFSET, REGION, new_key, path_of
from tests.load_servers import endpoint, load_plan

INPUTS: dict[str, NDArray[Any]] = {
    "image": np.arange(5 * 7, dtype=np.float32).reshape(5, 7),
    "number": np.arange(5, dtype=np.int64) * 3,
}
ARRIVALS = {"kind": "constant", "rate_rps": 50.0}


@pytest.fixture
def key() -> Iterator[str]:
    """The key of an empty region, as a server's start makes it."""
    name = new_key()
    path = path_of(name)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    yield name
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("largest", [1, 3, 8])
def test_each_place_holds_the_samples_of_its_request(key: str, largest: int) -> None:
    """From every first sample on, the last ones followed by the first, however many fit into a request."""
    shared = layout(INPUTS, key, largest, rows_of_one=True)
    write(shared, INPUTS)
    data = path_of(key).read_bytes()
    for first in range(5):
        rows = np.arange(first, first + largest) % 5
        for tensor in shared.tensors(first, largest):
            want = INPUTS[tensor.name][rows]
            raw = data[tensor.offset : tensor.offset + tensor.byte_size]
            assert np.array_equal(np.frombuffer(raw, want.dtype), want.reshape(-1))
            assert tensor.shape == (largest, *(want.shape[1:] or (1,)))


def test_a_load_sends_the_same_samples_in_the_same_order_either_way(key: str, tmp_path: Path) -> None:
    """Over the network a request carries what it names the place of in shared memory."""
    plan = load_plan(tmp_path, endpoint("http", 1), arrivals=ARRIVALS, batch_size=2)
    np.savez(plan.inputs_path, **INPUTS)  # type: ignore[arg-type]
    shared = layout(INPUTS, key, 2)
    write(shared, INPUTS)
    data = path_of(key).read_bytes()
    for protocol in ("http", "grpc"):
        where = endpoint(protocol, 1)
        carried = build_payloads(plan.model_copy(update={"endpoint": where}))
        placed = build_payloads(plan.model_copy(update={"endpoint": where, "shared": shared}))
        sent = [(p.sample_index, p.batch_size) for p in carried]
        assert sent == [(p.sample_index, p.batch_size) for p in placed]
        for with_data, with_place in zip(carried, placed, strict=True):
            arrays = (
                kserve_http.decode_request(with_data.wire)[0]
                if protocol == "http"
                else kserve_grpc.decode_request(with_data.wire)
            )
            for name, offset, size in _places(protocol, with_place.wire):
                assert data[offset : offset + size] == arrays[name].tobytes()


def _places(protocol: str, wire: bytes) -> list[tuple[str, int, int]]:
    import orjson

    if protocol == "http":
        items = orjson.loads(wire.partition(b"\r\n\r\n")[2])["inputs"]
        return [(i["name"], i["parameters"][OFFSET], i["parameters"][BYTE_SIZE]) for i in items]
    request = message("ModelInferRequest").FromString(unframe(wire))
    assert not request.raw_input_contents
    return [
        (i.name, i.parameters[OFFSET].int64_param, i.parameters[BYTE_SIZE].int64_param)
        for i in request.inputs
    ]


def test_a_request_of_either_protocol_names_the_region(key: str) -> None:
    """By the parameters of KServe's extension."""
    tensors = layout(INPUTS, key, 1).tensors(0, 1)
    assert key.encode() in kserve_http.encode_placed(endpoint("http", 1), tensors)
    request = message("ModelInferRequest").FromString(
        unframe(kserve_grpc.encode_placed(endpoint("grpc", 1), tensors))
    )
    assert {i.parameters[REGION].string_param for i in request.inputs} == {key}


def test_a_plan_keeps_where_its_inputs_lie(key: str, tmp_path: Path) -> None:
    """The senders read it from a file."""
    shared = layout(INPUTS, key, 1)
    plan = load_plan(tmp_path, endpoint("http", 1), arrivals=ARRIVALS).model_copy(update={"shared": shared})
    assert LoadPlan.model_validate_json(plan.model_dump_json()).shared == shared


def test_texts_and_samples_of_different_sizes_are_refused(key: str) -> None:
    """They have no fixed place; the message names the field and the remedy."""
    texts: dict[str, NDArray[Any]] = {"word": np.array(["a", "bc"])}
    ragged: NDArray[Any] = np.empty(2, np.object_)
    ragged[:] = [np.zeros(2, np.float32), np.zeros(3, np.float32)]
    for inputs, what in ((texts, "texts"), ({"x": ragged}, "samples of different sizes")):
        with pytest.raises(InputError, match=rf"load.transport: .* has {what}.*use transport: network"):
            layout(inputs, key, 1)


def test_more_samples_than_there_is_room_for_are_left_out(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As over the network, where the first ones are sent again; a request that does not fit is refused."""
    inputs: dict[str, NDArray[Any]] = {"x": np.zeros((100, 1000), np.float32)}
    monkeypatch.setattr(shared_inputs, "MAX_BYTES", 40_064)
    shared = layout(inputs, key, 2)
    assert (shared.samples, shared.byte_size <= 40_064) == (9, True)
    with pytest.raises(InputError, match="11 samples of 4,000 bytes are more than"):
        layout(inputs, key, 11)


def test_a_region_that_is_not_there_or_open_to_others_is_not_written(key: str) -> None:
    """The first is of a server on another host, or one that ended; the second could be read and changed."""
    shared = layout(INPUTS, key, 1)
    os.chmod(path_of(key), 0o644)
    with pytest.raises(LoadError, match="open to other users"):
        write(shared, INPUTS)
    path_of(key).unlink()
    with pytest.raises(LoadError, match="has ended, or runs on another host"):
        write(shared, INPUTS)
    path_of(key).symlink_to("/etc/hostname")
    with pytest.raises(LoadError, match="not there"):
        write(shared, INPUTS)


def test_a_server_that_is_not_there_is_said_to_be(key: str) -> None:
    """Over both protocols."""
    for protocol in ("http", "grpc"):
        where: Endpoint = endpoint(protocol, 1)
        with pytest.raises(LoadError, match="to register the shared memory of the requests"):
            register(where, key, 1)
