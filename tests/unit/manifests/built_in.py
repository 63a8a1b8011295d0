"""What built-in manifests say, as ``tests/data/manifests.json`` keeps it: a digest for each id.

python -m tests.unit.manifests.built_in   # adds those that are new; one that changed needs a new version
"""

from __future__ import annotations

import json
from pathlib import Path

from inferbench_tasks.manifests.catalogue import built_in

FILE = Path(__file__).parents[2] / "data" / "manifests.json"


def digests() -> dict[str, str]:
    """Of all that are the same in every installation: frameworks are not."""
    manifests = (entry.manifest for entry in built_in())
    return {m.id: m.digest for m in manifests if m.kind != "framework"}


if __name__ == "__main__":
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(json.dumps({**digests(), **kept}, indent=2, sort_keys=True) + "\n")
