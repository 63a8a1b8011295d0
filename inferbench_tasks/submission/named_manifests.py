"""Manifests that a submission names: resolved before it is validated, and put in where they are named.

``model: {kind: manifest, name, version}`` becomes the model's source, ``load: {scenario: NAME@^1}`` the scenario's
load, ``stack: NAME@^1`` what it says of ``convert`` and ``serve``; under ``sweep`` too. What is validated, swept and
hashed is then a submission like any other; ``manifests`` has to what each name was resolved.
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
from inferbench_tasks.submission.abilities import Abilities, NamedManifest
from inferbench_tasks.submission.base import DEFAULT_KIND
from inferbench_tasks.submission.document import Document

MODEL_KEYS = {"kind", "name", "version"}
#: What a scenario decides; beside one only the rest of a load may be said.
SCENARIO_DECIDES = (
    "arrivals", "engine", "duration_s", "warmup_s", "max_requests", "batch_size", "timeout_ms", "max_error_ratio",
    "expect",
)  # fmt: skip
#: A swept name -> the sections that it becomes, in the sweep.
_SWEPT = {"model": ("model",), "load.scenario": ("load",), "stack": ("convert", "serve")}


def names_manifests(data: Mapping[str, Any]) -> bool:
    """Whether there is anything to resolve, or to compare with what is there."""
    sweep = data.get("sweep")
    load = data.get("load")
    return (
        _is_named_model(data.get("model"))
        or data.get("stack") is not None
        or (isinstance(load, dict) and load.get("scenario") is not None)
        or bool(data.get("manifests"))
        or (isinstance(sweep, dict) and _sweeps_any(sweep))
    )


def with_manifests(
    document: Document, abilities: Abilities, base_dir: Path | None
) -> tuple[Document, list[Problem]]:
    """The document with each manifest's content in place, and what is wrong with the names."""
    serving = document.data.get("kind", DEFAULT_KIND) == DEFAULT_KIND
    if not serving or not names_manifests(document.data):
        return document, []
    return _Resolving(replace(document, data=copy.deepcopy(document.data)), abilities, base_dir).run()


