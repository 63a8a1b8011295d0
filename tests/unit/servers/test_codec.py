"""KServe v2 over HTTP: what is understood, and what is refused in which words."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.servers.codec import decode_request, encode_response
from inferbench_tasks.servers.signature import Signature

SIGNATURE = Signature(
    (
        TensorSpec(name="x", dtype="float32", shape=(2,)),
        TensorSpec(name="ids", dtype="int32", shape=(-1,)),
    ),
    (TensorSpec(name="y", dtype="float32", shape=(2,)), TensorSpec(name="label", dtype="object", shape=())),
)
X = np.array([[1, 2], [3, 4]], dtype=np.float32)
IDS = np.array([[5], [6]], dtype=np.int32)


def request(**changes: Any) -> dict[str, Any]:
    """A good request in JSON; ``x``, ``ids`` and the top level can be changed."""
    x = {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]} | changes.pop("x", {})
    ids = {"name": "ids", "datatype": "INT32", "shape": [2, 1], "data": [5, 6]} | changes.pop("ids", {})
    return {"id": "7", "inputs": [x, ids]} | changes


def binary_request(outputs: list[dict[str, Any]] | None = None) -> tuple[bytes, int]:
    """The same request with binary data; body and the length of its JSON part."""
    inputs = [
        {
            "name": name,
            "datatype": datatype,
            "shape": list(array.shape),
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, datatype, array in (("x", "FP32", X), ("ids", "INT32", IDS))
    ]
    head = json.dumps({"inputs": inputs, **({"outputs": outputs} if outputs else {})}).encode()
    return head + X.tobytes() + IDS.tobytes(), len(head)


def test_json_and_binary_give_the_same_tensors() -> None:
    """A request means the same in JSON, flat or nested, and in binary form."""
    flat = decode_request(orjson.dumps(request()), None, SIGNATURE)
    nested = decode_request(orjson.dumps(request(x={"data": [[1, 2], [3, 4]]})), None, SIGNATURE)
    binary = decode_request(*binary_request(), SIGNATURE)
    for decoded in (flat, nested, binary):
        assert np.array_equal(decoded.arrays["x"], X)
        assert decoded.arrays["x"].dtype == np.float32
        assert np.array_equal(decoded.arrays["ids"], IDS)
        assert decoded.arrays["ids"].dtype == np.int32
        assert decoded.batch_size == 2
    assert flat.id == "7"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{not json", "body: not JSON"),
        (b"[]", "body: a JSON object is needed, not list"),
        (b"{}", "inputs: a list with at least one input is needed"),
        (b'{"inputs": [1]}', "inputs: each input is an object"),
        (request(x={"name": "z"}), "inputs: unknown input 'z'; the model takes x, ids"),
        (request(x={"name": ["x"]}), "inputs: unknown input ['x']"),
        (request(x={"datatype": "FP64"}), "inputs.x.datatype: 'FP64' given, FP32 expected"),
        (request(x={"shape": [2, 3]}), "inputs.x.shape: [2, 3] given, [-1, 2] expected"),
        (request(x={"shape": [4]}), "inputs.x.shape: [4] given"),
        (request(x={"shape": [0, 2], "data": []}), "the batch at least 1"),
        (request(x={"shape": [-1, 2]}), "inputs.x.shape: [-1, 2] given"),
        (request(x={"shape": "2,2"}), "inputs.x.shape: a list of integers is needed"),
        (request(x={"shape": [True, 2]}), "inputs.x.shape: a list of integers is needed"),
        (request(x={"data": [1, 2, 3]}), "inputs.x.data: 3 values given, shape [2, 2] needs 4"),
        (request(x={"data": [[1], [2, 3]]}), "inputs.x.data: the nested lists are not rectangular"),
        (request(x={"data": "abcd"}), "inputs.x.data: a list is needed, not str"),
        (request(x={"data": ["a", "b", "c", "d"]}), "inputs.x.data: the values don't fit FP32"),
        (request(x={"data": [None, 1, 2, 3]}), "inputs.x.data: the values don't fit FP32"),
        (request(ids={"data": [1.5, 2]}), "inputs.ids.data: the values don't fit INT32"),
        (request(ids={"data": [2**40, 2]}), "inputs.ids.data: a value is outside of INT32"),
        (request(ids={"name": "x", "datatype": "FP32", "shape": [2, 2]}), "inputs: x is given twice"),
        (request(inputs=[request()["inputs"][0]]), "inputs: ids is missing"),
        (request(ids={"shape": [1, 2]}), "inputs: the batch sizes differ: {'x': 2, 'ids': 1}"),
        (request(id=5), "id: a string is needed"),
        (request(x={"parameters": 3}), "inputs.x.parameters: an object is needed"),
        (request(x={"parameters": {"binary_data_size": 16}}), "inputs.x.parameters.binary_data_size"),
        (request(outputs=[{"name": "q"}]), "outputs: unknown output 'q'; the model gives y, label"),
        (
            request(outputs=[{"name": "y", "parameters": {"classification": 2}}]),
            "outputs.y.parameters.classification",
        ),
    ],
)
def test_a_wrong_request_is_refused_by_the_field_that_is_wrong(body: Any, message: str) -> None:
    """Every mistake is answered with 400 and names its field."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    with pytest.raises(RequestProblem) as raised:
        decode_request(raw, None, SIGNATURE)
    assert message in str(raised.value)
    assert raised.value.status == 400


