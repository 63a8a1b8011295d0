"""Trainings as BenchmarkJade's table, read back by the reader of its published ones."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance
from inferbench_tasks.training.diagnosis.imports import diagnose
from inferbench_tasks.training.imported import table
from inferbench_tasks.training.imported.rows import Import
from inferbench_tasks.training.jade_table import jade_table
from inferbench_tasks.training.result import NetworkInfo, TrainingResult
from tests.unit.training.jade_files import HEADER, TABLE
from tests.unit.training.report.results import view

JADE = {
    "columns": {"loading": 0.0312, "forward": 0.000451},
    "without_warmup": None,
    "step_s": 0.031651,
    "reason": None,
}


def result(
    label: str,
    train: dict[str, Any] | None = None,
    name: str = "fashion-cnn",
    side: int | None = 28,
    **blocks: Any,
) -> TrainingResult:
    made = view(label, jade=JADE).result
    job = {"train": {"batch_size": 32, **(train or {})}, **blocks}
    return made.model_copy(
        update={
            "provenance": Provenance.model_validate({"job": job}),
            "model": NetworkInfo(name=name, parameters=5, image_size=side),
        }
    )


def test_a_row_says_all_that_it_is_of() -> None:
    """Batch, size of images, precision and cluster; what is not usual; a name with its sizes as it was."""
    rows = table.read(
        jade_table(
            [
                result("a"),
                result("b", {"precision": "bf16", "batch_size": 8}, devices={"threads": 2}).model_copy(
                    update={"cluster": "north"}
                ),
                result(
                    "c",
                    {"compile": True},
                    name="resnet18(width=32, depth=2)",
                    side=224,
                    data={"where": "memory"},
                ),
                result("d", name="my.net", side=None),
            ]
        ),
        "t.md",
    )
    assert [
        (row.model, row.precision, row.batch_size, row.image_size, row.settings, row.cluster) for row in rows
    ] == [
        ("fashion-cnn", "bf16", 8, 28, ("threads 2",), "north"),
        ("fashion-cnn", "fp32", 32, 28, (), "this host"),
        ("my.net", "fp32", 32, None, (), "this host"),
        ("resnet18(width=32, depth=2)", "fp32", 32, 224, ("compile", "where memory"), "this host"),
    ]
    assert {(row.loading_s, row.processing_s, row.forward_s, row.backward_s) for row in rows} == {
        (0.0312, None, 0.000451, None)
    }


def test_two_batches_are_no_rows_of_one_table() -> None:
    """Two headings; what stands under one of them was measured alike."""
    text = jade_table([result("a"), result("b", {"batch_size": 64}), result("c")])
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "### fashion-cnn (fp32, batch 32, 28 px)",
        "### fashion-cnn (fp32, batch 64, 28 px)",
    ]
    assert [row.batch_size for row in table.read(text, "t.md")] == [32, 32, 64]


def test_ranks_that_share_a_gpu_and_hosts_are_told() -> None:
    """Two ranks on one A40 are one device, of which they have a half each; a run on two hosts stands under a heading of
    its own; two ranks on a processor are two as BenchmarkJade has them.
    """

    def of(label: str, kind: str, **devices: int) -> TrainingResult:
        made = result(label, devices={"strategy": "ddp", **devices})
        engine = made.engine
        assert engine is not None
        ranks = devices.get("count", 1) * devices.get("processes", 1)
        return made.model_copy(
            update={
                "device": DeviceInfo(kind=kind, name="A40" if kind == "gpu" else "EPYC"),
                "engine": engine.model_copy(update={"processes": ranks}),
            }
        )

    runs = [
        of("a", "gpu", count=2), of("b", "gpu", processes=2), of("c", "cpu", processes=2),
        of("d", "cpu", count=2, hosts=2),
    ]  # fmt: skip
    rows = table.read(jade_table(runs), "t.md")
    assert {(row.device, row.devices, row.settings) for row in rows} == {
        ("A40", 2, ()), ("A40", 1, ("processes 2",)), ("EPYC", 2, ()), ("EPYC", 2, ("hosts 2",)),
    }  # fmt: skip


def test_loader_processes_that_there_were_not_stand_in_no_row() -> None:
    """Those that a run with its batch on the device asked for, and how; with data in memory they do."""

    def of(where: str) -> TrainingResult:
        loader = {"workers": 2, "context": "spawn", "shuffle": True}
        made = result(where, data={"where": where}, loader=loader)
        return made.model_copy(update={"data": {**made.data, "where": where}, "loader": loader})

    rows = table.read(jade_table([of("device"), of("memory")]), "t.md")
    assert [(row.workers, row.settings) for row in rows] == [
        (2, ("context spawn", "shuffle", "where memory")), (0, ("shuffle", "where device")),
    ]  # fmt: skip


def test_a_run_that_read_copies_stands_under_a_heading_of_its_own() -> None:
    """Its loading is of another host's storage than that of the run in place."""
    made = result("b")
    text = jade_table([result("a"), made.model_copy(update={"data": {**made.data, "brought": True}})])
    assert [row.settings for row in table.read(text, "t.md")] == [(), ("brought",)]


def test_a_run_whose_batch_nobody_knows_has_no_place_in_a_table() -> None:
    """It would be taken for one of Jade's 128."""
    with pytest.raises(InputError, match="x-1.a was stored without its job: its batch is not known"):
        jade_table([view("a", jade=JADE).result])


def test_the_work_of_a_batch_is_that_of_the_batch_that_was_run() -> None:
    """0.0008 s for 8 images of ResNet-50 are 82 TFLOP/s, more than a V100's 62.8; of 4 images, or of 8 of a smaller
    size, they are possible. Jade's own tables, which say none, are of 128."""

    def causes(heading: str) -> list[str]:
        row = "| x | a | Train | V100 | 1 | 4 | 0.1 | - | 0.0008 | 0.1 |\n"
        rows = table.read(f"### Resnet 50 ({heading})\n{HEADER}{row}", "t")
        return [cause.evidence[0] for cause in diagnose(Import(rows=rows))]

    assert "for 8 images is 82 TFLOP/s" in causes("fp32, batch 8, 224 px")[0]
    assert not causes("fp32, batch 4, 224 px") and not causes("fp32, batch 8, 32 px")
    assert "for 128 images" in causes("fp32")[0]


def test_rows_of_other_batches_are_not_compared() -> None:
    """A V100 with twice the batch of an A40 is no slower device."""
    rows = "".join(
        f"### Resnet 50 (fp32{batch})\n{HEADER}"
        f"| {cluster} | a | Inference | {device} | 1 | 4 | 0.1 | - | {forward} | - |\n"
        for cluster, device, forward, batch in (
            ("JADE2", "V100", "0.3", "{}"),
            ("Bede", "A40", "0.0962", ", batch 64"),
        )
    )
    same, other = (Import(rows=table.read(rows.format(of), "t")) for of in (", batch 64", ", batch 128"))
    assert [cause.rule for cause in diagnose(same)] == ["expected_device"] and not diagnose(other)


def test_an_import_of_jades_own_tables_keeps_its_id() -> None:
    """Its id is of its content: fields that came later and are empty are no part of it."""
    plain = Import(rows=table.read(TABLE, "t.md"))
    assert '"batch_size"' not in plain.as_json() and '"settings"' not in plain.as_json()
    assert '"batch_size":32' in Import(rows=table.read(jade_table([result("a")]), "t.md")).as_json()
