"""Triton's ``config.pbtxt``: a model's tensors and settings in protobuf's text form."""

from __future__ import annotations

import json
from typing import Any

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.protocols.datatypes import datatype_of


def tensor(spec: TensorSpec) -> dict[str, Any]:
    """An input or output; a scalar per row is one of size 1 to Triton."""
    datatype = datatype_of(spec.dtype)
    kind = "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"
    if spec.shape:
        return {"name": spec.name, "data_type": kind, "dims": list(spec.shape)}
    return {"name": spec.name, "data_type": kind, "dims": [1], "reshape": {"shape": []}}


#: Values of protobuf enumerations stand without quotes.
_ENUMS = ("TYPE_", "KIND_")


def pbtxt(value: dict[str, Any], indent: str = "") -> str:
    """A model configuration in protobuf's text form; ``parameters`` is a map."""
    lines = []
    for key, item in value.items():
        if key == "parameters":
            for name, parameter in item.items():
                lines.append(f'{indent}parameters {{ key: "{name}" value {{ {pbtxt(parameter).strip()} }} }}')
        elif isinstance(item, dict):
            lines.append(f"{indent}{key} {{\n{pbtxt(item, indent + '  ')}{indent}}}")
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            lines += [f"{indent}{key} {{\n{pbtxt(element, indent + '  ')}{indent}}}" for element in item]
        elif isinstance(item, str) and not item.startswith(_ENUMS):
            lines.append(f"{indent}{key}: {json.dumps(item)}")
        else:
            lines.append(f"{indent}{key}: {item}")
    return "\n".join(lines) + "\n"
