"""The PerfDB's URI: shown without secrets, its database, and whether it names the embedded server."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote

DEFAULT_DATABASE = "inferbench"
_SECRET_OPTION = re.compile(
    r"((?:[^?&=]*(?:password|token|secret)[^?&=]*|authmechanismproperties)=)[^&]*", re.IGNORECASE
)


def masked(uri: str) -> str:
    """The URI for people and logs: user, password and secret options replaced by ``***``."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return "***" if "@" in uri else uri
    # Up to the last @: a password that was not percent-encoded may hold one, or a slash.
    rest = re.sub(r"^.*@", "***@", rest, flags=re.DOTALL)
    return f"{scheme}://" + _SECRET_OPTION.sub(r"\1***", rest)


def _parts(uri: str) -> tuple[str, str, str]:
    """What is before the database ("mongodb://host"), the database, the options."""
    base, _, options = uri.partition("?")
    scheme, separator, rest = base.partition("://")
    host, _, database = rest.partition("/")
    return f"{scheme}{separator}{host}", unquote(database), options


def database_of(uri: str) -> str:
    """The database that the URI names, else ours."""
    return _parts(uri)[1] or DEFAULT_DATABASE


def with_database(uri: str, database: str) -> str:
    """The same server, another database.

    Who logged in against the URI's own database goes on doing so.
    """
    base, old, options = _parts(uri)
    if old and "@" in base and "authsource" not in options.lower():
        options = "&".join(filter(None, [options, f"authSource={quote(old, safe='')}"]))
    return f"{base}/{quote(database, safe='')}" + (f"?{options}" if options else "")


def options_of(uri: str) -> dict[str, str]:
    """The URI's options, names in lower case."""
    return {name.lower(): value for name, value in parse_qsl(_parts(uri)[2])}


def host_of(uri: str) -> str:
    """``user:password@host:port,host:port`` without what stands before the @."""
    return _parts(uri)[0].rpartition("://")[2].rpartition("@")[2]
