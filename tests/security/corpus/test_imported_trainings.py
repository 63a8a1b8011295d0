"""Tables and logs of strangers, given to ``inferbench training import``."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.cli.main import main
from inferbench_tasks.errors import InputError
from inferbench_tasks.training.diagnosis.imports import diagnose
from inferbench_tasks.training.imported import files
from inferbench_tasks.training.imported.rows import Import
from tests.unit.training.jade_files import HEADER
from tests.unit.training.jade_files import log as log_text

ROW = "| {cluster} | imagenet | {benchmark} | {device} | 1 | 4 | 0.1 | - | 0.{time} | - |\n"
LONG = 500_000


def read(folder: Path, text: str) -> Import:
    path = folder / "t.md"
    path.write_text(text)
    return files.read([path])


@pytest.mark.parametrize(
    "line",
    [
        "#" + " " * LONG + "!", "#" * LONG + "!", "# a" + " b" * LONG + "!", "#" + "\t " * LONG + "(",
        "# a" + "(" * LONG, "|" * LONG + "x", "|" + " :-" * LONG + "x", "| " * LONG, " " * LONG + "x", "\x00" * LONG,
    ],
    ids=["spaces", "signs", "words", "tabs", "brackets", "bars", "rule", "cells", "blanks", "nul"],
)  # fmt: skip
def test_a_long_line_of_a_table_takes_no_time(line: str, tmp_path: Path) -> None:
    """What a pattern could read in many ways is read once: half a million characters within the corpus's 5 s."""
    text = f"{line}\n{HEADER}{ROW.format(cluster='a', benchmark='Train', device='V100', time=1)}"
    assert len(read(tmp_path, text).rows) == 1
    with pytest.raises(InputError):
        read(tmp_path, f"{HEADER}{line}\n")


@pytest.mark.parametrize(
    "line",
    ["Devices used: 1 x " + "a " * LONG, "This DataLoader will create " + "1" * LONG, "batch_size: " + "9" * LONG,
     "Total script time: " + "1" * LONG + " seconds", ":" * LONG, "dataset: " + "\x00" * LONG],
    ids=["devices", "warning", "number", "seconds", "colons", "nul"],
)  # fmt: skip
def test_a_long_line_of_a_log_takes_no_time(line: str, tmp_path: Path) -> None:
    """It is refused, or read and cut."""
    try:
        told = read(tmp_path, log_text() + line + "\n").model_dump_json()
    except InputError as error:
        told = str(error)
    assert len(told) < 3000


def test_as_many_rows_as_are_taken_are_diagnosed_and_more_are_refused(tmp_path: Path) -> None:
    """Rules set each row beside each other one: the most that an import may have stay within the corpus's 5 s."""
    rows = [
        ROW.format(
            cluster=f"c{number % 2}", benchmark="Train", device=("V100", "A100")[number % 2], time=number + 1
        )
        for number in range(files.MAX_ROWS)
    ]
    content = read(tmp_path, f"# Resnet 50 (fp32)\n{HEADER}{''.join(rows)}")
    assert len(content.rows) == files.MAX_ROWS
    assert isinstance(diagnose(content), list)
    with pytest.raises(InputError, match="an import has at most 200 rows and 500 logs"):
        read(tmp_path, f"{HEADER}{''.join(rows)}{rows[0]}")


def test_what_a_file_says_does_not_steer_the_terminal(
    tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message that quotes the file shows control characters and marks that reorder text; it sends none."""
    path = tmp_path / "t.md"
    path.write_text("| Cluster | \x1b]0;owned\x07\x1b[2J\x9b31m\u202e | Benchmark |\n")
    with pytest.raises(SystemExit) as ended:
        main(["training", "import", str(path)])
    message = capsys.readouterr().err
    assert ended.value.code == 2 and "owned" in message
    assert not set("\x1b\x07\x9b\u202e") & set(message)
