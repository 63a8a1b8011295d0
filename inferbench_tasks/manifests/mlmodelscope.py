"""MLModelScope's model manifests (github.com/rai-project/dlframework) as ours; what can't be taken over is listed.

Code that stands in such a manifest (its pre- and post-processing in Python) is never run, and nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.versions import Constraint
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.manifests.kinds.model import ModelManifest
from inferbench_tasks.manifests.mlmodelscope_left import Imported
from inferbench_tasks.manifests.mlmodelscope_tensors import inputs_of, outputs_of
from inferbench_tasks.manifests.reading import of_document
from inferbench_tasks.problem import Problem
from inferbench_tasks.submission.document import MAX_BYTES, Document, read_document

#: Python in the manifest.
CODE = (
    "before_preprocess",
    "preprocess",
    "after_preprocess",
    "before_postprocess",
    "postprocess",
    "after_postprocess",
)
#: Their names of frameworks -> ours; others are taken in small letters.
_FRAMEWORKS = {"pytorch": "torch", "onnx": "onnxruntime"}
#: (modality of the first input, of the first output) -> our task.
_TASKS = {
    ("image", "classification"): "image-classification",
    ("image", "boundingbox"): "object-detection",
    ("image", "semanticsegment"): "semantic-segmentation",
    ("image", "instancesegment"): "instance-segmentation",
    ("image", "rawimage"): "image-enhancement",
    ("image", "image"): "image-enhancement",
    ("text", "classification"): "text-classification",
}
#: Attribute -> our figure, and by how much theirs is divided where it is above 1.
_PUBLISHED = {
    "top1": ("top1_ratio", 100.0),
    "top5": ("top5_ratio", 100.0),
    "map": ("average_precision", 100.0),
}
_MD5 = re.compile(r"[0-9a-f]{32}")
_URL = re.compile(r"(https?|s3|gs)://[^\s]+")
_TAKEN = frozenset(
    {"name", "version", "description", "references", "license", "licence", "framework", "inputs", "output", "outputs",
     "model", "attributes", *CODE}
)  # fmt: skip


def read_mlmodelscope(path: Path) -> tuple[ModelManifest, list[dict[str, Any]]]:
    """The manifest in a file of theirs, and what of it was left. SubmissionError, with lines, for what is none."""
    source = str(path)
    if not path.is_file():
        raise SubmissionError([Problem(source, None, "", "there is no such file")])
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    try:
        return imported(read_document(content.decode("utf-8-sig"), source))
    except UnicodeDecodeError as error:
        raise SubmissionError(
            [Problem(source, None, "", "not UTF-8 text; save the file as UTF-8")]
        ) from error


def imported(document: Document) -> tuple[ModelManifest, list[dict[str, Any]]]:
    """The same of a document that was read."""
    if document.problems:
        raise SubmissionError(document.problems)
    found = Imported(document)
    data = document.data
    if "kind" in data or not isinstance(data.get("model"), dict) or not isinstance(data.get("name"), str):
        raise found.refuse((), "no model manifest of MLModelScope: it has name and model, and no kind")
    content = {
        "kind": "model",
        "name": _name(found),
        "version": _version(found),
        "description": str(data.get("description") or "").strip(),
        "licence": data.get("license") or data.get("licence"),
        "references": [str(each) for each in data.get("references") or ()],
        "framework": _framework(found),
        "inputs": inputs_of(found),
        "outputs": outputs_of(found),
        "task": _task(found),
        "sources": _sources(found),
        "published": _published(found),
    }
    for key in CODE:
        if data.get(key):
            found.leave((key,), "code in the manifest: it is never run")
    for key in data:
        if key not in _TAKEN:
            found.leave((key,), _REST.get(key, "there is nothing like it in our manifests"))
    manifest = of_document(Document(document.file, {name: value for name, value in content.items() if value}))
    assert isinstance(manifest, ModelManifest)
    return manifest, sorted(found.left, key=lambda row: row["line"] or 0)


_REST = {"container": "their images are of their own agents; a stack says which image serves"}


def _name(found: Imported) -> str:
    name = str(found.file.data["name"]).strip()
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)
    slug = re.sub(r"\.{2,}", ".", slug).strip("-._")[:100]
    if slug != name:
        found.leave(("name",), f"{name!r} is no name here; it is {slug!r}")
    return slug


def _text(found: Imported, path: tuple[str, ...], value: Any) -> str:
    """As it was written: 1.10 is another version than 1.1."""
    return str(found.file.written.get(path, value)).strip()


def _version(found: Imported) -> str:
    value = found.file.data.get("version")
    if value is None:
        found.leave(("version",), "there is none; it is 1.0.0")
        return "1.0.0"
    parts = _text(found, ("version",), value).split(".")
    return ".".join([*parts, *["0"] * (3 - len(parts))])


def _framework(found: Imported) -> str | None:
    framework = found.file.data.get("framework")
    if isinstance(framework, str):
        framework = {"name": framework}
    if not isinstance(framework, Mapping) or not framework.get("name"):
        return None
    written = str(framework["name"]).strip().lower()
    name = _FRAMEWORKS.get(written, written)
    version = framework.get("version")
    if version is None:
        return name
    text = _text(found, ("framework", "version"), version)
    try:
        Constraint.parse(text)
    except ValueError as error:
        found.leave(("framework", "version"), str(error))
        return name
    return f"{name}@{text}"


def _task(found: Imported) -> str | None:
    data = found.file.data
    kinds = [_kind(data.get("inputs")), _kind(data.get("outputs") or data.get("output"))]
    task = _TASKS.get((kinds[0], kinds[1]))
    if task is None:
        found.leave(
            ("output",) if "output" in data else ("outputs",), f"of {kinds[0]} to {kinds[1]}: no task of ours"
        )
    return task


def _kind(value: Any) -> str:
    first = value[0] if isinstance(value, list) and value else value
    return str(first.get("type", "")).lower().replace("_", "") if isinstance(first, Mapping) else ""


def _sources(found: Imported) -> list[dict[str, Any]]:
    """The graph by its URL; weights in a file of their own are listed, for a source is one file or archive."""
    model = found.file.data["model"]
    archive = bool(model.get("is_archive"))
    base, graph = str(model.get("base_url") or "").strip(), str(model.get("graph_path") or "").strip()
    url = base if archive else _joined(base, graph)
    if not _URL.fullmatch(url):
        raise found.refuse(
            ("model",), f"says no URL of the model; base_url and graph_path give {url[:100]!r}"
        )
    source: dict[str, Any] = {"kind": "url", "url": url}
    checksum = str(model.get("graph_checksum") or "").strip().lower()
    if archive:
        found.leave(
            ("model", "graph_path"),
            f"{graph} lies in the archive: unpack it, and name the file with kind: file",
        )
        if checksum:
            found.leave(("model", "graph_checksum"), "of the file in the archive, not of the archive")
    elif _MD5.fullmatch(checksum):
        source["md5"] = checksum
    elif checksum:
        found.leave(("model", "graph_checksum"), "no MD5 of 32 hex digits")
    if weights := model.get("weights_path"):
        where = "in the archive too" if archive else _joined(base, str(weights))
        found.leave(
            ("model", "weights_path"),
            f"a second file ({where}): our source is one file; convert both to ONNX",
        )
    return [source]


def _joined(base: str, path: str) -> str:
    return path if "://" in path or not base else f"{base.rstrip('/')}/{path.lstrip('/')}"


def _published(found: Imported) -> list[dict[str, Any]]:
    attributes = found.file.data.get("attributes")
    if not isinstance(attributes, Mapping):
        return []
    author = attributes.get("manifest_author")
    source = f"MLModelScope's manifest of {found.file.data['name']}" + (f", by {author}" if author else "")
    figures = []
    for key, value in _attributes(attributes):
        known = _PUBLISHED.get(key.lower())
        if known is None:
            if key != "manifest_author":
                found.leave(("attributes", key), "there is nothing like it in our manifests")
            continue
        name, percent = known
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= percent:
            found.leave(("attributes", key), f"no share and no percentage: {value!r}")
            continue
        figures.append(
            {"figure": name, "value": value / percent if value > 1 else float(value), "source": source}
        )
    return figures


def _attributes(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in attributes.items():
        yield str(key), value
