"""MLModelScope's model manifests: what is taken over, and that all else is listed; nothing of them is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.manifests.mlmodelscope import read_mlmodelscope

#: In the form of their manifests of version 1, with code as those of version 2 have it.
TEXT = """\
name: Small Net v1.5 # name of the model
framework:
  name: TensorFlow
  version: '>=1.12.0'
version: 1.10
container:
  amd64: {cpu: example/agent:amd64-cpu}
description: >
  A network for the tests.
references: [https://example.org/paper]
license: Apache-2.0
inputs:
  - type: image
    description: the picture
    parameters:
      element_type: float32
      input_layer: 'input'
      layout: HWC
      color_mode: RGB
      dimensions: [3, 224, 192]
      mean: [128, 127, 126]
      scale: 128
output:
  type: classification
  parameters:
    element_type: float32
    probabilities_layer: scores
    features_url: https://example.org/synset.txt
preprocess: |
  import os
  os.system("touch /tmp/never")
model:
  base_url: https://example.org/files/
  graph_path: net.pb
  graph_checksum: 7b94a2da05dd30f6c0af23a46bc08886
  is_archive: false
attributes:
  kind: CNN
  manifest_author: Some One
  Top1: 76.16
  top5: 0.93
"""


def read(folder: Path, *changes: tuple[str, str]) -> tuple[Any, dict[str, dict[str, Any]]]:
    """The manifest of the text with these changes, and what was left by its field."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "net.yml").write_text(text)
    manifest, left = read_mlmodelscope(folder / "net.yml")
    return manifest, {row["field"]: row for row in left}


def test_what_is_told_is_taken_over(tmp_path: Path) -> None:
    """Name and version as versions here are (1.10 is not 1.1), tensors, the file by its MD5, published shares."""
    manifest, _ = read(tmp_path)
    assert (manifest.id, manifest.task) == ("model:Small-Net-v1.5@1.10.0", "image-classification")
    assert (manifest.framework, manifest.licence) == ("tensorflow@>=1.12.0", "Apache-2.0")
    (taken,) = manifest.inputs
    assert (taken.name, taken.dtype, taken.shape, taken.layout) == ("input", "float32", (224, 192, 3), "NHWC")
    (step,) = taken.steps
    assert step.kind == "image"
    assert step.settings == {"size": [224, 192], "mean": [128, 127, 126], "std": 128, "layout": "nhwc"}
    assert [(each.name, each.shape) for each in manifest.outputs] == [("scores", (-1,))]
    (source,) = manifest.sources
    assert (source.url, source.md5) == (
        "https://example.org/files/net.pb",
        "7b94a2da05dd30f6c0af23a46bc08886",
    )
    published = {each.figure: each.value for each in manifest.published}
    assert published == {"top1_ratio": pytest.approx(0.7616), "top5_ratio": 0.93}
    assert "Some One" in manifest.published[0].source


def test_what_can_t_be_taken_over_is_listed_with_its_line(tmp_path: Path) -> None:
    """Code above all, which is never run; images, names of classes, and what was changed on the way."""
    _, left = read(tmp_path)
    assert "never run" in left["preprocess"]["why"] and left["preprocess"]["line"] == 29
    assert not Path("/tmp/never").exists()
    assert {"container", "output.parameters.features_url", "attributes.kind", "name"} <= left.keys()
    assert "channels first" in left["inputs.0.parameters.dimensions"]["why"]


def test_what_is_told_in_part_is_not_told(tmp_path: Path) -> None:
    """A layer by its position, a colour order that no processor has, boxes: listed, and no shape is made up."""
    manifest, left = read(tmp_path, ("input_layer: 'input'", "input_layer: 0"))
    assert manifest.inputs == () and "the layer's name" in left["inputs.0"]["why"]
    manifest, left = read(tmp_path, ("color_mode: RGB", "color_mode: BGR"))
    assert manifest.inputs[0].steps == () and "RGB only" in left["inputs.0.parameters.color_mode"]["why"]
    manifest, left = read(tmp_path, ("type: classification", "type: boundingbox"))
    assert (manifest.outputs, manifest.task) == ((), "object-detection") and "output" in left
    manifest, left = read(
        tmp_path, ("element_type: float32\n      input", "element_type: float32s\n      input")
    )
    assert manifest.inputs == () and "element_type" in left["inputs.0"]["why"]


def test_archives_and_second_files_are_said(tmp_path: Path) -> None:
    """The checksum of a file in an archive is not the archive's; weights of their own are a second file."""
    manifest, left = read(tmp_path, ("is_archive: false", "is_archive: true"))
    assert (manifest.sources[0].url, manifest.sources[0].md5) == ("https://example.org/files/", None)
    assert {"model.graph_path", "model.graph_checksum"} <= left.keys()
    _, left = read(tmp_path, ("  graph_path", "  weights_path: net.params\n  graph_path"))
    assert "https://example.org/files/net.params" in left["model.weights_path"]["why"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("model:\n  base", "modell:\n  base", "no model manifest of MLModelScope"),
        ("name: Small", "kind: model\nname: Small", "and no kind"),
        ("https://example.org/files/", "ftp://example.org", "says no URL of the model"),
        ("version: 1.10", "version: latest", "latest"),
        ("license: Apache-2.0", "license: a\nlicense: b", "stands twice"),
    ],
)
def test_what_is_no_such_manifest_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    """With the file, and what is wrong."""
    with pytest.raises(SubmissionError, match=words):
        read(tmp_path, (old, new))
