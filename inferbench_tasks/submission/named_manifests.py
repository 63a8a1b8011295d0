"""Manifests that a submission names: resolved before it is validated, and put in where they are named.

``model: {kind: manifest, name, version}`` becomes the model's source, ``load: {scenario: NAME@^1}`` the scenario's
load, ``stack: NAME@^1`` what it says of ``convert`` and ``serve``, ``evaluate: {dataset: NAME@^1}`` the bare name of
the data set that is here in such a version, ``serve: {framework: NAME@~1.2}`` that version; under ``sweep`` too.
What is validated, swept and hashed is then a submission like any other; ``manifests`` has to what each was resolved.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.versions import Requirement
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import FieldPath, Problem, show
from inferbench_tasks.submission.abilities import Abilities, KnownManifests, NamedManifest
from inferbench_tasks.submission.base import DEFAULT_KIND
from inferbench_tasks.submission.document import Document
from inferbench_tasks.submission.finding import unknown
from inferbench_tasks.submission.named_datasets import named_datasets
from inferbench_tasks.submission.named_runtimes import (
    NamedRuntimes,
    asked_before,
    exact,
    in_container,
    placed,
    runtime_fields,
    set_by,
    swept_place,
)
from inferbench_tasks.submission.swept import columns_of, zip_groups

MODEL_KEYS = {"kind", "name", "version"}
#: The kinds of manifests that a submission names.
NAMED_KINDS = ("model", "scenario", "stack", "dataset")
#: What a scenario decides; beside one only the rest of a load may be said.
SCENARIO_DECIDES = (
    "arrivals", "engine", "duration_s", "warmup_s", "max_requests", "batch_size", "timeout_ms", "max_error_ratio",
    "expect",
)  # fmt: skip
#: So many records a submission may have, and so many names under ``sweep``: each is looked up.
MAX_NAMES = 1000
#: A swept name -> the sections that it becomes, in the sweep.
_SWEPT = {"model": ("model",), "load.scenario": ("load",), "stack": ("convert", "serve")}


def names_manifests(data: Mapping[str, Any]) -> bool:
    """Whether there is anything to resolve, or to compare with what is there."""
    load = data.get("load")
    return (
        _is_named_model(data.get("model"))
        or data.get("stack") is not None
        or (isinstance(load, dict) and load.get("scenario") is not None)
        or bool(data.get("manifests"))
        or next(named_datasets(data), None) is not None
        or bool(runtime_fields(data))
        or any(_swept_by_name(column.path, column.values) for column in columns_of(data.get("sweep")))
    )


def with_manifests(
    document: Document, abilities: Abilities, base_dir: Path | None
) -> tuple[Document, list[Problem]]:
    """The document with each manifest's content in place, and what is wrong with the names."""
    data = document.data
    if data.get("kind", DEFAULT_KIND) != DEFAULT_KIND:
        if not data.get("manifests"):
            return document, []
        return document, [
            document.problem(("manifests",), "only serving submissions name manifests; leave it out")
        ]
    if not names_manifests(data) or not _has_sections(data):
        return document, []
    try:
        known = abilities.manifests()
    except InputError as error:
        return document, [document.problem((), str(error))]
    return _Resolving(replace(document, data=copy.deepcopy(data)), abilities, known, base_dir).run()


