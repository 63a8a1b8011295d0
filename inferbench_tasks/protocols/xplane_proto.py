"""The messages of TensorFlow's profiles that kernels are told by (``xplane.proto`` of TSL), for reading them.

An ``XSpace`` has planes (of the host, of devices), a plane lines (threads), a line events; an event's name stands in
the plane's list. Fields that are not here are skipped.
"""

from __future__ import annotations

from typing import Any

from inferbench_tasks.protocols.proto_table import message_class

_PACKAGE = "inferbench.xplane"
_TABLE = {
    "XEvent": (("metadata_id", 1, "int64"), ("offset_ps", 2, "int64"), ("duration_ps", 3, "int64")),
    "XLine": (
        ("id", 1, "int64"),
        ("name", 2, "string"),
        ("timestamp_ns", 3, "int64"),
        ("events", 4, "[XEvent]"),
    ),
    "XEventMetadata": (("id", 1, "int64"), ("name", 2, "string")),
    # A map is a list of its entries.
    "Named": (("key", 1, "int64"), ("value", 2, "XEventMetadata")),
    "XPlane": (("name", 2, "string"), ("lines", 3, "[XLine]"), ("event_metadata", 4, "[Named]")),
    "XSpace": (("planes", 1, "[XPlane]"),),
}


def message(name: str) -> Any:
    """The class of one of the table's messages."""
    return message_class(_PACKAGE, name, _TABLE)
