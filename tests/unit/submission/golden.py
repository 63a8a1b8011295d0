"""What a submission amounts to, as ``tests/data/golden/digests.json`` keeps it: see the README.md there.

python -m tests.unit.submission.golden configs/submissions/new.yaml   # a new entry, or one of an edited file
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.submission.reader import read_submission_text

ROOT = Path(__file__).parents[3]
FILE = ROOT / "tests" / "data" / "golden" / "digests.json"
#: Submissions of more jobs than this are kept as a count and a SHA-256.
MOST_LISTED = 60
#: The files beside these are made by their users; a digest does not cover them.
WITHOUT_FILES = frozenset(
    {"examples/safetensors-model/submission.yaml", "tests/data/golden/submissions/own-files.yaml"}
)


def entries() -> dict[str, dict[str, Any]]:
    """What was written down, by the YAML's path in the repository."""
    kept: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return kept


def entry(path: Path, name: str) -> dict[str, Any]:
    """Of the YAML at ``path``, which is ``name`` in the repository.

    ``text``: SHA-256 of the YAML; ``digest``: the submission's; ``jobs``: [id, digest] of each job in the sweep's
    order, or a SHA-256 of all of them, sorted.
    """
    text = path.read_text(encoding="utf-8")
    base_dir = None if name in WITHOUT_FILES else path.parent
    plan = compile_plan(read_submission_text(text, name, INSTALLED, base_dir=base_dir))
    jobs = [[job.job_id, job.digest] for job in plan.jobs]
    return {
        "text": _sha256(text),
        "digest": plan.submission_digest,
        "count": len(jobs),
        "jobs": jobs
        if len(jobs) <= MOST_LISTED
        else _sha256("\n".join(sorted(" ".join(job) for job in jobs))),
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(kept: dict[str, dict[str, Any]]) -> None:
    """A line for each job, so that a change shows what changed."""
    parts = []
    for name, known in sorted(kept.items()):
        head = ", ".join(
            f"{json.dumps(key)}: {json.dumps(value)}" for key, value in known.items() if key != "jobs"
        )
        jobs = known["jobs"]
        lines = (
            "[\n" + ",\n".join(f"  {json.dumps(job)}" for job in jobs) + "\n ]"
            if isinstance(jobs, list)
            else json.dumps(jobs)
        )
        parts.append(f'{json.dumps(name)}: {{{head},\n "jobs": {lines}}}')
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    known = entries() if FILE.exists() else {}
    for argument in sys.argv[1:]:
        yaml = Path(argument).absolute()
        known[str(yaml.relative_to(ROOT))] = entry(yaml, str(yaml.relative_to(ROOT)))
    _write(known)
