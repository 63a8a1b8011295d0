"""A stranger's networks are looked at before one of them is run: ``python -m ...suite.inspect ORDER``.

To look is to parse, so that happens in the sandbox too (``inspected``). The process reads ``{"networks": [[name, path,
inputs], ...]}`` and writes one JSON line: ``{"refused": name, "why": ...}`` or ``{"fine": number}``.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks import sandbox
from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.measure.confined import confined
from inferbench_tasks.bricks.suite.manifest import MOST_BYTES
from inferbench_tasks.errors import InputError

#: Whose operators a network may have: ONNX's and the runtime's. Others would be code of somebody.
DOMAINS = {"", "ai.onnx", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"}


def inspected(items: Sequence[Item], folder: Path) -> None:
    """InputError names the first network that is not one of a suite, and why."""
    order = folder / "inspect.json"
    order.write_text(json.dumps({"networks": [[one.name, str(one.path), str(one.feeds)] for one in items]}))
    reads = sorted({str(path.parent) for one in items for path in (one.path, one.feeds)})
    reach, errors = sandbox.Reach(reads=(*reads, str(order)), writes=(str(folder),)), folder / "inspect.log"
    with confined("inferbench_tasks.bricks.suite.inspect", order, reach, folder, errors) as process:
        assert process.stdout is not None
        text = process.stdout.read()
    try:
        line = json.loads(text)
    except ValueError:
        raise InputError(
            f"a network of the suite can't be read: the process that did {process.ended()}"
        ) from None
    if "refused" in line:
        raise InputError(f"the suite's network {line['refused']}: {line['why']}", field="suite")


def main(path: str) -> int:
    """Look at all; see the module."""
    order = json.loads(Path(path).read_text(encoding="utf-8"))
    for name, network, inputs in order["networks"]:
        try:
            why = next(iter(_wrongs(Path(network), Path(inputs))), None)
        except Exception as error:  # noqa: BLE001 - whatever protobuf, zip and numpy raise of broken files
            why = f"can't be read ({type(error).__name__}: {str(error)[:200]})"
        if why is not None:
            print(json.dumps({"refused": name, "why": why}))  # noqa: T201 - the answer
            return 0
    print(json.dumps({"fine": len(order["networks"])}))  # noqa: T201 - the answer
    return 0


def _wrongs(network: Path, inputs: Path) -> Iterator[str]:
    import numpy as np
    import onnx

    model = onnx.load(network, load_external_data=False)
    if model.functions:
        yield "it brings functions of its own"
    domains = {one.domain for one in model.opset_import} | {node.domain for node in _nodes(model.graph)}
    if strange := sorted(domains - DOMAINS):
        yield f"operators of the domain {strange[0][:80]!r}, which is neither ONNX's nor the runtime's"
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            yield "its numbers lie in another file, outside of the suite"
    size = 0
    with zipfile.ZipFile(inputs) as archive:
        for one in archive.infolist():
            size += one.file_size
            if one.compress_type != zipfile.ZIP_STORED or size > MOST_BYTES:
                yield "its inputs are packed, or more than a suite may have"
    with np.load(inputs, allow_pickle=False) as file:
        names = {value.name for value in model.graph.input}
        if set(file.files) != names or any(file[name].dtype.hasobject for name in file.files):
            yield "it has not the inputs that it takes"


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graphs(inner)


def _nodes(graph: Any) -> Iterator[Any]:
    for each in _graphs(graph):
        yield from each.node


def _tensors(graph: Any) -> Iterator[Any]:
    for each in _graphs(graph):
        yield from each.initializer
        for sparse in each.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in each.node:
            for attribute in node.attribute:
                yield from (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors)
                for sparse in (*([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
                               *attribute.sparse_tensors):  # fmt: skip
                    yield from (sparse.values, sparse.indices)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
