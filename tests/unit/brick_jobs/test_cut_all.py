"""What a cut says that it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.brick_jobs.made_from import keys_of
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.model import FileModel
from tests.unit.bricks.graphs import residual

ASKED: dict[str, Any] = {
    "run_id": "r", "job_id": "r", "job": job_of("t", FileModel(kind="file", path="m.onnx")), "networks": False,
}  # fmt: skip


def other(tmp_path: Path) -> Path:
    return residual(tmp_path / "m.onnx", pads=[2, 2, 2, 2], dilations=[2, 2])


def test_a_model_that_was_made_before_is_not_what_has_its_name_now(data_dir: Path, tmp_path: Path) -> None:
    """The converted model of an earlier stage has a key while its file is the same, and none for another one."""
    ctx = Context(data_dir=data_dir, base_dir=tmp_path)
    residual(tmp_path / "m.onnx")
    first = asked_to_cut(ctx, set(), **ASKED)
    again = asked_to_cut(ctx, set(), **ASKED, model=first.model)
    assert again.cuts[0].made_from == first.cuts[0].made_from is not None
    other(tmp_path)
    late, new = asked_to_cut(ctx, set(), **ASKED, model=first.model), asked_to_cut(ctx, set(), **ASKED)
    assert late.cuts[0].parts == first.cuts[0].parts != new.cuts[0].parts
    assert late.cuts[0].made_from is None and new.cuts[0].made_from not in (None, first.cuts[0].made_from)


def test_a_model_that_changes_while_it_is_cut_has_no_key(data_dir: Path, tmp_path: Path) -> None:
    """Which of the two was cut only the process knows that read it."""
    residual(tmp_path / "m.onnx")

    def run_stage(module: Any, asked: Any, ctx: Context) -> Any:
        output = module.run(asked, ctx)
        other(tmp_path)
        own = {"made_from": "mine", "source": "mine"}
        return output.model_copy(update={"cuts": tuple(cut.model_copy(update=own) for cut in output.cuts)})

    ctx = Context(data_dir=data_dir, base_dir=tmp_path, run_stage=run_stage)
    (cut,) = asked_to_cut(ctx, set(), **ASKED).cuts
    assert (cut.made_from, cut.source) == (None, None), "what the process says of it counts for nothing"


def test_both_keys_are_of_one_content_and_only_one_has_the_sizes() -> None:
    """Of a model without free sizes they are the same; other sizes, precisions and contents are other keys."""
    source = {"digest": "ab"}
    plain, sized = keys_of(source, "fp32", {}), keys_of(source, "fp32", {"x": (3, 8)})
    assert plain.made_from == plain.source == sized.source != sized.made_from
    assert keys_of(source, "fp32", {"x": (3, 9)}).made_from != sized.made_from
    assert keys_of(source, "fp16", {}).source != plain.source != keys_of({"digest": "cd"}, "fp32", {}).source
