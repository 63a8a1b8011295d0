"""What a process that opened a stranger's files answers: each path in it is looked at before it is used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.contracts.handles import ModelArtifact, RequestSet
from inferbench_tasks.contracts.located_files import LocatedFiles
from inferbench_tasks.errors import StageError
from inferbench_tasks.running.answered import require_own
from inferbench_tasks.running.place import Place
from inferbench_tasks.stages import generate as serving
from inferbench_tasks.stages.base import Context
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.stages import generate

JOB = TrainingJob.model_validate(
    {
        "kind": "training",
        "name": "x",
        "data": {"kind": "folder", "path": "images", "samples": 16, "image_size": 8},
        "train": {"batch_size": 4},
    }
)
INPUT = generate.Input(run_id="x.000", job_id="x", job=JOB)
NAMES = ["cats/deep/0.png", "cats/1.png", "dogs/0.png", "dogs/1.png"]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """A submission with images, beside what it does not name; another run."""
    base = tmp_path / "submission"
    for name in NAMES:
        (base / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (base / "images" / name).write_text(name)
    (base / "other.yaml").write_text("another submission")
    (tmp_path / "secret").write_text('["0.png"]')
    context = Context(data_dir=tmp_path / "data", base_dir=base)
    (context.run_dir("y.000") / "labels.npy").write_text("another run's")
    (context.run_dir("x.000") / "training").mkdir()
    (context.run_dir("x.000") / "training" / "labels.npy").write_text("labels")
    return context


def made(ctx: Context, **changes: Any) -> generate.Output:
    """What the stage's child answers; ``files``: changes of those alone."""
    folder = ctx.run_dir("x.000") / "training"
    files = LocatedFiles.listed(NAMES, ctx.base_dir / "images", folder / "files.json")
    values = {
        "images_path": files.listing,
        "labels_path": str(folder / "labels.npy"),
        "samples": 4,
        "files": {**files.model_dump(), **changes.pop("files", {})},
        **changes,
    }
    return generate.Output.model_validate(values)


def look(ctx: Context, output: generate.Output) -> None:
    require_own(output, INPUT, ctx, "generate")


def test_what_a_stage_makes_is_taken(ctx: Context) -> None:
    """Labels and list in the run's folder, images in the folder that the submission names."""
    look(ctx, made(ctx))


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "{tmp}/submission/other.yaml",
        "{tmp}/data/runs/y.000/labels.npy",
        "{tmp}/data/runs/x.000",
        "{tmp}/data/runs/x.000/../y.000/labels.npy",
        "{tmp}/data",
        "artifact:" + "a" * 64 + "/labels.npy",
    ],
)
def test_a_path_of_elsewhere_is_refused_by_name(path: str, ctx: Context, tmp_path: Path) -> None:
    """The host's files, another submission's, another run's, a whole run, an artifact that was not given."""
    path = path.format(tmp=tmp_path)
    for field in ("labels_path", "module_folder"):
        with pytest.raises(StageError, match="generate: its process answered with") as refused:
            look(ctx, made(ctx, **{field: path}))
        assert path.partition("/labels.npy")[0] in str(refused.value)


@pytest.mark.parametrize("what", ["link", "folder link", "pipe", "link in a folder", "link beside"])
def test_in_the_run_s_folder_only_plain_files_are_taken(what: str, ctx: Context, tmp_path: Path) -> None:
    """What a link leads to may be another file by the time that it is read; a pipe would be waited for."""
    folder = ctx.run_dir("x.000") / "training"
    path = folder / "made"
    if what == "link":
        path.symlink_to(folder / "labels.npy")
    elif what == "folder link":
        (folder / "real").mkdir()
        (folder / "real" / "x").write_text("x")
        path.symlink_to(folder / "real")
        path = path / "x"
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "link beside":
        path.write_text("labels")
        (folder / "labels-ids.npy").symlink_to(tmp_path / "secret")
    else:
        path.mkdir()
        (path / "in").symlink_to(tmp_path / "secret")
    with pytest.raises(StageError, match="a link|a pipe|no plain file"):
        look(ctx, made(ctx, labels_path=str(path)))


@pytest.mark.parametrize("change", [{"at": "/etc"}, {"home": "f" * 32}, {"at": "/etc", "home": "f" * 32}])
def test_where_files_lie_on_a_host_is_not_its_to_say(change: dict[str, str], ctx: Context) -> None:
    """It would be believed as what this process says of files that it sent: any folder would be read in place."""
    with pytest.raises(StageError, match="a place on a host, which it knows nothing of"):
        look(ctx, made(ctx, files=change))


