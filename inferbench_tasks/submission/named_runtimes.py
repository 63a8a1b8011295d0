"""Versions of runtimes that a submission names (``serve: {framework: onnxruntime@~1.27}``, under ``sweep`` too), and
those that a stack needs which are not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from inferbench_tasks.contracts.versions import Requirement
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import FieldPath
from inferbench_tasks.submission.abilities import Abilities, KnownManifests, NamedManifest
from inferbench_tasks.submission.named_fields import NamedField, named_fields
from inferbench_tasks.submission.swept import Column, columns_of

Data = Mapping[str, Any]


def runtime_fields(data: Data) -> list[NamedField]:
    """Where they are named; a bare name stands for the newest version."""
    return list(named_fields(data, "serve", "framework"))


def exact(manifest: NamedManifest) -> str:
    """``onnxruntime@1.27.0``, as it stands in a submission that was read."""
    return f"{manifest.name}@{manifest.version}"


def set_by(manifest: NamedManifest) -> dict[str, Any]:
    """What it puts into a submission."""
    return {"serve": {"framework": exact(manifest)}}


def in_container(serve: Data) -> bool:
    """Whether that ``serve`` is of a container, whose image brings the version."""
    return bool(serve.get("launcher") == "container")


def swept_place(sweep: Any, *, whole: bool) -> Column | None:
    """The column under ``sweep`` that has jobs run elsewhere than ``serve`` says; ``whole``: one of all that ``serve``
    is counts, too."""
    paths = ("serve.launcher", "serve.image", *(("serve",) if whole else ()))
    return next((column for column in columns_of(sweep) if column.path in paths), None)


def placed(serve: Data) -> dict[str, Any]:
    """Where that ``serve`` runs: a sweep may run it elsewhere, where what was resolved for it does not hold."""
    if in_container(serve):
        return {"launcher": "container", "image": serve.get("image")}
    return {"launcher": "process"}


@dataclass
class NamedRuntimes:
    """``problem(at, message)`` is told what is wrong. ``named``: each name that leads to a version, with that one."""

    abilities: Abilities
    known: KnownManifests
    problem: Callable[[FieldPath, str], None]
    named: list[tuple[NamedField, NamedManifest]] = field(default_factory=list)
    #: Of stacks that were asked for, by name, version and whether they run in a container.
    _of_stacks: dict[tuple[str, str, bool], NamedManifest | None] = field(default_factory=dict)

    def resolve(self, fields: Iterable[NamedField]) -> None:
        """Find the version of each."""
        for each in fields:
            try:
                wanted = Requirement.parse(each.text)
                manifest = self.known.runtime_for(wanted.name, wanted.constraint.text)
            except (InputError, ValueError) as error:
                self.problem(each.at, error.message if isinstance(error, InputError) else str(error))
            else:
                self.named.append((each, manifest))

    def of_stack(self, stack: NamedManifest, serve: Data) -> NamedManifest | None:
        """Of a stack whose framework is not installed in a version that fits: that of an environment of its own.

        None where nothing is to be said: what is installed fits, or nothing does, or the backend runs no other version,
        or ``serve`` (as the submission and the stack say it) is of a container.
        """
        if stack.kind != "stack":
            return None
        key = stack.name, stack.version, in_container(serve)
        if key not in self._of_stacks:
            self._of_stacks[key] = None if in_container(serve) else self._own_of(stack)
        return self._of_stacks[key]

    def _own_of(self, stack: NamedManifest) -> NamedManifest | None:
        text, kind = stack.content.get("framework"), stack.content.get("backend")
        if text is None or kind not in self.abilities.backends:
            return None
        backend = self.abilities.backend(str(kind))
        with suppress(InputError, ValueError):  # told by what needs it
            wanted = Requirement.parse(text)
            if not backend.other_versions or backend.package != wanted.name:
                return None
            with suppress(InputError):
                self.known.framework_for(wanted.name, wanted.constraint.text, kind)
                return None
            return self.known.runtime_for(wanted.name, wanted.constraint.text)
        return None

    def replace(self, wanted: Requirement, text: str, by: NamedManifest) -> bool:
        """Whether the submission names versions itself of what a manifest (``by``) needs, in place of what is
        installed; those that it can't do with are told.
        """
        own = [(each, manifest) for each, manifest in self.named if manifest.name == wanted.name]
        for each, manifest in own:
            if not wanted.constraint.allows(Version(manifest.version)):
                needs = f"the {by.kind} {by.name}@{by.version} needs {text}"
                self.problem(each.at, f"is {manifest.version}, and {needs}")
        return bool(own)

    def of_record(self, record: Data) -> NamedManifest | None:
        """What a record of a submission that was read before stands for; None of one that it does not name."""
        for _, manifest in self.named:
            if _is_of(record, manifest):
                with suppress(ValueError):
                    wanted = Requirement.parse(record["asked"])
                    if wanted.name == manifest.name and wanted.constraint.allows(Version(manifest.version)):
                        return manifest
        return None


def asked_before(records: Iterable[Data], text: str, manifest: NamedManifest) -> str:
    """How it was asked for: where a submission was read before, as its record says and not as it stands there now."""
    before = (str(record["asked"]) for record in records if _is_of(record, manifest))
    return next(before, text) if text == exact(manifest) else text


def _is_of(record: Data, manifest: NamedManifest) -> bool:
    """Whether a record is of that version, and of a name of the submission's own."""
    identity = (record["kind"], record["name"], record["version"], record.get("wanted_by", ""))
    return identity == ("framework", manifest.name, manifest.version, "")
