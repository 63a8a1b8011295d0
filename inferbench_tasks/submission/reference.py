"""The reference of the submission, made from the schema: ``python -m inferbench_tasks.submission.reference DIR``.

Writes ``submission.md`` for people and ``submission.schema.json`` for editors, which complete and check
while one types. Both come from the classes that validate, so they can't say anything else.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from inferbench_tasks.arrivals.base import ARRIVALS
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.contracts.spec import PATTERNS, SLUG_PATTERN, Spec
from inferbench_tasks.contracts.stand_in_faults import StandInFaults, WrongAnswers
from inferbench_tasks.contracts.versions import MAX_LENGTH
from inferbench_tasks.submission.balancer import BalancerSpec
from inferbench_tasks.submission.base import LEAST_BLOCKS, MOST_BLOCKS, USUAL_BLOCKS, SubmissionBase
from inferbench_tasks.submission.conversion import ConvertSpec
from inferbench_tasks.submission.digest import LABELS
from inferbench_tasks.submission.document import MAX_BYTES
from inferbench_tasks.submission.evaluation import EvaluateSpec
from inferbench_tasks.submission.fields import DISCRIMINATORS, Slot, choices, slot_of
from inferbench_tasks.submission.model import ModelSpec, Training
from inferbench_tasks.submission.processors import ProcessorSpec, ProcessorsSpec
from inferbench_tasks.submission.prompt_parts import SharedPrefixSpec, TraceColumnsSpec
from inferbench_tasks.submission.schema import (
    BatchingSpec,
    LoadSpec,
    NightlySpec,
    RequestsSpec,
    ServeSpec,
    Submission,
)
from inferbench_tasks.submission.share import NeighbourSpec, ShareSpec
from inferbench_tasks.submission.slo import EachSpec, SloSpec
from inferbench_tasks.submission.spans import SpansSpec
from inferbench_tasks.submission.sweep import MAX_JOBS
from inferbench_tasks.submission.systems import SystemSpec, SystemsSpec
from inferbench_tasks.submission.token_lengths import LengthsSpec
from inferbench_tasks.submission.traced import TraceSpec
from inferbench_tasks.submission.vary import VarySpec

COMMAND = "python -m inferbench_tasks.submission.reference docs/reference"
SCHEMA_ID = "submission.schema.json"

EXAMPLE = """\
name: digits-batching
user: vision-team
model: {kind: zoo, name: digits}
convert: {format: onnx, precision: fp32}
serve:
  backend: onnxruntime
  device: cpu
  threads: 1
  batching: {max_batch_size: 8, max_delay_ms: 2}
load:
  arrivals: {kind: poisson, rate_rps: 80}
  duration_s: 60
slo: {p99_ms: 100}
sweep:
  serve.batching.max_batch_size: [1, 4, 8]
  load.arrivals.rate_rps: [20, 40, 80]
"""

#: Sections that stand under another's name: ``## serve.batching`` has the anchor ``#servebatching``.
PARENTS = {
    "before": "processors",
    "after": "processors",
    "beside": "share",
    "each": "slo",
    "input_tokens": "requests",
    "output_tokens": "requests",
    "turns": "requests",
    "columns": "requests",
    "think_time_ms": "requests",
    "shared_prefix": "requests",
    "balancer": "serve",
    "batching": "serve",
    "vary": "evaluate",
    "spans": "evaluate",
    "arrivals": "load",
    "training": "model",
    "faults": "model",
    "answers": "modelfaults",
}

SWEEP = f"""\
## sweep

Every entry is a dotted path into the submission with a list of values; every combination of them becomes a job,
the last key varying fastest. `zip` holds paths whose lists go together, row by row; several such groups are a
list. A value may be a whole section (`load.arrivals: [{{kind: poisson, rate_rps: 50}}, {{kind: closed_loop,
concurrency: 4}}]`), and `null` takes an optional one away.

```yaml
sweep:
  serve.threads: [1, 2]               # 2 x 3 = 6 jobs:
  zip:                                # each number of threads with each of the three rows
    load.batch_size:         [1, 4, 16]
    load.arrivals.rate_rps:  [160, 40, 10]
```

`order: interleaved` measures all points again and again in blocks (`blocks`, {USUAL_BLOCKS} unless given, an even
number), every second one backwards: A B, B A, A B, ... Each run has a server of its own. On a machine that drifts
or is disturbed the points are then compared [in pairs](../how-to/compare-on-a-noisy-machine.md).

What changes nothing that is measured can't be swept: {", ".join(f"`{n}`" for n in sorted(LABELS))}. At most
{MAX_JOBS:,} jobs. Each job is checked by itself before anything starts, and has an id made of the submission's
name and the digest of what it asks for: it stays the same wherever the job stands in a sweep.
"""

SYSTEMS = """\
As in `systems: {arch: x86_64, device: cpu, cores: ">=2", memory_gb: ">=16", framework: "onnxruntime>=1.20"}`.

