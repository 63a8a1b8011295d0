"""Our gRPC messages and NVIDIA's generated ones on the wire; ``test_proto_tables`` compares their fields."""

from __future__ import annotations

from tritonclient.grpc import service_pb2

from inferbench_tasks.protocols.kserve_proto import message


def test_a_request_is_the_same_on_the_wire() -> None:
    """What one side writes, the other reads, parameters included."""
    theirs = service_pb2.ModelInferRequest(model_name="m", id="1", raw_input_contents=[b"abc"])
    theirs.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    theirs.parameters["priority"].int64_param = 3
    ours = message("ModelInferRequest").FromString(theirs.SerializeToString())
    assert ours.parameters["priority"].int64_param == 3
    assert list(ours.inputs[0].shape) == [1, 2]
    assert service_pb2.ModelInferRequest.FromString(ours.SerializeToString()) == theirs
