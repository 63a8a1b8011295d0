"""What the page of a manifest tells of it, from made-up manifests."""

from __future__ import annotations

import platform

import pytest

from inferbench_tasks.manifests.catalogue import Catalogue, Entry
from inferbench_tasks.manifests.kinds.base import Manifest
from inferbench_tasks.manifests.reading import of_plain
from inferbench_tasks.provider.ui.manifest_parts import Need, needs, runs_on, sources
from inferbench_tasks.provider.ui.render import page

pytestmark = pytest.mark.airflow
DIGEST = "ab" * 32
FRAMEWORK = of_plain(
    {
        "kind": "framework", "name": "onnxruntime", "version": "1.26.0",
        "runs": [
            {"kind": "here", "package": "onnxruntime", "hashes": [DIGEST]},
            {"kind": "container", "image": "x/y", "digest": f"sha256:{DIGEST}"},
        ],
    },
    "a test",
)  # fmt: skip
DATASET = of_plain(
    {
        "kind": "dataset", "name": "leaves", "version": "1.2.0", "source": "our garden", "files": {"a.zip": DIGEST},
        "splits": {"test": 50}, "licence": "CC0",
    },
    "a test",
)  # fmt: skip


def model(framework: str) -> Manifest:
    """A classifier of leaves that needs that."""
    tensor = {"name": "x", "dtype": "float32", "shape": [3, 8, 8], "steps": []}
    content = {
        "kind": "model", "name": "leaf", "version": "1.0.0", "framework": framework, "dataset": "leaves@^1",
        "licence": "<b>ours</b>", "inputs": [tensor], "references": ["https://example.org/leaf"],
        "sources": [
            {"kind": "file", "path": "leaf.onnx", "sha256": DIGEST},
            {"kind": "url", "url": "https://example.org/leaf.onnx", "md5": "cd" * 16},
        ],
    }  # fmt: skip
    return of_plain(content, "a test")


def catalogue(*more: Manifest) -> Catalogue:
    """All that there are."""
    return Catalogue(Entry(manifest, "a test") for manifest in (FRAMEWORK, DATASET, *more))


def test_constraints_lead_to_what_fits_here_or_say_why_not() -> None:
    """The framework's version and the data set's; of a newer framework which there are."""
    framework, dataset = needs(catalogue(), model("onnxruntime>=1.20"))
    assert (framework.asked, framework.id) == ("onnxruntime>=1.20", "framework:onnxruntime@1.26.0")
    assert (dataset.asked, dataset.id) == ("leaves@^1", "dataset:leaves@1.2.0")
    missing, _ = needs(catalogue(), model("onnxruntime>=2"))
    assert missing.id is None and "there are: 1.26.0" in missing.problem
    stack = {"kind": "stack", "name": "s", "version": "1.0.0", "format": "onnx", "backend": "onnxruntime"}
    (wanted,) = needs(catalogue(), of_plain(stack | {"framework": "onnxruntime^1.20"}, "a test"))
    assert wanted.id == "framework:onnxruntime@1.26.0"
    assert not list(needs(catalogue(), of_plain(stack, "a test")))


def test_a_version_of_an_environment_of_its_own_is_for_stacks_of_a_backend_that_runs_it() -> None:
    """A model is made with what is here, and another backend runs no other version: both say what there is."""
    line = f"onnxruntime==1.20.0 --hash=sha256:{DIGEST}"
    place = {"kind": "environment", "name": "older", "packages": [line]}
    older = of_plain({**FRAMEWORK.content(), "version": "1.20.0", "runs": [place]}, "a test")
    stack = {
        "kind": "stack",
        "name": "s",
        "version": "1.0.0",
        "format": "onnx",
        "framework": "onnxruntime~1.20",
    }
    ours, others = (
        next(needs(catalogue(older), of_plain({**stack, "backend": backend}, "a test")))
        for backend in ("onnxruntime", "triton")
    )
    assert ours.id == older.id
    made, _ = needs(catalogue(older), model("onnxruntime~1.20"))
    assert made.id is None and "there are: 1.26.0" in made.problem
    assert others.id is None and "there are: 1.26.0" in others.problem


