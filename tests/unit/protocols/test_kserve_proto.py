"""Our table of gRPC messages against NVIDIA's generated ones."""

from __future__ import annotations

import pytest
from tritonclient.grpc import service_pb2

from inferbench_tasks.protocols.kserve_proto import MESSAGES, message


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_have_the_numbers_and_types_of_the_protocol(name: str) -> None:
    """Every field of the table is that of the protocol's own description."""
    theirs = service_pb2.DESCRIPTOR
    outer, _, inner = name.partition(".")
    described = theirs.message_types_by_name[outer]
    if inner:
        described = described.nested_types_by_name[inner]
    for field in message(name).DESCRIPTOR.fields:
        original = described.fields_by_name[field.name]
        assert (field.number, field.type, field.is_repeated) == (
            original.number,
            original.type,
            original.is_repeated,
        )


def test_a_request_is_the_same_on_the_wire() -> None:
    """What one side writes, the other reads, parameters included."""
    theirs = service_pb2.ModelInferRequest(model_name="m", id="1", raw_input_contents=[b"abc"])
    theirs.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    theirs.parameters["priority"].int64_param = 3
    ours = message("ModelInferRequest").FromString(theirs.SerializeToString())
    assert ours.parameters["priority"].int64_param == 3
    assert list(ours.inputs[0].shape) == [1, 2]
    assert service_pb2.ModelInferRequest.FromString(ours.SerializeToString()) == theirs