def test_an_input_without_data_is_refused() -> None:
    """Neither JSON nor binary data is an error of its own."""
    wrong = request()
    del wrong["inputs"][0]["data"]
    with pytest.raises(RequestProblem, match=r"inputs\.x: neither data nor parameters\.binary_data_size"):
        decode_request(orjson.dumps(wrong), None, SIGNATURE)


@pytest.mark.parametrize(
    ("cut", "header_change", "message"),
    [
        (1, 0, r"inputs\.ids\.parameters\.binary_data_size: 8 given, 7 bytes"),
        (-4, 0, "4 bytes of binary data belong to no input"),
        (0, 10_000, "Inference-Header-Content-Length"),
    ],
)
def test_binary_data_of_a_wrong_length_are_refused(cut: int, header_change: int, message: str) -> None:
    """Too short, too long, and a JSON part longer than the body."""
    body, length = binary_request()
    body = body[:-cut] if cut > 0 else body + b"\0" * -cut
    with pytest.raises(RequestProblem, match=message):
        decode_request(body, length + header_change, SIGNATURE)


def test_byte_length_and_shape_must_agree() -> None:
    """A binary tensor whose size is consistent with the body but not with its shape is refused."""
    head = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": 8}}]
    }
    raw = orjson.dumps(head)
    with pytest.raises(RequestProblem, match=r"inputs\.x: 8 bytes given, shape \[2, 2\] of FP32 needs 16"):
        decode_request(raw + b"\0" * 8, len(raw), SIGNATURE)


def test_answers_mix_binary_and_json_as_asked() -> None:
    """Each output comes in the form that the client wants; the request's id comes back."""
    outputs = [{"name": "y", "parameters": {"binary_data": True}}, {"name": "label"}]
    decoded = decode_request(orjson.dumps(request(outputs=outputs)), None, SIGNATURE)
    y = np.array([[0.5, 1], [2, 3]], dtype=np.float32)
    labels = np.array(["a", "b"], dtype=object)
    parts, head_length = encode_response("m", "3", decoded, {"y": y, "label": labels}, SIGNATURE)
    assert head_length == len(parts[0])
    head = orjson.loads(parts[0])
    assert head["id"] == "7"
    assert (head["model_name"], head["model_version"]) == ("m", "3")
    assert head["outputs"][0]["parameters"] == {"binary_data_size": 16}
    assert head["outputs"][1]["data"] == ["a", "b"]
    assert parts[1] == y.tobytes()


def test_strings_survive_the_binary_form() -> None:
    """BYTES go there and back, whatever they contain."""
    signature = Signature(
        (TensorSpec(name="t", dtype="object", shape=()),), (TensorSpec(name="t", dtype="object", shape=()),)
    )
    words = np.array([b"", "äöü".encode(), b"\0\xff"], dtype=object)
    request_ = decode_request(
        orjson.dumps({"inputs": [{"name": "t", "datatype": "BYTES", "shape": [1], "data": ["ä"]}]}),
        None,
        signature,
    )
    assert request_.arrays["t"].tolist() == ["ä".encode()]
    from inferbench_tasks.protocols.datatypes import pack_bytes, unpack_bytes

    assert unpack_bytes(pack_bytes(words), 3, "t").tolist() == words.tolist()
    with pytest.raises(RequestProblem, match="element 0 says 9 bytes, 1 are left"):
        unpack_bytes(b"\x09\0\0\0x", 1, "t")