def test_a_stack_in_a_container_needs_what_its_image_brings() -> None:
    """By the image's digest, whatever is installed here; where any will do and nobody says, no version is named."""
    stack = {"kind": "stack", "name": "s", "version": "1.0.0", "format": "onnx", "backend": "onnxruntime"}

    def need(framework: str, **image: str) -> Need:
        settings = {"launcher": "container", **image}
        (found,) = needs(
            catalogue(), of_plain({**stack, "framework": framework, "settings": settings}, "a test")
        )
        return found

    assert need("onnxruntime", image="x/z") == Need("framework", "onnxruntime")
    told = need("onnxruntime^1.20")
    assert told.id is None and "no manifest says which version of onnxruntime" in told.problem
    if platform.machine() == "x86_64":  # as that image
        brought = need("onnxruntime^1.20", image=f"x/z@sha256:{DIGEST}")
        assert brought.id == "framework:onnxruntime@1.26.0"


def test_sources_have_the_hashes_that_pin_them() -> None:
    """A file by SHA-256, an address by the MD5 that alone is known, an image by its digest, a data set's files."""
    assert [(of.kind, of.what, of.pins) for of in sources(model("onnxruntime"))] == [
        ("file", "leaf.onnx", [f"SHA-256 {DIGEST}"]),
        ("address", "https://example.org/leaf.onnx", [f"MD5 {'cd' * 16}"]),
    ]
    here, image = sources(FRAMEWORK)
    assert here.pins == [f"SHA-256 {DIGEST}"] and image.pins == [f"sha256:{DIGEST}"]
    lines = [
        f"a==1 --hash=sha256:{DIGEST} --hash=sha256:{'cd' * 32}",
        f"onnxruntime==1.26.0 --hash=sha256:{DIGEST}",
    ]
    own = {"kind": "environment", "name": "old", "packages": lines}
    (pinned,) = sources(of_plain({**FRAMEWORK.content(), "runs": [own]}, "a test"))
    assert pinned.pins == [
        f"a==1: SHA-256 {DIGEST}", f"a==1: SHA-256 {'cd' * 32}", f"onnxruntime==1.26.0: SHA-256 {DIGEST}"
    ]  # fmt: skip
    samples, file = sources(DATASET)
    assert samples.pins == [] and (file.what, file.pins) == ("a.zip", [f"SHA-256 {DIGEST}"])


def test_runs_of_a_framework_are_those_of_its_backends_in_any_build_of_the_version() -> None:
    """A query of runs; nothing else serves, and what brings Triton has another number than Triton."""
    assert runs_on(FRAMEWORK) == "backend=onnxruntime backend_version=1.26.0,1.26.0+*"
    assert runs_on(of_plain({**FRAMEWORK.content(), "name": "nvidia-pytriton"}, "a test")) is None
    assert runs_on(DATASET) is None


def test_the_page_shows_all_parts() -> None:
    """Licence as text, the constraint with what it leads to, the hash of the source, a result that used it as another
    content, and its lock.
    """
    manifest = model("onnxruntime>=1.20")
    row = {
        "run": "r.000", "attempt": 1, "created": None, "model": "leaf", "backend": "onnxruntime", "version": "1.26.0",
        "device": "cpu", "verdict": "valid", "asked": "leaf@^1", "digest": "ef" * 32, "same": False, "lock": DIGEST,
    }  # fmt: skip
    made = page(
        "manifest.html", here="manifests", id=manifest.id, problem=None, asked="^1", manifest=manifest,
        content=manifest.content(), origin="PerfDB", versions=[Entry(manifest, "PerfDB").row()],
        needs=list(needs(catalogue(), manifest)), sources=list(sources(manifest)), most_pins=5, text="kind: model",
        cut=False, served=None, results=[row], more_results=False, wrong=(),
        lock={"run": "r.000", "text": "form: inferbench-lock-1"}, json="j", csv="c",
    )  # fmt: skip
    text = bytes(made.body).decode()
    assert "&lt;b&gt;ours&lt;/b&gt;" in text and "is the newest that fits ^1" in text
    assert "/inferbench/manifest/framework%3Aonnxruntime%401.26.0" in text and f"SHA-256 {DIGEST}" in text
    assert "something else" in text and "inferbench-lock-1" in text and "<code>leaf@^1</code>" in text
