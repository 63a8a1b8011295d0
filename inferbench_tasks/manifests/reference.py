"""The reference of manifests, made from their classes: ``python -m inferbench_tasks.manifests.reference DIR``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

from inferbench_tasks.contracts.spec import PATTERNS, SLUG_PATTERN, Spec
from inferbench_tasks.manifests.kinds.base import KINDS, Manifest
from inferbench_tasks.submission.fields import Slot, choices, slot_of
from inferbench_tasks.submission.reference import as_cell, default_of, description, summary_of

COMMAND = "python -m inferbench_tasks.manifests.reference docs/reference"
FILE = "manifests.md"
#: Fields whose sections stand in the reference of the submission.
ELSEWHERE = {
    "load": "submission.md#load",
    "steps": "submission.md#processorsbefore",
    "model": "submission.md#model",
}

HEAD = f"""\
# Manifests

<!-- Made by `{COMMAND}`; don't edit. -->

What can stand in a manifest: one YAML document, read as strictly as [a submission](submission.md#the-file). How to
write one: [own manifest](../how-to/own-manifest.md). A manifest has `kind`, `name` and `version`; the SHA-256 of what
it says (canonical JSON without what has its default) is its digest. A version never changes: other content under the
same version is refused, wherever the two lie. Where a release brings a version that PerfDB had before, the list has
both as being in conflict, and that version alone can't be named.

## Constraints

Commas or blanks stand between terms that must all hold, `||` between alternatives; the newest version that fits and
exists is taken. The table is [node-semver's](https://github.com/npm/node-semver#ranges):

| constraint | means | | constraint | means |
|---|---|---|---|---|
| `^1.2.3` | `>=1.2.3 <2.0.0` | | `~1.2.3` | `>=1.2.3 <1.3.0` |
| `^0.2.3` | `>=0.2.3 <0.3.0` | | `~1` | `>=1.0.0 <2.0.0` |
| `^0.0.3` | `>=0.0.3 <0.0.4` | | `1.x`, `1` | `>=1.0.0 <2.0.0` |
| `^1.2` | `>=1.2.0 <2.0.0` | | `1.2.3`, `==1.2.3` | that one |
| `>=1.20,<1.30` | as it says | | `>1.2` | `>=1.3.0` |
| `^1.2,!=1.3.0` | without that one | | `*` | any |

A version before a release (`1.2.0-rc.1`) is taken only where the constraint names one of the same release. What a
build adds (`2.13.0+cpu`) does not count.

## All kinds
"""


def markdown() -> str:
    """The reference of all kinds as Markdown."""
    parts = [HEAD, _table(Manifest)]
    common = set(Manifest.model_fields) - {"version"}
    nested: dict[str, list[type[Spec]]] = {}
    for kind in KINDS:
        if KINDS.origin(kind) == "built-in":
            model = KINDS.load(kind)
            own = [name for name in model.model_fields if name not in common]
            own = [name for name in own if name != "version" or "version" in model.__annotations__]
            parts += [f"## kind: {kind}", summary_of(model), _table(model, own)]
            _collect(model, own, nested)
    for name, models in nested.items():
        parts.append(f"## {name}")
        for each in models:
            title = choices(each, "kind")
            parts += [*([f"### {title[0]}"] if title else []), summary_of(each), _table(each)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _collect(model: type[Spec], names: list[str], nested: dict[str, list[type[Spec]]]) -> None:
    for name in names:
        models = slot_of(model.model_fields[name]).models() or _items(model, name)
        if name in ELSEWHERE or not models or name in nested:
            continue
        nested[name] = models
        for each in models:
            _collect(each, list(each.model_fields), nested)


def _items(model: type[Spec], name: str) -> list[type[Spec]]:
    """The classes of a list's values."""
    arguments = get_args(slot_of(model.model_fields[name]).annotation)
    return Slot.of(arguments[0]).models() if arguments else []


def _table(model: type[Spec], names: list[str] | None = None) -> str:
    rows = ["| key | allowed | default | |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if names is not None and name not in names:
            continue
        if len(choices(model, name)) == 1:
            continue  # it stands in the heading
        deeper = slot_of(field).models() or _items(model, name)
        link = ELSEWHERE.get(name, f"#{name}")
        allowed = (
            f"see [{name}]({link})"
            if deeper
            else slot_of(field).describe().replace(PATTERNS[SLUG_PATTERN], "a name")
        )
        cells = (f"`{name}`", allowed, default_of(field), description(model, name, field))
        rows.append("| " + " | ".join(as_cell(cell) for cell in cells) + " |")
    return "\n".join(rows) if len(rows) > 2 else "No further keys."


def write(folder: Path) -> None:
    """Write the reference."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(markdown())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