@dataclass
class _Resolving:
    document: Document
    abilities: Abilities
    base_dir: Path | None
    problems: list[Problem] = field(default_factory=list)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self) -> tuple[Document, list[Problem]]:
        data = self.document.data
        self._compare_given()
        base = copy.deepcopy(data)
        if _is_named_model(data.get("model")):
            data["model"] = self._model(data["model"], ("model",))
        if isinstance(data.get("load"), dict) and data["load"].get("scenario") is not None:
            data["load"] = self._load(data["load"]["scenario"], data["load"], ("load", "scenario"))
        if data.get("stack") is not None:
            data.update(self._stack(data.pop("stack"), data, ("stack",)))
        if isinstance(data.get("sweep"), dict):
            self._sweep(data, base)
        if self.records:
            data["manifests"] = [*data.get("manifests", []), *self.records.values()]
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
            source = self.abilities.source_of(manifest, self.base_dir)
        except InputError as error:
            self._problem((*at, "name"), str(error))
            return value
        self._framework(manifest, None, at)
        self._record(manifest, f"{name}@{version}", {"model": source})
        return source

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
        self._record(manifest, str(text), {"load": load})
        return {**own, **copy.deepcopy(load)}

    def _stack(self, text: Any, beside: Mapping[str, Any], at: FieldPath) -> dict[str, Any]:
        sections = {name: dict(beside.get(name) or {}) for name in ("convert", "serve")}
        manifest = self._required("stack", text, at)
        if manifest is None:
            return sections
        content = manifest.content
        says = {
            "convert": {"format": content["format"], "precision": content.get("precision", "fp32")},
            "serve": {"backend": content["backend"], **content.get("settings", {})},
        }
        for name, values in says.items():
            for key in values:
                if sections[name].get(key) is not None:
                    message = f"the stack {manifest.name}@{manifest.version} says it; leave it out, or name no stack"
                    self._problem((name, key), message)
        self._framework(manifest, content["backend"], at)
        self._record(manifest, str(text), says)
        return {name: {**sections[name], **copy.deepcopy(values)} for name, values in says.items()}

    def _framework(self, by: NamedManifest, backend: str | None, at: FieldPath) -> None:
        """What a manifest needs, of what is there."""
        text = by.content.get("framework")
        if text is None:
            return
        try:
            wanted = Requirement.parse(text)
            manifest = self.abilities.framework_for(wanted.name, wanted.constraint.text, backend)
        except (InputError, ValueError) as error:
            self._problem(at, f"needs {text}: {error}")
            return
        self._record(manifest, text, {}, f"{by.kind}:{by.name}@{by.version}")

    # -- the sweep ----------------------------------------------------------------------------------

    def _sweep(self, data: dict[str, Any], base: dict[str, Any]) -> None:
        """Names under ``sweep``: each becomes the sections that it stands for, as columns that go together."""
        sweep, place = data["sweep"], ("sweep",)
        grid = sweep["grid"] if isinstance(sweep.get("grid"), dict) else sweep
        groups = sweep.get("zip") or []
        groups = [groups] if isinstance(groups, dict) else groups
        if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
            return  # told by the schema
        groups = [self._columns(group, base, (*place, "zip", at)) for at, group in enumerate(groups)]
        for path in [path for path in _SWEPT if self._swept(grid, path)]:
            groups.append(self._columns({path: grid.pop(path)}, base, place))
        if groups:
            sweep["zip"] = groups

    def _columns(self, group: dict[str, Any], base: dict[str, Any], at: FieldPath) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for path, values in group.items():
            if not self._swept(group, path):
                columns[path] = values
                continue
            rows = [self._value(path, value, base, (*at, path, row)) for row, value in enumerate(values)]
            for section in _SWEPT[path]:
                columns[section] = [row[section] for row in rows]
                line = self.document.line((*at, path))
                if line is not None:
                    self.document.lines[(*at, section)] = line
        return columns

    def _value(self, path: str, value: Any, base: dict[str, Any], at: FieldPath) -> dict[str, Any]:
        if path == "model":
            return {"model": self._model(value, at) if _is_named_model(value) else value}
        if path == "load.scenario":
            load = {key: item for key, item in (base.get("load") or {}).items() if key != "scenario"}
            return {"load": self._load(value, load, at)}
        return self._stack(value, base, at)

    def _swept(self, group: Mapping[str, Any], path: str) -> bool:
        values = group.get(path)
        if path not in _SWEPT or not isinstance(values, list):
            return False
        return path != "model" or any(_is_named_model(value) for value in values)

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
        try:
            return self.abilities.manifest(kind, name, constraint)
        except InputError as error:
            self._problem(at, error.message if error.field else str(error))
            return None

    def _compare_given(self) -> None:
        """Of a submission that was read before: what it was resolved to must still be what it was."""
        given = self.document.data.get("manifests")
        for at, record in enumerate(given if isinstance(given, list) else []):
            if not isinstance(record, dict) or record.get("kind") == "framework":
                continue
            words = [record.get(key) for key in ("kind", "name", "version")]
            if not all(isinstance(word, str) for word in words):
                continue  # told by the schema
            manifest = self._named(words[0], words[1], f"=={words[2]}", ("manifests", at))  # type: ignore[arg-type]
            if manifest is not None and manifest.digest != record.get("digest"):
                message = (
                    f"{words[1]}@{words[2]} has the digest {manifest.digest[:12]} here, another one is given"
                )
                self._problem(("manifests", at, "digest"), message)

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


def _sweeps_any(sweep: Mapping[str, Any]) -> bool:
    groups = sweep.get("zip") or []
    grids: list[Any] = [sweep, sweep.get("grid"), *([groups] if not isinstance(groups, list) else groups)]
    for grid in grids:
        if isinstance(grid, dict):
            models = grid.get("model")
            if isinstance(models, list) and any(_is_named_model(value) for value in models):
                return True
            if any(isinstance(grid.get(path), list) for path in ("load.scenario", "stack")):
                return True
    return False