@pytest.mark.parametrize("folder", ["/etc", "{tmp}/submission", "{tmp}/data/runs/y.000", "{tmp}"])
def test_images_lie_where_the_submission_says(folder: str, ctx: Context, tmp_path: Path) -> None:
    """In no other folder, the one above included."""
    with pytest.raises(StageError, match="nor named by the submission"):
        look(ctx, made(ctx, files={"folder": folder.format(tmp=tmp_path)}))


def test_a_list_of_elsewhere_or_that_was_changed_is_refused(ctx: Context, tmp_path: Path) -> None:
    """It is read by this process: any file of lists on the host would be, and sent to others."""
    with pytest.raises(StageError, match="secret, which is neither in the run's folder"):
        look(ctx, made(ctx, files={"listing": str(tmp_path / "secret")}))
    output = made(ctx)
    assert output.files is not None
    Path(output.files.listing).write_text(json.dumps(NAMES[:3]))
    with pytest.raises(StageError, match="it was changed since"):
        look(ctx, output)


@pytest.mark.parametrize("change", [{"listing_sha256": ""}, {"listing_bytes": 0}, {"listing_bytes": -1}])
def test_a_list_has_its_digest(change: dict[str, Any], ctx: Context) -> None:
    """Without, it could be changed once it was looked at: only what was kept before that was told has none."""
    with pytest.raises(StageError, match="a list without its SHA-256"):
        look(ctx, made(ctx, files=change))


@pytest.mark.parametrize("what", ["missing", "link", "pipe", "folder link", "folder", "out"])
def test_each_image_is_a_plain_file_of_its_folder(what: str, ctx: Context, tmp_path: Path) -> None:
    """The error says which is not."""
    images = ctx.base_dir / "images"
    name = "cats/new.png"
    if what == "link":
        (images / name).symlink_to(tmp_path / "secret")
    elif what == "pipe":
        os.mkfifo(images / name)
    elif what == "folder link":
        (images / "birds").symlink_to(tmp_path)
        name = "birds/secret"
    elif what == "folder":
        name = "cats/deep"
    elif what == "out":
        name = "../../secret"
    output = made(ctx)
    files = LocatedFiles.listed([*NAMES, name], images, Path(output.images_path))
    with pytest.raises(StageError) as refused:
        look(ctx, output.model_copy(update={"files": files}))
    assert name.partition("/")[0] in str(refused.value)


def served(path: str) -> serving.Output:
    """A model there; its requests are prompts, which have no files."""
    model = ModelArtifact(
        name="m", framework="torch", format="torchscript", path=path, digest="d", inputs=(), outputs=()
    )
    requests = RequestSet(path="", reference_path="", samples=0, digest="d")
    return serving.Output(model=model, requests=requests, cached=True)


def serving_input(model: dict[str, str]) -> serving.Input:
    load = {"arrivals": {"kind": "constant", "rate_rps": 1.0}}
    return serving.Input.model_validate(
        {"run_id": "x.000", "job_id": "j", "job": {"name": "t", "model": model, "load": load}}
    )


def test_a_user_s_model_lies_in_the_cache_of_what_is_made_of_it(ctx: Context, tmp_path: Path) -> None:
    """Servers read what is named: no other model, and no folder of the host. Of models that are ours nothing is looked
    at."""
    (ctx.base_dir / "m.pt").write_text("a model")
    inp = serving_input({"kind": "file", "path": "m.pt"})
    own = Place.of(inp, ctx, kept=False).fills[1] / "models" / "ab" / "model.pt"
    own.parent.mkdir(parents=True)
    own.write_text("a model")
    require_own(served(str(own)), inp, ctx, "generate")
    other = ctx.data_dir / "cache" / "foreign" / "cd" / "models" / "ab" / "model.pt"
    for path in (other, ctx.data_dir / "cache" / "models" / "ab" / "model.pt", tmp_path / "secret"):
        with pytest.raises(StageError, match="nor in the cache of its model"):
            require_own(served(str(path)), inp, ctx, "generate")
    require_own(served("/anywhere"), serving_input({"kind": "zoo", "name": "digits"}), ctx, "generate")
