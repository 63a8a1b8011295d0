"""Compare every pin with the advisories that are stored here; run by ``make lint``, without a network.

``scripts/advisories/osv.json`` is a list of records in OSV's form (id, affected packages, ranges of versions): whoever
learns of one adds it, from an index or by hand. A pin in an affected range fails, unless ``accepted.json`` says
for that id and that very pin what protects; an entry there that no longer fits a pin fails as well. What the list
does not have is not found: it is no substitute for a scanner with a network.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
ADVISORIES = ROOT / "scripts" / "advisories"
FILES = (
    ROOT / "constraints.hashes.txt",
    ROOT / "scripts" / "sbom.lock.txt",
    *sorted((ROOT / "inferbench_tasks" / "backends" / "locks").glob("*.txt")),
)


def main() -> int:
    records = json.loads((ADVISORIES / "osv.json").read_text())
    accepted = json.loads((ADVISORIES / "accepted.json").read_text())
    pins = {word for path in FILES for word in path.read_text().split() if "==" in word}
    findings = dict(matches(records, pins))
    for key in sorted(findings.keys() - accepted.keys()):
        print(f"{key}: {findings[key]}", file=sys.stderr)
    for key in sorted(accepted.keys() - findings.keys()):
        print(f"{key}: accepted, but no pin is affected: remove it from accepted.json", file=sys.stderr)
    return 1 if findings.keys() ^ accepted.keys() else 0


def matches(records: Iterable[dict[str, Any]], pins: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(``id name==version``, what it is) of every pin that a record affects."""
    versions_by_name: dict[str, list[str]] = {}
    for pin in pins:
        name, _, version = pin.partition("==")
        versions_by_name.setdefault(name, []).append(version)
    for record in records:
        for affected in record["affected"]:
            name = affected["package"]["name"]
            for version in versions_by_name.get(name, []):
                if affects(affected, Version(version)):
                    yield f"{record['id']} {name}=={version}", record["summary"]


def affects(affected: dict[str, Any], version: Version) -> bool:
    """Whether a version is listed, or in a range: from ``introduced`` to before ``fixed`` or to ``last_affected``."""
    if str(version) in affected.get("versions", ()):
        return True
    for versions in affected.get("ranges", ()):
        inside = False
        for event in versions["events"]:
            ((kind, text),) = event.items()
            bound = Version(text)
            if kind == "introduced" and version >= bound:
                inside = True
            elif (kind == "fixed" and version >= bound) or (kind == "last_affected" and version > bound):
                inside = False
        if inside:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
