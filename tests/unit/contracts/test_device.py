"""A device as people write it."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from inferbench_tasks.contracts.device import CPU, DeviceSpec


class Document(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    device: DeviceSpec = CPU


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        ("cpu", "cpu", ""),
        ("gpu", "gpu", ""),
        ("gpu:t4", "gpu", "t4"),
        ("gpu:0", "gpu", "0"),
        ("cpu:0-3", "cpu", "0-3"),
    ],
)
def test_its_parts_are_known(text: str, kind: str, detail: str) -> None:
    """Its kind, and what follows the colon; as a whole it is the text that was written."""
    device = DeviceSpec(text)
    assert (device.kind, device.detail) == (kind, detail)
    assert device == text and json.dumps([device]) == json.dumps([text])


@pytest.mark.parametrize(
    "text", ["", "tpu", "gpus", "gpu:", "gpu:a b", "GPU", "cpu\n", "gpu:-1", "gpu:" + "x" * 51]
)
def test_other_texts_are_refused(text: str) -> None:
    """The message says what is allowed."""
    with pytest.raises(ValueError, match="must be cpu, gpu or gpu:<type>"):
        DeviceSpec(text)


def test_a_document_holds_its_text() -> None:
    """A stored document, and so a digest, is the same as if the field were text; what is read again knows its parts."""
    document = Document.model_validate({"device": "gpu:t4"})
    assert document.device.kind == "gpu"
    for mode in ("json", "python"):
        assert document.model_dump(mode=mode) == {"device": "gpu:t4"}
        assert type(document.model_dump(mode=mode)["device"]) is str
    assert Document.model_validate_json(document.model_dump_json()) == document
    assert Document.model_json_schema()["properties"]["device"]["type"] == "string"
    for value in (3, None, "tpu"):
        with pytest.raises(ValidationError):
            Document.model_validate({"device": value})


def test_a_copy_is_a_device() -> None:
    """Jobs are handed to other processes."""
    device = DeviceSpec("gpu:t4")
    for other in (copy.deepcopy(device), pickle.loads(pickle.dumps(device))):
        assert isinstance(other, DeviceSpec) and other == device and other.detail == "t4"
