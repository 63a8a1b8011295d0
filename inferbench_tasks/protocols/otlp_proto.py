"""The messages of OpenTelemetry's traces that a span is made of (opentelemetry-proto 1.9), and a collector's answers.

``ExportTraceServiceRequest`` and ``TracesData`` are alike: lists of ``ResourceSpans`` (1), each of a ``Resource`` (1)
and lists of ``ScopeSpans`` (2), each of a ``Scope`` (1) and ``Span`` (2). A reader walks over these and parses span by
span, so that a file of many takes the memory of one.
"""

from __future__ import annotations

from typing import Any

from inferbench_tasks.protocols.proto_table import message_class

#: The lists above a span, by field number.
RESOURCE_SPANS = 1
RESOURCE, SCOPE_SPANS = 1, 2
SCOPE, SPANS = 1, 2

_PACKAGE = "inferbench.otlp"
#: The names are OpenTelemetry's; what is left out is skipped when a message is parsed.
_TABLE = {
    "ArrayValue": (("values", 1, "[AnyValue]"),),
    "KeyValueList": (("values", 1, "[KeyValue]"),),
    "AnyValue": (
        ("string_value", 1, "oneof string"),
        ("bool_value", 2, "oneof bool"),
        ("int_value", 3, "oneof int64"),
        ("double_value", 4, "oneof double"),
        ("array_value", 5, "oneof ArrayValue"),
        ("kvlist_value", 6, "oneof KeyValueList"),
        ("bytes_value", 7, "oneof bytes"),
    ),
    "KeyValue": (("key", 1, "string"), ("value", 2, "AnyValue")),
    "Resource": (("attributes", 1, "[KeyValue]"),),
    "Scope": (("name", 1, "string"),),
    "Counted": (),
    "Link": (("trace_id", 1, "bytes"), ("span_id", 2, "bytes")),
    "Status": (("message", 2, "string"), ("code", 3, "int32")),
    "Span": (
        ("trace_id", 1, "bytes"),
        ("span_id", 2, "bytes"),
        ("trace_state", 3, "string"),
        ("parent_span_id", 4, "bytes"),
        ("name", 5, "string"),
        ("kind", 6, "int32"),
        ("start_time_unix_nano", 7, "fixed64"),
        ("end_time_unix_nano", 8, "fixed64"),
        ("attributes", 9, "[KeyValue]"),
        ("events", 11, "[Counted]"),
        ("links", 13, "[Link]"),
        ("status", 15, "Status"),
    ),
    "PartialSuccess": (("rejected_spans", 1, "int64"), ("error_message", 2, "string")),
    "ExportResponse": (("partial_success", 1, "PartialSuccess"),),
    # Of google.rpc: what an answer that is an error says, over HTTP as its body, over gRPC in a trailer.
    "Duration": (("seconds", 1, "int64"), ("nanos", 2, "int32")),
    "RetryInfo": (("retry_delay", 1, "Duration"),),
    "Any": (("type_url", 1, "string"), ("value", 2, "bytes")),
    "RpcStatus": (("code", 1, "int32"), ("message", 2, "string"), ("details", 3, "[Any]")),
}


def message(name: str) -> Any:
    """The class of one of the table's messages."""
    return message_class(_PACKAGE, name, _TABLE)
