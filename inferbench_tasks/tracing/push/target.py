"""Where spans are sent: a collector's address as a user writes it, and what logs in there."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit

from inferbench_tasks.errors import InputError

#: OpenTelemetry's own settings; the first one that is there holds.
HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
GRPC_PORT = 4317
TRACES_PATH = "/v1/traces"
_FORMS = "http://HOST:4318, https://HOST, grpc://HOST:4317 and grpcs://HOST"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e]+")


@dataclass(frozen=True)
class Target:
    """``address``: of HTTP the URL that is posted to, of gRPC host and port. ``headers``: names in small letters."""

    over: Literal["http", "grpc"]
    address: str
    encrypted: bool
    headers: dict[str, str] = field(default_factory=dict, repr=False)


def target_of(text: str, asked_by: str = "--to") -> Target:
    """An address as an option or a setting has it, ``asked_by``; InputError for what is none of a collector."""
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise InputError(f"{text!r} is no address: {error}; allowed are {_FORMS}", field=asked_by) from error
    if url.scheme not in ("http", "https", "grpc", "grpcs") or not host:
        raise InputError(f"{text!r} is no address of a collector; allowed are {_FORMS}", field=asked_by)
    if url.username is not None or url.password is not None:
        raise InputError(f"a login does not stand in the address; {HEADERS[1]} has it", field=asked_by)
    if url.query or url.fragment:
        raise InputError(f"{text!r} has more than host, port and path; allowed are {_FORMS}", field=asked_by)
    encrypted = url.scheme in ("https", "grpcs")
    if url.scheme.startswith("grpc"):
        if url.path.strip("/"):
            raise InputError(f"{text!r} has a path, which gRPC has not", field=asked_by)
        shown = f"[{host}]" if ":" in host else host
        return Target("grpc", f"{shown}:{port or GRPC_PORT}", encrypted, headers())
    path = url.path.rstrip("/")
    path = path if path.endswith(TRACES_PATH) else path + TRACES_PATH
    return Target("http", f"{url.scheme}://{url.netloc}{path}", encrypted, headers())


def headers() -> dict[str, str]:
    """What the environment says is sent along: ``name=value`` separated by commas, values percent-encoded."""
    name = next((name for name in HEADERS if os.environ.get(name)), "")
    found = {}
    for place, pair in enumerate(filter(str.strip, os.environ.get(name, "").split(",")), 1):
        key, equals, value = (part.strip() for part in pair.partition("="))
        key, value = unquote(key).lower(), unquote(value)
        if not equals or not _NAME.fullmatch(key) or not _VALUE.fullmatch(value):
            # Its text may be a secret.
            raise InputError(f"the {place}. entry is no name=value of ASCII characters", field=name)
        found[key] = value
    return found
