"""Tables and logs of BenchmarkJade, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.imported import files, log, table
from tests.unit.training.jade_files import HEADER, TABLE
from tests.unit.training.jade_files import log as log_text

#: What each node of a run prints of itself.
NODE = "Devices:            8 x Tesla V100-SXM2-32GB-LS\n"


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


def test_fewer_devices_may_be_used_than_a_node_has() -> None:
    """One of eight, by ``--devices 0,``."""
    text = log_text().replace("used:                    8 x", "used:                    1 x")
    assert log.read(text, "x").devices == 1


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
        (log_text().replace("8 x Tesla", "0 x Tesla"), "t.md:17: 'Devices used' must be 1 at least"),
        (log_text().replace("batch_size: 128", "batch_size: 0"), "a number from 1 on is expected; got '0'"),
        (log_text() + log_text(), "the results of a second job begin here"),
        (
            log_text(loading_s=0.2201, processing_s=0.2201, forward_s=0.04),
            "one figure for loading and for preprocessing, 0.2201 s",
        ),
        (
            f"{HEADER}| TN | a | Train | V100 | 1 | 4 | 0,1 | - | 0.1 | - |\n",
            "t.md:3: a time in seconds, or a dash, is expected; got '0,1'",
        ),
        (
            f"{HEADER}" + "| TN | a | Train | V100 | 1 | 4 | 0.1 | - | 0.1 | - |\n" * 2,
            "t.md:4 says the same as t.md:3: give each row and each log once",
        ),
        (log_text().replace("8 x Tesla", "Tesla"), "'Devices used' must be 'COUNT x NAME'"),
        (
            log_text().replace("used:                    8 x", "used:                    16 x"),
            "t.md:17: a run over several nodes: 16 devices, of which a node has 8; import takes logs of runs on one",
        ),
        (
            log_text()
            .replace(NODE, "")
            .replace("used:                    8 x", "used:                    16 x")
            + NODE,
            "16 devices, of which a node has 8",
        ),
        (
            log_text().replace(NODE, NODE * 2),
            "t.md:16: a run over several nodes: a second node tells of its devices here",
        ),
        (log_text() + NODE, "a second node tells of its devices here"),
        (
            "".join(f"0: {line}\n" for line in log_text().splitlines()),
            "t.md has the numbers of tasks before its lines (srun --label)",
        ),
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


def test_a_job_that_ended_before_its_results_is_left_out_by_name(tmp_path: Path) -> None:
    """Of BenchmarkJade's own logs two are of cancelled jobs: the others are read; of nothing but such nothing is."""
    cancelled = tmp_path / "1.out"
    cancelled.write_text(
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8\nslurmstepd: error: *** JOB 1 CANCELLED ***\n"
    )
    whole = tmp_path / "2.out"
    whole.write_text(log_text())
    said: list[str] = []
    content = files.read([cancelled, whole], said.append)
    assert [of.source for of in content.logs] == ["2.out"]
    assert said == [f"left out: {cancelled}: its job ended before its results"]
    with pytest.raises(InputError, match="no job of these logs came to its results"):
        files.read([cancelled])
    with pytest.raises(InputError, match=r"2\.out says the same as 2\.out"):
        files.read([whole, whole])


def test_what_a_machine_does_not_tell_of_its_cores_is_not_known() -> None:
    """psutil prints None in some containers: no error, and no number."""
    text = log_text().replace("Physical CPU Cores: 40", "Physical CPU Cores: None")
    assert log.read(text, "x").cores_physical is None and log.read(text, "x").cores_logical == 80


def test_no_row_of_a_table_is_lost() -> None:
    """One without its first bar is a row like the others, and those behind it are; one with a line of text above it,
    which ends the table, has no header; what is commented out is not there.
    """
    row = " TN | a | Inference | V100 | {} | 4 | 0.1 | - | 0.1 | -"
    text = f"{HEADER}|{row.format(1)} |\n{row.format(2).strip()}\n|{row.format(3)} |\n"
    assert [of.devices for of in table.read(text, "t.md")] == [1, 2, 3]
    with pytest.raises(InputError, match=r"t\.md:5: this row stands in no table"):
        table.read(f"{HEADER}|{row.format(1)} |\nAnd then:\n|{row.format(2)} |\n", "t.md")
    commented = f"<!-- |{row.format(4)} |\n|{row.format(5)} | -->\n"
    rows = table.read(f"{commented}{HEADER}|{row.format(1)} |\n\n{commented}", "t.md")
    assert [(of.devices, of.source) for of in rows] == [(1, "t.md:5")]


def test_a_precision_in_capitals_is_one() -> None:
    """``(FP32)`` is what ``(fp32)`` is."""
    row = "| TN | a | Inference | V100 | 1 | 4 | 0.1 | - | 0.1 | - |\n"
    (read,) = table.read(f"### Resnet 50 (FP32, batch 64)\n{HEADER}{row}", "t.md")
    assert (read.model, read.precision, read.batch_size) == ("Resnet 50", "fp32", 64)


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    """And one that is not there."""
    path = tmp_path / "t.md"
    for content, message in ((b"\xff\xfe", "is no UTF-8 text"), (b"x" * (2 << 20) + b"x", "more than 2 MB")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            files.read([path])
    with pytest.raises(InputError, match="can't be read"):
        files.read([tmp_path / "none"])
