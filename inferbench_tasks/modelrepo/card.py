"""What the model repository knows of a model, and the fields by which models are searched."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.spec import Slug
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.documents import Document
from inferbench_tasks.perfdb.values import Attachment

Text = Annotated[str, Field(max_length=2000)]


class ModelCard(Document):
    """One version of a model. Its files and what was measured of them never change; the words may.

    ``flops`` and ``bytes`` are per sample (see ``handles.ModelArtifact``); ``file`` is the model's file
    or folder among ``files``, whose names are paths relative to one folder. ``origin`` is the
    submission's ``model:`` that it was made from, None for a file.
    """

    name: Slug
    version: Annotated[int, Field(ge=1)]
    kind: Literal["registry", "zoo"] = "registry"
    framework: str | None = None
    format: str | None = None
    precision: str | None = None
    task: Text | None = None
    dataset: Text | None = None
    licence: Text | None = None
    description: Text = ""
    tags: Annotated[list[Slug], Field(max_length=20)] = []
    user: str = "anonymous"
    parameters: int | None = None
    flops: int | None = None
    bytes: int | None = None
    accuracy_ratio: float | None = None
    #: How many samples each call takes, None: any number; what was done to the file so that it can be served.
    batch_size: int | None = None
    adapted: tuple[str, ...] = ()
    digest: str | None = None
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    origin: dict[str, Any] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    #: The files are gone; the version's number is not given again.
    deleted_at: datetime | None = None
    file: str = ""
    files: list[Attachment] = []

    @model_serializer(mode="wrap")
    def _short(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Cards of models that take any batch are what they were before there were others."""
        card: dict[str, Any] = dump(self)
        return {name: value for name, value in card.items() if value or name not in ("batch_size", "adapted")}


#: What ``update`` may change.
WORDS = ("task", "dataset", "licence", "description", "tags")


def _plain(name: str, kind: fields.Kind, help: str, path: str | None = None) -> fields.Field:
    return fields.Field(name, path or name, kind, help)


FIELDS: tuple[fields.Field, ...] = (
    _plain("name", "text", "the model's name"),
    _plain("version", "number", "the version, from 1"),
    _plain("kind", "text", "registry (registered here) or zoo (built in)"),
    _plain("task", "text", "for instance image-classification"),
    _plain("dataset", "text", "its data set"),
    _plain("framework", "text", "torch, tensorflow, sklearn, ..."),
    _plain("format", "text", "onnx, torchscript, savedmodel, ..."),
    _plain("precision", "text", "fp32, fp16, bf16, int8"),
    _plain("licence", "text", "the licence"),
    _plain("tag", "text", "one of its tags", "tags"),
    _plain("user", "text", "who registered it"),
    _plain("parameters", "number", "number of weights"),
    _plain("flops", "number", "FLOP per sample"),
    _plain("bytes", "number", "bytes read and written per sample"),
    fields.Field(
        "accuracy_ratio",
        "accuracy_ratio",
        "number",
        "on its held-out test set, 0 to 1",
        aliases=("accuracy",),
    ),
    _plain("digest", "text", "SHA-256 of its files"),
    _plain("created", "time", "when it was registered", "created_at"),
)


def field(name: str) -> fields.Field:
    """The field of that name; InputError lists what is allowed."""
    for known in FIELDS:
        if name in (known.name, *known.aliases):
            return known
    raise fields.unknown(name, FIELDS)


def identity(text: str) -> tuple[str, int | None]:
    """``name`` or ``name@version``, as a user writes it."""
    name, at, version = text.partition("@")
    if not at:
        return name, None
    if not version.isdigit() or int(version) < 1:
        raise InputError(f"{text!r} is no model: it has the form name or name@version, for instance digits@2")
    return name, int(version)
