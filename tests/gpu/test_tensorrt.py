"""TensorRT on a machine with an NVIDIA GPU and the package tensorrt; elsewhere these are skipped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.formats.base import Settings
from inferbench_tasks.formats.tensorrt import TensorRtFormat
from tests.serving_cases import dense_case

REASON = TensorRtFormat().unavailable()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=f"skipped: {REASON}")]


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_engine_answers_as_its_source(tmp_path: Path, dynamic: bool) -> None:
    """Built from ONNX at full precision; batches of 1, 3 and 32."""
    case = dense_case(tmp_path, dynamic)
    form = TensorRtFormat()
    form.convert(case.model, tmp_path, Settings())
    predict = form.open(
        case.model.model_copy(update={"format": "tensorrt", "path": str(tmp_path / form.file)})
    )
    for rows in (1, 3, 32):
        answer = predict({"x": case.samples["x"][:rows]})
        np.testing.assert_allclose(answer["scores"], case.reference["scores"][:rows], rtol=1e-4, atol=1e-5)
