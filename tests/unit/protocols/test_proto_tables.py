"""Our tables of messages against the official definitions: KServe's and TensorFlow Serving's own descriptors.

The descriptors come from the packages that are generated from the official ``.proto`` files.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor

from inferbench_tasks.protocols import kserve_proto, tfs_proto

KSERVE = "inference"
TFS = "tensorflow.serving"
#: Messages that stand in our package and elsewhere in theirs.
ELSEWHERE = {
    "Int64Value": "google.protobuf.Int64Value",
    "TensorProto": "tensorflow.TensorProto",
    "Shape": "tensorflow.TensorShapeProto",
    "Dim": "tensorflow.TensorShapeProto.Dim",
}


#: Official fields that neither our clients nor our servers use.
LEFT_OUT = {
    "inference.InferStatistics.cache_hit",
    "inference.InferStatistics.cache_miss",
    "inference.ModelStatistics.memory_usage",
    "inference.ModelStatistics.response_stats",
    "tensorflow.TensorProto.dcomplex_val",
    "tensorflow.TensorProto.float8_val",
    "tensorflow.TensorProto.resource_handle_val",
    "tensorflow.TensorProto.scomplex_val",
    "tensorflow.TensorProto.variant_val",
    "tensorflow.serving.ModelVersionStatus.status",
    "tensorflow.serving.PredictRequest.client_id",
    "tensorflow.serving.PredictRequest.predict_streamed_options",
    "tensorflow.serving.PredictRequest.request_options",
}
_DESCRIBE = """
import importlib.util
import sys
import types
from google.protobuf import descriptor_pb2

# The generated modules alone: what the packages' own first files import is TensorFlow as a whole, ten seconds of CPU.
for name in ("tensorflow", "tritonclient.grpc"):
    package = types.ModuleType(name)
    package.__path__ = list(importlib.util.find_spec(name).submodule_search_locations)
    sys.modules[name] = package
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2
from tritonclient.grpc import service_pb2

files = {}
def add(described):
    for needed in described.dependencies:
        add(needed)
    files[described.name] = described
for module in (types_pb2, model_service_pb2, prediction_service_pb2, service_pb2):
    add(module.DESCRIPTOR)
found = descriptor_pb2.FileDescriptorSet()
for described in files.values():
    described.CopyToProto(found.file.add())
sys.stdout.buffer.write(found.SerializeToString())
"""


@pytest.fixture(scope="module")
def official() -> Any:
    """A pool with the official definitions alone. Read by another process: they bring TensorFlow, 700 MB of it."""
    for package, extra in (("tritonclient", "reference"), ("tensorflow_serving", "tensorflow")):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the extra {extra!r} is not installed")
    done = subprocess.run([sys.executable, "-c", _DESCRIBE], capture_output=True, check=True)
    pool: Any = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(done.stdout).file:
        pool.Add(file)
    return pool


def name_of(package: str, name: str) -> str:
    """What a message of ours is called officially."""
    return ELSEWHERE.get(name, f"{package}.{name}") if package == TFS else f"{package}.{name}"


def kind_of(field: FieldDescriptor, package: str) -> Any:
    """What a field holds: its scalar, its message's official name, or what a map's keys and values are."""
    message = field.message_type
    if message is None:
        # An enumeration is an int32 on the wire, and in our tables.
        return FieldDescriptor.TYPE_INT32 if field.enum_type is not None else field.type
    if message.GetOptions().map_entry:
        return tuple(kind_of(part, package) for part in message.fields)
    own = message.full_name.removeprefix(f"{package}.")
    return name_of(package, own) if message.full_name.startswith(f"{package}.") else message.full_name


def facts(field: FieldDescriptor, package: str) -> dict[str, Any]:
    """All that decides what stands on the wire, and how it is read and set."""
    return {
        "number": field.number,
        "kind": kind_of(field, package),
        "repeated": field.is_repeated,
        "packed": field.is_packed,
        "presence": field.has_presence,
        "one of several": field.containing_oneof is not None,
    }


@pytest.mark.parametrize(
    ("package", "name"),
    [*((KSERVE, name) for name in kserve_proto.MESSAGES), *((TFS, name) for name in tfs_proto.MESSAGES)],
)
def test_every_field_of_a_table_is_the_official_one(package: str, name: str, official: Any) -> None:
    """Name, number, type, label, packing, presence and message of every field; a map's keys and values too."""
    module = kserve_proto if package == KSERVE else tfs_proto
    ours, theirs = module.message(name).DESCRIPTOR, official.FindMessageTypeByName(name_of(package, name))
    assert [field.name for field in ours.fields] == [field[0] for field in module.MESSAGES[name]]
    for field in ours.fields:
        assert field.name in theirs.fields_by_name, f"{theirs.full_name} has no {field.name}"
        assert facts(field, package) == facts(theirs.fields_by_name[field.name], package), field.name


