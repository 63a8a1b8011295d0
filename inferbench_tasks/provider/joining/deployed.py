"""The gateway of a deployment (compose, Kubernetes): settings tell it what ``up --listen`` tells a local one.

    python -m inferbench_tasks.provider.joining.deployed

Broker, PerfDB and execution API are those of the usual settings, in plain text on the deployment's own network: the
gateway is what has TLS. ``INFERBENCH_GATEWAY_NAMES`` are the addresses and names by which workers call it, which
nobody in a container can know. The authority and the tokens lie in ``<data dir>/system/joining``, where
``inferbench tokens`` finds them.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.address import masked, options_of
from inferbench_tasks.provider.joining import gateway
from inferbench_tasks.provider.joining.accounts import Deployed
from inferbench_tasks.provider.joining.listening import address_and_port
from inferbench_tasks.provider.joining.plan import Plan
from inferbench_tasks.provider.joining.signing import PUBLIC
from inferbench_tasks.provider.system.config import EXECUTION_URL
from inferbench_tasks.provider.system.local import LocalSystem

BROKER = "AIRFLOW__CELERY__BROKER_URL"
NAMES, LISTEN = "INFERBENCH_GATEWAY_NAMES", "INFERBENCH_GATEWAY_LISTEN"
DAGS = "AIRFLOW__CORE__DAGS_FOLDER"
#: The deployment says what of it is reachable.
ALL = "0.0.0.0"  # noqa: S104
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_PUBLIC = re.compile("[0-9a-f]{64}")


def plan() -> Plan:
    """Of the settings; InputError for what is missing or can't be."""
    for name in (BROKER, EXECUTION_URL, settings.PERFDB_URI, PUBLIC, DAGS, settings.SUBMISSIONS_DIR):
        if not os.environ.get(name):
            raise InputError(f"{name} is not set, and the gateway needs it.")
    if not _PUBLIC.fullmatch(os.environ[PUBLIC]):
        raise InputError(f"{PUBLIC} is no key; one has 64 hex digits, as `make env` draws it.")
    for name, scheme in ((BROKER, "redis"), (EXECUTION_URL, "http")):
        _require_plain(name, scheme)
    perfdb = os.environ[settings.PERFDB_URI]
    secured = any(options_of(perfdb).get(option, "").lower() == "true" for option in ("tls", "ssl"))
    if not perfdb.startswith("mongodb://") or secured:
        raise InputError(
            f"{settings.PERFDB_URI} is {masked(perfdb)}; {_PLAIN.format('mongodb://…, without tls=true')}"
        )
    address, port = address_and_port(os.environ.get(LISTEN) or ALL, LISTEN)
    return Plan(address, port, names(), os.environ[DAGS], os.environ[settings.SUBMISSIONS_DIR])


def names() -> Sequence[str]:
    """By which workers may call it; InputError where there are none, or one is no name and no address."""
    found = [name.strip() for name in os.environ.get(NAMES, "").split(",") if name.strip()]
    if wrong := [name for name in found if not _name(name)]:
        raise InputError(
            f"{NAMES} has {wrong[0][:100]!r}; allowed are names and addresses, separated by commas."
        )
    if not found:
        raise InputError(
            f"{NAMES} is not set: the addresses and names by which workers of other hosts call this gateway, separated "
            "by commas. Its certificate is made for them."
        )
    return list(dict.fromkeys(found))


_PLAIN = "allowed is {}: the gateway hands on what came as it is, and a server with TLS needs no gateway."


def _require_plain(name: str, scheme: str) -> None:
    parts = urlsplit(os.environ[name])
    if parts.scheme != scheme or not parts.hostname or not parts.port:
        form = f"{scheme}://HOST:PORT…"
        raise InputError(f"{name} has the form {parts.scheme}://…; {_PLAIN.format(form)}")


def _name(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(_NAME.fullmatch(text)) and len(text) <= 253
    return True


def main() -> None:
    """Until SIGTERM."""
    data_dir = settings.writable(settings.data_dir())
    home = LocalSystem(data_dir).home
    plan().write(home)
    gateway.run(home, data_dir, Deployed(os.environ[settings.PERFDB_URI]))


if __name__ == "__main__":
    main()
