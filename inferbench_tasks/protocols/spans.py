"""The server's own times of a request: what each is of, in the order of the record, and its header on the wire."""

from __future__ import annotations

SERVER_SPANS = ("queue", "inference", "preprocess", "postprocess")
#: What the times of one request are, ns, in that order.
ServerTimes = tuple[int, int, int, int]
NOT_TOLD: ServerTimes = (-1, -1, -1, -1)
HEADERS = tuple(f"x-inferbench-{span}-ns" for span in SERVER_SPANS)
HEADER_BYTES = tuple(header.encode() for header in HEADERS)