Without `all` the jobs go to devices that are alike (type, name, architecture, cores, memory), the largest group of
those that fit. Where none fits, nothing is started, and each device is listed with the first requirement that it
misses. A fact that a worker did not tell is missed. [How to choose devices](../how-to/choose-by-system.md).
"""

TEXT = f"""\
## The file

One YAML document in UTF-8, at most {MAX_BYTES:,} bytes: mappings, lists, text, numbers, `true`, `false`, `null`.
Refused, with the line and what to write instead: unknown and repeated keys, tags (`!!...`), merge keys (`<<`),
several documents, and what YAML readers disagree about when it stands without quotes (`on`, `yes`, `010`,
`1:30`, `0x10`, dates). A *name* has letters, digits, `-`, `_` and single dots inside, and starts with a letter or
digit. Numbers may be written `1000`, `1_000` or `1e3`. Files are named relative to the submission's folder and may
not lie outside of it.

`inferbench validate FILE...` tells every problem of every file at once.
"""


def markdown() -> str:
    """The reference of all keys as Markdown."""
    parts = [
        "# The submission",
        f"<!-- Made by `{COMMAND}`; don't edit. -->",
        "What can stand in a submission. Keys without a default are needed. Editors that know JSON schemas complete "
        f"and check it with [`{SCHEMA_ID}`]({SCHEMA_ID}), for instance after a first line "
        f"`# yaml-language-server: $schema=.../docs/reference/{SCHEMA_ID}`.",
        f"```yaml\n{EXAMPLE}```",
        "## Top level",
        _table(Submission),
        _models(),
        _section("requests", RequestsSpec),
        *_lengths(),
        _section("requests.shared_prefix", SharedPrefixSpec),
        _section("requests.columns", TraceColumnsSpec),
        _section("processors", ProcessorsSpec),
        _section("processors.before", ProcessorSpec),
        _section("convert", ConvertSpec),
        _section("serve", ServeSpec),
        _section("serve.balancer", BalancerSpec),
        _section("serve.batching", BatchingSpec),
        _section("load", LoadSpec),
        _arrivals(),
        _section("evaluate", EvaluateSpec),
        _section("evaluate.vary", VarySpec),
        _section("evaluate.spans", SpansSpec),
        _section("trace", TraceSpec),
        _section("share", ShareSpec),
        _section("share.beside", NeighbourSpec),
        _section("systems", SystemsSpec),
        SYSTEMS,
        _section("system", SystemSpec),
        _section("slo", SloSpec),
        _section("slo.each", EachSpec),
        _section("nightly", NightlySpec),
        SWEEP,
        TEXT,
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def json_schema(submission: type[SubmissionBase] = Submission) -> dict[str, Any]:
    """The JSON schema of a submission as it stands in YAML (the sweep's paths directly under ``sweep``)."""
    schema = submission.model_json_schema()
    definitions: dict[str, Any] = schema["$defs"]
    for model in _all_models(submission):
        _describe_fields(schema if model is submission else definitions[model.__name__], model)
    paths = {"type": "object", "additionalProperties": {"type": "array", "minItems": 1, "maxItems": 1000}}
    if "LoadSpec" in definitions:  # a scenario has arrivals
        definitions["LoadSpec"]["required"] = []
        definitions["LoadSpec"]["anyOf"] = [{"required": ["arrivals"]}, {"required": ["scenario"]}]
    if "EvaluateSpec" in definitions:  # a constraint behind the name is resolved on reading
        dataset = definitions["EvaluateSpec"]["properties"]["dataset"]
        dataset["anyOf"] = [{"type": "string", "maxLength": MAX_LENGTH}, {"type": "null"}]
    definitions["SweepSpec"] = {
        "type": "object",
        "description": "Dotted paths with lists of values; zip holds lists that go together, row by row.",
        "properties": {
            "zip": {"anyOf": [paths, {"type": "array", "items": paths}]},
            "order": {"enum": ["listed", "interleaved"], "default": "listed"},
            "blocks": {"type": "integer", "minimum": LEAST_BLOCKS, "maximum": MOST_BLOCKS, "multipleOf": 2},
        },
        "additionalProperties": paths["additionalProperties"],
    }
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "InferBench submission",
    }
    return {**head, **{k: v for k, v in schema.items() if k != "title"}}


def _describe_fields(schema: dict[str, Any], model: type[Spec]) -> None:
    for name, field in model.model_fields.items():
        if (text := description(model, name, field)) and name in schema.get("properties", {}):
            schema["properties"][name]["description"] = _plain(text)


