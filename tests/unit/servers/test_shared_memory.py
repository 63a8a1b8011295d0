"""Our server's half of KServe's system shared memory: what may be registered and read, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.protocols.kserve_proto import message
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.protocols.shared_memory import BYTE_SIZE, OFFSET, REGION, new_key, path_of
from inferbench_tasks.servers.codec import decode_request
from inferbench_tasks.servers.grpc_server import decode
from inferbench_tasks.servers.shared_memory import MOST, NO_REGIONS, Regions
from inferbench_tasks.servers.signature import Signature

X = np.arange(12, dtype=np.float32).reshape(6, 2)
SIGNATURE = Signature(
    (TensorSpec(name="x", dtype="float32", shape=(2,)),), (TensorSpec(name="y", dtype="float32", shape=()),)
)


@pytest.fixture
def regions() -> Iterator[Regions]:
    """A server's, whose one region holds X behind 8 bytes of something else."""
    key = new_key()
    path = path_of(key)
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "wb") as file:
        file.write(b"\xff" * 8 + X.tobytes())
    yield Regions(key)
    path.unlink(missing_ok=True)


def parameters(**changes: Any) -> dict[str, Any]:
    """Of rows 2 and 3 in a region that begins with X."""
    return {REGION: "r", OFFSET: 16, BYTE_SIZE: 16} | changes


def http_request(**changes: Any) -> bytes:
    """A request whose input is these rows."""
    item = {"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": parameters(**changes)}
    return orjson.dumps({"inputs": [item]})


def test_an_input_is_a_view_of_the_region_over_both_protocols(regions: Regions) -> None:
    """The rows that the request names, read-only and without a copy."""
    regions.register("r", regions.key, 8, X.nbytes)
    request = message("ModelInferRequest")(model_name="m")
    item = request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
    item.parameters[REGION].string_param = "r"
    item.parameters[OFFSET].int64_param = 16
    item.parameters[BYTE_SIZE].int64_param = 16
    for decoded in (
        decode_request(http_request(), None, SIGNATURE, regions),
        decode(request, SIGNATURE, regions),
    ):
        array = decoded.arrays["x"]
        assert np.array_equal(array, X[2:4])
        assert not array.flags.owndata and not array.flags.writeable
    with open(path_of(str(regions.key)), "r+b") as file:
        file.seek(8 + 16)
        file.write(np.float32(99).tobytes())
    assert array[0, 0] == 99


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({OFFSET: 40}, "16 bytes from 40 on are given, the region r has 48"),
        ({OFFSET: -16}, "from -16 on"),
        ({BYTE_SIZE: 1 << 63}, "the region r has 48"),
        ({BYTE_SIZE: "16"}, "'16' bytes"),
        ({OFFSET: True}, "from True on"),
        ({BYTE_SIZE: None}, "None bytes"),
        ({BYTE_SIZE: 12}, r"12 bytes given, shape \[2, 2\] of FP32 needs 16"),
        ({REGION: "other"}, "no region 'other' is registered"),
        ({REGION: 7}, "no region 7 is registered"),
    ],
)
def test_what_lies_outside_of_a_region_is_refused(
    regions: Regions, changes: dict[str, Any], words: str
) -> None:
    """By the field's name, with what there is."""
    regions.register("r", regions.key, 8, X.nbytes)
    with pytest.raises(RequestProblem, match=words):
        decode_request(http_request(**changes), None, SIGNATURE, regions)


@pytest.mark.parametrize(
    ("key", "offset", "byte_size", "words"),
    [
        ("../../etc/passwd", 0, 8, "is not the one that this server was started with"),
        ("/etc/passwd", 0, 8, "is not the one"),
        (None, 0, 8, "is not the one"),
        ("own", 8, 49, "49 bytes from 8 on are given"),
        ("own", 57, 1, "1 bytes from 57 on"),
        ("own", 0, 0, "the size at least 1"),
        ("own", -1, 8, "whole numbers"),
        ("own", 0, 1 << 63, "whole numbers"),
        ("own", "0", 8, "whole numbers"),
    ],
)
def test_only_its_own_file_can_be_registered_and_only_what_is_in_it(
    regions: Regions, key: Any, offset: Any, byte_size: Any, words: str
) -> None:
    """No key leads elsewhere."""
    with pytest.raises(RequestProblem, match=words):
        regions.register("r", regions.key if key == "own" else key, offset, byte_size)
    assert regions.status(None) == []


def test_a_region_is_there_from_register_to_unregister(regions: Regions) -> None:
    """A name is taken once; what is not known is unregistered already; what was read of it stays."""
    regions.register("r", regions.key, 8, 48)
    with pytest.raises(RequestProblem, match="registered already"):
        regions.register("r", regions.key, 0, 8)
    told = {"name": "r", "key": regions.key, "offset": 8, "byte_size": 48}
    assert regions.status("r") == regions.status(None) == [told]
    array = decode_request(http_request(), None, SIGNATURE, regions).arrays["x"]
    regions.unregister("r")
    regions.unregister("r")
    assert np.array_equal(array, X[2:4])
    with pytest.raises(RequestProblem, match="no region 'r' is registered"):
        regions.status("r")
    with pytest.raises(RequestProblem, match="no region 'r' is registered"):
        decode_request(http_request(), None, SIGNATURE, regions)


def test_one_file_has_so_many_names_and_no_more(regions: Regions) -> None:
    """Each takes a mapping and an open file of the server's."""
    for number in range(MOST):
        regions.register(f"r{number}", regions.key, 0, 8)
    with pytest.raises(RequestProblem, match="16 regions are registered"):
        regions.register("one-more", regions.key, 0, 8)
    regions.unregister(None)
    regions.register("one-more", regions.key, 0, 8)


def test_a_file_that_was_made_shorter_or_is_gone_is_an_error_and_no_signal(regions: Regions) -> None:
    """What was mapped before it was removed can still be read; what was cut off can't, nor registered anew."""
    regions.register("r", regions.key, 8, 48)
    path = path_of(str(regions.key))
    os.truncate(path, 20)
    with pytest.raises(RequestProblem, match="made shorter than the region"):
        decode_request(http_request(), None, SIGNATURE, regions)
    os.truncate(path, 56)
    path.unlink()
    decode_request(http_request(), None, SIGNATURE, regions)
    regions.unregister(None)
    with pytest.raises(RequestProblem, match="can't be opened"):
        regions.register("r", regions.key, 8, 48)


def test_outputs_into_shared_memory_are_refused(regions: Regions) -> None:
    """And not sent over the network as if that had been asked for."""
    regions.register("r", regions.key, 8, 48)
    document = orjson.loads(http_request())
    document["outputs"] = [{"name": "y", "parameters": parameters()}]
    with pytest.raises(RequestProblem, match="outputs come over the network"):
        decode_request(orjson.dumps(document), None, SIGNATURE, regions)


def test_a_server_that_was_not_started_for_it_refuses_all_of_it() -> None:
    """As one that does not have the extension: 404."""
    for call in (
        lambda: NO_REGIONS.register("r", None, 0, 8),
        lambda: NO_REGIONS.status(None),
        lambda: NO_REGIONS.unregister(None),
    ):
        with pytest.raises(RequestProblem, match="not started for it") as raised:
            call()
        assert raised.value.status == 404
    with pytest.raises(RequestProblem, match="no region 'r' is registered"):
        decode_request(http_request(), None, SIGNATURE)
