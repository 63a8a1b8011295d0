"""A brick's network as a file."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

#: Protobuf's limit is 2 GiB: what is larger goes through a file, its weights beside it.
MAX_IN_ONE_FILE = 1_900_000_000
#: Where a graph's weights lie beside its file, those from this size on do.
OUTSIDE_BYTES = 1024


def save_network(model: ir.Model, path: Path) -> Path:
    """Write the network with all its weights: in the file, or beside it where they are too many for one."""
    large = weights_bytes(model) >= MAX_IN_ONE_FILE
    if not large:
        ir.external_data.load_to_model(model)
    ir.save(model, path, external_data=weights_beside(path).name if large else None)
    return path


def weights_beside(path: Path) -> Path:
    """Where the weights of such a file lie that are too many for it."""
    return path.with_name(f"{path.name}.weights")


def weights_bytes(model: ir.Model) -> int:
    """The bytes of all constants of the network, those of bodies included."""
    graphs = (model.graph, *model.graph.subgraphs())
    tensors = (value.const_value for graph in graphs for value in graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)