@dataclass
class _Resolving:
    document: Document
    abilities: Abilities
    known: KnownManifests
    base_dir: Path | None
    problems: list[Problem] = field(default_factory=list)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Of models that were looked for: a file is hashed once, however often it is named.
    sources: dict[str, dict[str, Any] | InputError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runtimes = NamedRuntimes(self.abilities, self.known, self._problem)

    def run(self) -> tuple[Document, list[Problem]]:
        data = self.document.data
        datasets, runtimes = list(named_datasets(data)), runtime_fields(data)
        swept = sum(each.at[0] == "sweep" for each in (*datasets, *runtimes))
        if (count := _count_swept(data.get("sweep")) + swept) > MAX_NAMES:
            self._problem(("sweep",), f"names {count:,} manifests; at most {MAX_NAMES:,} are allowed")
            return self.document, self.problems
        self.runtimes.resolve(runtimes)
        malformed = self._given()
        for each, manifest in self.runtimes.named:
            each.holder[each.key] = exact(manifest)
            asked = asked_before(self.records.values(), each.text, manifest)
            self._record(manifest, asked, set_by(manifest))
        for each in datasets:
            each.holder[each.key] = self._dataset(each.text, each.at)
        base = copy.deepcopy(data)
        if _is_named_model(data.get("model")):
            data["model"] = self._model(data["model"], ("model",))
        if isinstance(data.get("load"), dict) and data["load"].get("scenario") is not None:
            data["load"] = self._load(data["load"]["scenario"], data["load"], ("load", "scenario"))
        if data.get("stack") is not None:
            data.update(self._stack(data.pop("stack"), data, ("stack",)))
        if isinstance(data.get("sweep"), dict):
            self._sweep(data, base)
        if self.records or "manifests" in data:
            data["manifests"] = [*malformed, *self.records.values()]
        return self.document, self.problems

    # -- one name -----------------------------------------------------------------------------------

    def _model(self, value: dict[str, Any], at: FieldPath) -> Any:
        for key in sorted(set(value) - MODEL_KEYS):
            self._problem((*at, key), "unknown key; a model by manifest has name and version")
        name, version = value.get("name"), value.get("version", "*")
        if not isinstance(name, str) or not isinstance(version, str):
            key = "version" if isinstance(name, str) else "name"
            self._problem((*at, key), f"must be text, such as {'^1.2' if key == 'version' else 'digits'}, in quotes "
                          f"where YAML would make a number of it; got {show(value.get(key))}")  # fmt: skip
            return value
        manifest = self._named("model", name, version, (*at, "version" if "version" in value else "name"))
        if manifest is None:
            return value
        try:
            sets = self._sets(manifest)
        except InputError as error:
            self._problem((*at, "name"), str(error))
            return value
        self._framework(manifest, at)
        self._record(manifest, f"{name}@{version}", sets)
        return sets["model"]

    def _load(self, text: Any, beside: dict[str, Any], at: FieldPath) -> Any:
        manifest = self._required("scenario", text, at)
        if manifest is None:
            return beside
        own = {key: value for key, value in beside.items() if key != "scenario"}
        load = manifest.content["load"]
        for key in own:
            if own[key] is not None and (key in SCENARIO_DECIDES or key in load):
                message = f"the scenario {manifest.name}@{manifest.version} says it; leave it out, or name no scenario"
                self._problem((*at[:-1], key), message)
        self._record(manifest, str(text), self._sets(manifest))
        return {**own, **copy.deepcopy(load)}

    def _stack(self, text: Any, beside: Mapping[str, Any], at: FieldPath) -> dict[str, Any]:
        sections = {name: dict(beside.get(name) or {}) for name in ("convert", "serve")}
        manifest = self._required("stack", text, at)
        if manifest is None:
            return sections
        says = self._sets(manifest)
        for name, values in says.items():
            for key in values:
                if sections[name].get(key) is not None:
                    message = f"the stack {manifest.name}@{manifest.version} says it; leave it out, or name no stack"
                    self._problem((name, key), message)
        self._framework(manifest, at)
        self._record(manifest, str(text), says)
        if (own := self.runtimes.of_stack(manifest, self._serve(manifest))) is not None:
            self._record(own, manifest.content["framework"], set_by(own))
        return {name: {**sections[name], **copy.deepcopy(values)} for name, values in says.items()}

    def _dataset(self, text: str, at: FieldPath) -> str:
        """The bare name of the data set; ``text`` as it is where it can't be resolved."""
        manifest = self._required("dataset", text, at)
        if manifest is None:
            return text
        self._record(manifest, text, self._sets(manifest))
        return manifest.name

    def _sets(self, manifest: NamedManifest) -> dict[str, Any]:
        """What a manifest puts into a submission; InputError where a model can't be had here."""
        content = manifest.content
        if manifest.kind == "scenario":
            return {"load": copy.deepcopy(content["load"])}
        if manifest.kind == "dataset":
            return {"evaluate": {"dataset": manifest.name}}
        if manifest.kind == "stack":
            own = self.runtimes.of_stack(manifest, self._serve(manifest))
            framework = {"framework": exact(own)} if own else {}
            settings = copy.deepcopy(content.get("settings", {}))
            return {
                "convert": {"format": content["format"], "precision": content.get("precision", "fp32")},
                "serve": {"backend": content["backend"], **framework, **settings},
            }
        key = f"{manifest.name}@{manifest.version}"
        if key not in self.sources:
            try:
                self.sources[key] = self.abilities.source_of(manifest, self.base_dir)
            except InputError as error:
                self.sources[key] = error
        source = self.sources[key]
        if isinstance(source, InputError):
            raise source
        return {"model": copy.deepcopy(source)}

    def _framework(self, by: NamedManifest, at: FieldPath) -> None:
        """What a manifest needs, of what is there."""
        backend = by.content["backend"] if by.kind == "stack" else None
        text = by.content.get("framework")
        if text is None:
            return
        serve = self._serve(by)
        manifest: NamedManifest | None
        try:
            wanted = Requirement.parse(text)
            if by.kind == "stack" and self._swept_elsewhere(by, wanted, at):
                return
            if by.kind == "stack" and in_container(serve):
                manifest = self.known.framework_in(wanted.name, wanted.constraint.text, serve.get("image"))
            else:
                manifest = self.runtimes.of_stack(by, serve)
                if manifest is None and self.runtimes.replace(wanted, text, by):
                    return
                manifest = manifest or self.known.framework_for(wanted.name, wanted.constraint.text, backend)
        except (InputError, ValueError) as error:
            self._problem(at, f"needs {text}: {error}")
            return
        if manifest is not None:
            sets = {"serve": placed(serve)} if by.kind == "stack" else {}
            self._record(manifest, text, sets, f"{by.kind}:{by.name}@{by.version}")

    def _swept_elsewhere(self, stack: NamedManifest, wanted: Requirement, at: FieldPath) -> bool:
        """Whether a sweep has jobs run where nobody looked which version runs, of a stack that needs one: told."""
        # What swept stacks put in was resolved for each, also of a submission that was read before.
        column = swept_place(self.document.data.get("sweep"), whole=at == ("stack",))
        if column is None or wanted.constraint.takes_any:
            return False
        needs = f"the stack {stack.name}@{stack.version} needs {stack.content['framework']}"
        self._problem(
            column.at,
            f"decides which version of {wanted.name} runs, and {needs}; write a stack for each launcher and image "
            "(settings: {launcher, image}), and sweep stack",
        )
        return True

    def _serve(self, by: NamedManifest) -> dict[str, Any]:
        """What the submission and a stack say of ``serve``, before a sweep."""
        return {**(self.document.data.get("serve") or {}), **by.content.get("settings", {})}

    # -- the sweep ----------------------------------------------------------------------------------

    def _sweep(self, data: dict[str, Any], base: dict[str, Any]) -> None:
        """Names under ``sweep``: each becomes the sections that it stands for, as columns that go together."""
        sweep, place = data["sweep"], ("sweep",)
        grid = sweep["grid"] if isinstance(sweep.get("grid"), dict) else sweep
        written = zip_groups(sweep)
        if not all(isinstance(group, dict) for _, group in written):
            return  # told by the schema
        groups = [
            self._columns(group, base, at, (*place, "zip", number))
            for number, (at, group) in enumerate(written)
        ]
        by_name = [path for path in _SWEPT if _swept_by_name(path, grid.get(path))]
        for path in by_name:
            inside = tuple(f"{section}." for section in _SWEPT[path])
            if both := [other for other in grid if other != path and str(other).startswith(inside)]:
                self._problem(
                    (*place, path), f"overlaps with {both[0]}, which is swept too; sweep one of them"
                )
        groups += [self._columns({path: grid.pop(path)}, base, place, place) for path in by_name]
        if groups:
            sweep["zip"] = groups

    def _columns(
        self, group: dict[str, Any], base: dict[str, Any], at: FieldPath, to: FieldPath
    ) -> dict[str, Any]:
        """``at``: where the group was written, ``to``: where it is looked for from now on."""
        columns: dict[str, Any] = {}
        for path, values in group.items():
            if not _swept_by_name(path, values):
                columns[path] = values
                continue
            if both := [section for section in _SWEPT[path] if section != path and section in group]:
                self._problem((*at, path), f"overlaps with {both[0]}, which is swept too; sweep one of them")
                continue
            rows = [self._value(path, value, base, (*at, path, row)) for row, value in enumerate(values)]
            for section in _SWEPT[path]:
                columns[section] = [row[section] for row in rows]
                line = self.document.line((*at, path))
                if line is not None:
                    self.document.lines[(*to, section)] = line
        return columns

    def _value(self, path: str, value: Any, base: dict[str, Any], at: FieldPath) -> dict[str, Any]:
        if path == "model":
            return {"model": self._model(value, at) if _is_named_model(value) else value}
        if path == "load.scenario":
            load = {key: item for key, item in (base.get("load") or {}).items() if key != "scenario"}
            return {"load": self._load(value, load, at)}
        return self._stack(value, base, at)

    # -- resolving ----------------------------------------------------------------------------------

    def _required(self, kind: str, text: Any, at: FieldPath) -> NamedManifest | None:
        try:
            wanted = Requirement.parse(text) if isinstance(text, str) else None
        except ValueError as error:
            self._problem(at, str(error))
            return None
        if wanted is None:
            self._problem(
                at, f"must be the name of a {kind} with a constraint, such as NAME@^1; got {show(text)}"
            )
            return None
        return self._named(kind, wanted.name, wanted.constraint.text, at)

    def _named(self, kind: str, name: str, constraint: str, at: FieldPath) -> NamedManifest | None:
        if kind == "dataset" and name not in self.abilities.datasets:
            self._problem(at, unknown(self.abilities.datasets, name))
            return None
        try:
            if kind == "dataset":
                return self.known.dataset(name, constraint)
            return self.known.manifest(kind, name, constraint)
        except InputError as error:
            of_name = error.field == "name" and at[-1] == "version"
            self._problem((*at[:-1], "name") if of_name else at, error.message if error.field else str(error))
            return None

    def _given(self) -> list[Any]:
        """Records of a submission that was read before: each must say what it would say if it were made here.

        Those of frameworks are made anew by what needs them. Returned are those that are no records: the schema tells.
        """
        given = self.document.data.get("manifests", [])
        if len(given) > MAX_NAMES:
            return list(given)
        malformed = []
        for at, record in enumerate(given):
            fields = ("kind", "name", "version", "asked")
            if not isinstance(record, dict) or not all(isinstance(record.get(word), str) for word in fields):
                malformed.append(record)
            elif record["kind"] != "framework":
                self._check_given(record, ("manifests", at))
            elif not record.get("wanted_by") and (runtime := self.runtimes.of_record(record)) is not None:
                self._record(runtime, record["asked"], set_by(runtime))
        return malformed

    def _check_given(self, record: dict[str, Any], at: FieldPath) -> None:
        kind, name, version, asked = (record[word] for word in ("kind", "name", "version", "asked"))
        if kind not in NAMED_KINDS:
            self._problem((*at, "kind"), f"a submission names {', '.join(NAMED_KINDS)}; got {show(kind)}")
            return
        manifest = self._named(kind, name, version, (*at, "version"))
        if manifest is None:
            return
        if manifest.version != version:
            self._problem(
                (*at, "version"), f"must be one version, as {manifest.version}; got {show(version)}"
            )
            return
        if manifest.digest != record.get("digest"):
            message = f"{name}@{version} has the digest {manifest.digest[:12]} here, another one is given"
            self._problem((*at, "digest"), message)
            return
        try:
            wanted = Requirement.parse(asked)
            sets = self._sets(manifest)
        except (InputError, ValueError) as error:
            self._problem(at, str(error))
            return
        if wanted.name != name or wanted.constraint.newest([version]) is None:
            self._problem(
                (*at, "asked"), f"{show(asked)} does not lead to {name}@{version}; leave manifests out"
            )
        elif record.get("sets", {}) != sets or record.get("wanted_by", ""):
            message = f"is not what {name}@{version} puts into a submission; leave manifests out, and name it"
            self._problem((*at, "sets"), message)
        else:
            self._framework(manifest, at)
            self._record(manifest, asked, sets)

    def _record(self, manifest: NamedManifest, asked: str, sets: dict[str, Any], wanted_by: str = "") -> None:
        self.records[f"{manifest.kind}:{manifest.name}:{asked}:{wanted_by}"] = {
            "kind": manifest.kind,
            "name": manifest.name,
            "asked": asked,
            "version": manifest.version,
            "digest": manifest.digest,
            "wanted_by": wanted_by,
            "sets": copy.deepcopy(sets),
        }

    def _problem(self, at: FieldPath, message: str) -> None:
        self.problems.append(self.document.problem(at, message))


def _is_named_model(value: Any) -> bool:
    return isinstance(value, dict) and value.get("kind") == "manifest"


def _has_sections(data: Mapping[str, Any]) -> bool:
    """Whether what manifests are put into is of the right type; where it is not, the schema tells."""
    sections = (data.get(name) for name in ("load", "convert", "serve"))
    return all(value is None or isinstance(value, dict) for value in sections) and isinstance(
        data.get("manifests", []), list
    )


def _swept_by_name(path: str, values: Any) -> bool:
    """Whether a column under ``sweep`` names manifests."""
    if path not in _SWEPT or not isinstance(values, list):
        return False
    return path != "model" or any(_is_named_model(value) for value in values)


def _count_swept(sweep: Any) -> int:
    """How many names of manifests stand under ``sweep``."""
    return sum(
        path != "model" or _is_named_model(value)
        for _, path, values in columns_of(sweep)
        if path in _SWEPT
        for value in values
    )
