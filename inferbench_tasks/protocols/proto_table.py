"""Protobuf messages from a table: message -> fields as (name, number, type).

A type is protobuf's own name of a scalar, or the name of a message of the table. ``[T]`` repeats,
``map T`` maps strings to T, ``oneof T`` is part of the message's one choice. A nested message is written
with its outer one's name ("Outer.Inner") and stands after it.

The messages live in a descriptor pool of their own: other libraries bring the same names, and a pool
takes each only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Fields = tuple[tuple[str, int, str], ...]

_pools: dict[str, Any] = {}
_classes: dict[tuple[str, str], Any] = {}


def message_class(package: str, name: str, table: Mapping[str, Fields]) -> Any:
    """The class of a message of a package's table."""
    key = (package, name)
    if key not in _classes:
        from google.protobuf import message_factory

        if package not in _pools:
            _pools[package] = _pool(package, table)
        described = _pools[package].FindMessageTypeByName(f"{package}.{name}")
        _classes[key] = message_factory.GetMessageClass(described)
    return _classes[key]


def _pool(package: str, table: Mapping[str, Fields]) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    file: Any = descriptor_pb2.FileDescriptorProto(
        name=f"inferbench/{package}.proto", package=package, syntax="proto3"
    )
    descriptors: dict[str, Any] = {}
    for name, fields in table.items():
        outer, _, inner = name.rpartition(".")
        descriptors[name] = descriptors[outer].nested_type.add() if outer else file.message_type.add()
        descriptors[name].name = inner
        for field in fields:
            _add_field(descriptors[name], package, f".{package}.{name}", *field)
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_field(into: Any, package: str, path: str, name: str, number: int, kind: str) -> None:
    field = into.field.add(name=name, number=number, label=1)
    if kind.startswith("map "):
        entry = into.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add_field(entry, package, "", "key", 1, "string")
        _add_field(entry, package, "", "value", 2, kind.removeprefix("map "))
        field.label, field.type, field.type_name = 3, 11, f"{path}.{entry.name}"
        return
    if kind.startswith("["):
        field.label, kind = 3, kind[1:-1]
    if kind.startswith("oneof "):
        if not into.oneof_decl:
            into.oneof_decl.add(name="choice")
        field.oneof_index, kind = 0, kind.removeprefix("oneof ")
    scalar = getattr(type(field), f"TYPE_{kind.upper()}", None)
    if scalar is None:
        field.type, field.type_name = 11, f".{package}.{kind}"
    else:
        field.type = scalar
