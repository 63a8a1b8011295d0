"""Our table of TensorFlow Serving's messages, on the wire."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.protocols import tfs_proto

pytestmark = pytest.mark.integration
ARRAYS: dict[str, Any] = {
    "f": np.array([[1.5, -2.0]], np.float32),
    "h": np.array([[0.5]], np.float16),
    "i": np.array([[1, 2, 3]], np.int64),
    "b": np.array([[True, False]]),
    "s": np.array([b"x", "ä".encode()], dtype=object),
}
#: Reads our request with the genuine stubs and answers both ways that the real server does.
THEIRS = """
import sys, numpy as np, tensorflow as tf
from tensorflow_serving.apis import predict_pb2
request = predict_pb2.PredictRequest.FromString(sys.stdin.buffer.read())
assert request.model_spec.name == "m" and request.model_spec.signature_name == "serving_default"
response = predict_pb2.PredictResponse()
for name, tensor in request.inputs.items():
    array = tf.make_ndarray(tensor)
    response.outputs[name].CopyFrom(tf.make_tensor_proto(array))
    if array.dtype == np.float32:
        response.outputs["fields"].dtype = 1
        response.outputs["fields"].float_val.extend(array.ravel().tolist())
        for size in array.shape:
            response.outputs["fields"].tensor_shape.dim.add(size=size)
sys.stdout.buffer.write(response.SerializeToString())
"""


def test_the_genuine_stubs_read_what_we_write_and_we_read_theirs() -> None:
    """Every dtype, as raw bytes and as single values."""
    pytest.importorskip("tensorflow_serving")
    request = tfs_proto.predict_request("m", "serving_default", ARRAYS)
    done = subprocess.run(
        [sys.executable, "-c", THEIRS], input=request.SerializeToString(), capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    response = tfs_proto.message("PredictResponse").FromString(done.stdout)
    for name, array in {**ARRAYS, "fields": ARRAYS["f"]}.items():
        got = tfs_proto.read(response.outputs[name])
        assert got.dtype == array.dtype
        assert got.tolist() == array.tolist()


def test_a_tensor_whose_sizes_disagree_is_refused() -> None:
    """Eight bytes are no three floats."""
    tensor = tfs_proto.message("TensorProto")(dtype=1, tensor_content=b"\0" * 8)
    tensor.tensor_shape.dim.add(size=3)
    with pytest.raises(ValueError, match="cannot reshape"):
        tfs_proto.read(tensor)
