"""Four networks that are timed in each round: what they take tells how fast the machine is just then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import parser

SEED = 3
#: A dense and a depth-wise convolution, a matrix product and an element-wise sum, each some tenths of a millisecond.
_TEXTS = {
    "dense convolution": """
        (float[1,64,28,28] x0, float[64,64,3,3] x1) => (float[1,64,28,28] y)
        { y = Conv <pads = [1,1,1,1]> (x0, x1) }""",
    "depth-wise convolution": """
        (float[1,256,28,28] x0, float[256,1,3,3] x1) => (float[1,256,28,28] y)
        { y = Conv <pads = [1,1,1,1], group = 256> (x0, x1) }""",
    "matrix product": "(float[128,256] x0, float[256,512] x1) => (float[128,512] y) { y = MatMul (x0, x1) }",
    "element-wise": "(float[1,1000000] x0, float[1,1000000] x1) => (float[1,1000000] y) { y = Add (x0, x1) }",
}
NAMES = tuple(_TEXTS)


def write_references(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Name -> (network, its inputs), written to the folder: the same everywhere."""
    rng = np.random.default_rng(SEED)
    written = {}
    for index, (name, text) in enumerate(_TEXTS.items()):
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> reference {text}')
        path = folder / f"reference-{index}.onnx"
        onnx.save(model, path)
        shapes = [[d.dim_value for d in x.type.tensor_type.shape.dim] for x in model.graph.input]
        feeds = {f"x{i}": rng.standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)}
        np.savez(path.with_suffix(".npz"), allow_pickle=False, **feeds)
        written[name] = (path, path.with_suffix(".npz"))
    return written