@pytest.mark.parametrize(("package", "name"), [(KSERVE, "InferParameter"), (TFS, "ModelSpec")])
def test_a_choice_is_the_official_choice(package: str, name: str, official: Any) -> None:
    """The fields of which only one can be set are the same, where we have them at all."""
    module = kserve_proto if package == KSERVE else tfs_proto
    ours, theirs = module.message(name).DESCRIPTOR, official.FindMessageTypeByName(name_of(package, name))
    (mine,) = ours.oneofs
    first = theirs.fields_by_name[mine.fields[0].name].containing_oneof
    assert {field.name for field in mine.fields} == {
        field.name for field in first.fields if field.name in ours.fields_by_name
    }


def test_the_official_fields_that_are_left_out_are_known(official: Any) -> None:
    """A message has all its official fields but these: a new one of a later version is noticed."""
    left_out = {
        f"{name_of(package, name)}.{field.name}"
        for package, module in ((KSERVE, kserve_proto), (TFS, tfs_proto))
        for name in module.MESSAGES
        for field in official.FindMessageTypeByName(name_of(package, name)).fields
        if field.name not in module.message(name).DESCRIPTOR.fields_by_name
    }
    assert left_out == LEFT_OUT


@pytest.mark.parametrize(
    ("path", "request_name", "response_name"),
    [
        (tfs_proto.PREDICT, "PredictRequest", "PredictResponse"),
        (tfs_proto.MODEL_STATUS, "GetModelStatusRequest", "GetModelStatusResponse"),
    ],
)
def test_tensorflow_servings_methods_are_the_official_ones(
    path: str, request_name: str, response_name: str, official: Any
) -> None:
    """The path of a method leads to a service that takes and gives those messages."""
    _, service, method = path.split("/")
    found = official.FindServiceByName(service).methods_by_name[method]
    assert found.input_type.full_name == f"{TFS}.{request_name}"
    assert found.output_type.full_name == f"{TFS}.{response_name}"


def test_kserves_service_is_the_official_one(official: Any) -> None:
    """Every request and response of the table belongs to a method of that service."""
    methods = official.FindServiceByName(kserve_proto.SERVICE).methods
    messages = {m.name for method in methods for m in (method.input_type, method.output_type)}
    used = {name for name in kserve_proto.MESSAGES if name.endswith(("Request", "Response"))}
    assert used <= messages


@pytest.mark.parametrize("dtype", tfs_proto.DTYPES)
def test_tensorflows_types_have_their_official_numbers(dtype: str, official: Any) -> None:
    """A tensor's dtype is TensorFlow's number for numpy's type."""
    number, field = tfs_proto.DTYPES[dtype]
    names = {"float32": "DT_FLOAT", "float64": "DT_DOUBLE", "float16": "DT_HALF", "object": "DT_STRING"}
    theirs = official.FindEnumTypeByName("tensorflow.DataType").values_by_number[number]
    assert theirs.name == names.get(dtype, f"DT_{dtype.upper()}")
    assert field in official.FindMessageTypeByName("tensorflow.TensorProto").fields_by_name


def test_available_is_the_official_number(official: Any) -> None:
    """The state of a model version that answers."""
    states = official.FindMessageTypeByName("tensorflow.serving.ModelVersionStatus").enum_types_by_name[
        "State"
    ]
    assert states.values_by_number[tfs_proto.AVAILABLE].name == "AVAILABLE"


def test_a_prediction_is_the_same_on_the_wire(official: Any) -> None:
    """What one side writes, the other reads; the choice between version and label and the map of tensors included."""
    described = official.FindMessageTypeByName("tensorflow.serving.PredictRequest")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    ours = tfs_proto.predict_request("m", "serving_default", {"x": array})
    ours.model_spec.version.value = 7
    theirs = message_factory.GetMessageClass(described).FromString(ours.SerializeToString())
    assert (theirs.model_spec.name, theirs.model_spec.version.value) == ("m", 7)
    assert theirs.model_spec.WhichOneof("version_choice") == "version"
    assert theirs.inputs["x"].tensor_content == array.tobytes()
    assert [dim.size for dim in theirs.inputs["x"].tensor_shape.dim] == [2, 3]
    back = tfs_proto.message("PredictRequest").FromString(theirs.SerializeToString())
    assert np.array_equal(tfs_proto.read(back.inputs["x"]), array)
