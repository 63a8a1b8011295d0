"""TensorFlow's models in ONNX: what a function takes from around it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]


def test_constants_from_around_a_function_are_no_inputs(tmp_path: Path) -> None:
    """A preprocessing layer's mean and variance are captured and no variables: only the image is an input."""
    pytest.importorskip("tensorflow")
    import keras
    import onnxruntime as ort

    from inferbench_tasks.formats import onnx_tensorflow

    mean, variance = [1.0, 2.0, 3.0], [1.0, 4.0, 16.0]
    image = keras.Input((2, 2, 3), name="input")
    network = keras.Model(image, keras.layers.Normalization(mean=mean, variance=variance)(image))
    network.export(str(tmp_path / "saved"), verbose=False)
    spec = TensorSpec(name="input", dtype="float32", shape=(2, 2, 3))
    answer = TensorSpec(name="output_0", dtype="float32", shape=(2, 2, 3))
    source = ModelArtifact(
        name="m",
        framework="tensorflow",
        digest="0",
        path=str(tmp_path / "saved"),
        format="savedmodel",
        inputs=(spec,),
        outputs=(answer,),
    )
    onnx_tensorflow.export(source, tmp_path / "m.onnx", 17)
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["input"]
    [normalised] = session.run(None, {"input": np.full((1, 2, 2, 3), 5.0, np.float32)})
    np.testing.assert_allclose(normalised[0, 0, 0], [4.0, 1.5, 0.5])
