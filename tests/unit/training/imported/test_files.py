"""Tables and logs of BenchmarkJade, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.imported import files, log, table
from tests.unit.training.jade_files import HEADER, TABLE
from tests.unit.training.jade_files import log as log_text


def test_a_table_is_read_with_its_heading_and_its_lines() -> None:
    """Dashes are nothing, never zero; cells stay as they were written."""
    rows = table.read(TABLE, "t.md")
    assert len(rows) == 15
    first, slip = rows[0], rows[12]
    assert (first.source, first.model, first.precision) == ("t.md:6", "Resnet 50", "fp32")
    assert (first.loading_s, first.processing_s, first.forward_s, first.backward_s) == (
        0.1022,
        None,
        0.1128,
        None,
    )
    assert (
        slip.forward_s == 0.559 and slip.cells["forward"] == "0.559" and slip.benchmark == "smooth_inference"
    )


def test_a_heading_that_is_not_understood_ends_the_one_before() -> None:
    """The rows below "ViT-B/16" are not ResNet's, nor in fp32, of which a V100 would be impossibly fast; those below a
    note on the table that they stand under are.
    """
    row = "| TN | a | Inference | V100 | 1 | 4 | 0.1 | - | 0.1 | - |\n"
    text = "".join(
        f"{heading}\n{HEADER}{row}"
        for heading in ("### Resnet 50 (fp32)", "#### Real data: ImageNet", "### ViT-B/16 (bf16)", "### BERT")
    )
    rows = table.read(text, "t.md")
    assert [(of.model, of.precision) for of in rows] == [
        ("Resnet 50", "fp32"), ("Resnet 50", "fp32"), (None, None), ("BERT", None),
    ]  # fmt: skip


def test_a_log_tells_the_job_its_machine_and_the_loaders_warning() -> None:
    """Which benchmark it was follows from its times."""
    job = log.read(log_text(), "596562.out")
    assert (job.devices, job.device, job.usual_workers, job.loader_workers) == (
        8,
        "Tesla V100-SXM2-32GB-LS",
        2,
        4,
    )
    assert (job.cores_physical, job.driver, job.batch_size, job.processes) == (40, "470.182.03", 128, 40)
    assert job.benchmark == "inference" and job.step_s == pytest.approx(6.9992)
    assert log.read(log_text(backward_s=0.6), "x").benchmark == "train"
    assert log.read(log_text(processing_s=0.05), "x").benchmark == "smooth_inference"
    assert log.read(log_text(warns=False), "x").usual_workers is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER.replace("Forward Time", "Fwd"), "t.md:1: the columns must be cluster | dataset"),
        (
            f"{HEADER}| TN | a | Inference | V100 | 1 | 4 | 0.1 | - | 0.1 |\n",
            "t.md:3: a row has 10 cells; got 9",
        ),
        (
            f"{HEADER}| TN | a | Guess | V100 | 1 | 4 | 0.1 | - | 0.1 | - |\n",
            "t.md:3: the benchmark must be one of",
        ),
        (
            f"{HEADER}| TN | a | Train | V100 | x | 4 | 0.1 | - | 0.1 | - |\n",
            "t.md:3: # devices must be a whole number",
        ),
        (
            f"{HEADER}| TN | a | Train | V100 | 0 | 4 | 0.1 | - | 0.1 | - |\n",
            "t.md:3: # devices must be at least 1",
        ),
        (
            f"{HEADER}| TN | a | Train | V100 | 1 | 4 | -0.1 | - | 0.1 | - |\n",
            "t.md:3: a time in seconds, or a dash",
        ),
        (
            f"{HEADER}| TN | a | Train | V100 | 1 | 4 | nan | - | 0.1 | - |\n",
            "t.md:3: a time in seconds, or a dash",
        ),
        (HEADER, "t.md has no row of a table"),
        (
            log_text().replace("5.8355 seconds", "inf seconds"),
            "t.md:18: 'SECONDS seconds' is expected; got 'inf",
        ),
        (log_text().replace("num_workers: 4\n", ""), "does not say workers"),
        (log_text().replace("8 x Tesla", "Tesla"), "'Devices used' must be 'COUNT x NAME'"),
        ("# Hello\n", "is neither a log of BenchmarkJade"),
    ],
)
def test_other_files_are_refused_with_their_line(text: str, message: str, tmp_path: Path) -> None:
    """What is wrong, where, and what is expected."""
    path = tmp_path / "t.md"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        files.read([path])
    assert message in str(caught.value)


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    """And one that is not there."""
    path = tmp_path / "t.md"
    for content, message in ((b"\xff\xfe", "is no UTF-8 text"), (b"x" * (2 << 20) + b"x", "more than 2 MB")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            files.read([path])
    with pytest.raises(InputError, match="can't be read"):
        files.read([tmp_path / "none"])