def _all_models(submission: type[SubmissionBase]) -> list[type[Spec]]:
    models: dict[type[Spec], None] = {}

    def visit(slot: Slot) -> None:
        for model in slot.models():
            if model not in models:
                models[model] = None
                for name, field in model.model_fields.items():
                    if name != "sweep":
                        visit(slot_of(field))

    visit(Slot(submission))
    return list(models)


def _section(path: str, model: type[Spec]) -> str:
    return f"## {path}\n\n{summary_of(model)}\n\n{_table(model)}"


def _models() -> str:
    parts = ["## model", "Where the model under test comes from; `kind` chooses."]
    for model in Slot.of(ModelSpec).models():
        title = ", ".join(
            f"{name}: {choices(model, name)[0]}" for name in DISCRIMINATORS if choices(model, name)
        )
        parts += [f"### {title}", summary_of(model), _table(model)]
    sections = (
        ("model.training", Training), ("model.faults", StandInFaults), ("model.faults.answers", WrongAnswers),
    )  # fmt: skip
    return "\n\n".join([*parts, *(_section(path, model) for path, model in sections)])


def _lengths() -> list[str]:
    parts = [
        "## requests.input_tokens",
        "A law of lengths in tokens, which are whole and at least 1; `kind` chooses.",
    ]
    for model in Slot.of(LengthsSpec).models():
        parts += [f"### kind: {choices(model, 'kind')[0]}", summary_of(model), _table(model)]
    others = ("output_tokens", "turns", "think_time_ms")
    same = [(f"## requests.{name}", "As [input_tokens](#requestsinput_tokens).") for name in others]
    return [*parts, *(part for section in same for part in section)]


def _arrivals() -> str:
    parts = [
        "## load.arrivals",
        "When each request is meant to leave; `kind` chooses. An open loop sends by its schedule whatever the server "
        "does; in a closed one, each user waits for its answer.",
    ]
    for kind in ARRIVALS:
        if ARRIVALS.origin(kind) == "built-in":
            process = ARRIVALS.load(kind)
            summary = f"{summary_of(process)} ({process.loop.capitalize()} loop.)"
            parts += [f"### kind: {kind}", summary, _table(process)]
    return "\n\n".join(parts)


def _table(model: type[Spec]) -> str:
    rows = ["| key | allowed | default | |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if len(choices(model, name)) == 1 and name in DISCRIMINATORS and field.is_required():
            continue  # it stands in the heading
        cells = (f"`{name}`", _allowed(name, field), default_of(field), description(model, name, field))
        rows.append("| " + " | ".join(as_cell(cell) for cell in cells) + " |")
    return "\n".join(rows) if len(rows) > 2 else "No further keys."


def _allowed(name: str, field: FieldInfo) -> str:
    slot = slot_of(field)
    if name == "sweep" or slot.models():
        return f"see [{name}](#{PARENTS.get(name, '')}{'before' if name == 'after' else name})"
    if slot.annotation is DeviceSpec:
        return "cpu, gpu or gpu:<type>"
    return slot.describe().replace(PATTERNS[SLUG_PATTERN], "a name")


def default_of(field: FieldInfo) -> str:
    """A field's default as a table shows it; "" where it is needed."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return ""
    if isinstance(value, Spec):
        return "its defaults"
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`"


@cache
def _docstrings(model: type) -> dict[str, str]:
    """The texts under a class's fields, as they stand in its source."""
    try:
        source = inspect.getsource(model)
    except OSError:  # a class that was made by ``submission_of``: its bases have the texts
        return {}
    tree = ast.parse(textwrap.dedent(source))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    sentences: dict[str, str] = {}
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                sentences[name] = " ".join(words.split())
    return sentences


def description(model: type[Spec], name: str, field: FieldInfo) -> str:
    """What a field is for: its own description, or the text under it in the class that declares it."""
    if field.description:
        return " ".join(field.description.split())
    for base in model.__mro__:
        if base is Spec:
            break
        if text := _docstrings(base).get(name):
            return text
    return ""


def summary_of(model: type[Spec]) -> str:
    """A class's own words, on one line."""
    return re.sub(r"``([^`]*)``", r"`\1`", " ".join(inspect.cleandoc(model.__doc__ or "").split()))


def as_cell(text: str) -> str:
    """A text in a table of Markdown."""
    return re.sub(r"``([^`]*)``", r"`\1`", text).replace("|", "\\|")


def _plain(text: str) -> str:
    return text.replace("``", "")


def write(folder: Path) -> None:
    """Write the reference and the JSON schema."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "submission.md").write_text(markdown())
    (folder / SCHEMA_ID).write_text(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
