"""``evaluate.parts``: one job for each part; ``auto`` becomes a number where a submission is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.abilities import INSTALLED, InstalledAbilities
from inferbench_tasks.contracts.dataset import MAX_BYTES, fewest_parts
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.reader import read_submission_data, read_submission_text
from inferbench_tasks.submission.sweep import Job, expand
from tests.unit.datasets.test_splits import folder

HEAD = "name: parts\nmodel: {kind: zoo, name: digits}\n"
#: A picture of 3 x 224 x 224 in fp32.
PICTURE = 602_112


@dataclass(frozen=True)
class Foreseeing(InstalledAbilities):
    """Whatever is asked has so many samples of a picture each; of int8 ten times as many."""

    count: int = 50_000

    def samples_to_ask(self, spec: JobBase, base_dir: Path) -> tuple[int, int]:
        many = spec.model_dump()["convert"]["precision"] == "int8"
        return self.count * (10 if many else 1), PICTURE


def jobs(text: str, abilities: Abilities = INSTALLED, base_dir: Path | None = None) -> list[Job[Any]]:
    """Of a submission that goes on so."""
    return expand(read_submission_text(HEAD + text, "x.yaml", abilities, base_dir=base_dir))


def parts(of: list[Job[Any]]) -> list[str | None]:
    """Which part each is."""
    return [job.spec.evaluate.part for job in of]


def problem(text: str, abilities: Abilities = INSTALLED, base_dir: Path | None = None) -> str:
    """The one thing that is wrong."""
    with pytest.raises(SubmissionError) as refused:
        jobs(text, abilities, base_dir)
    (only,) = refused.value.problems
    return str(only)


def test_so_many_parts_are_so_many_jobs() -> None:
    """The very jobs of a sweep over the parts by hand, each with its part in its point; with a sweep the parts of each
    value follow each other."""
    made = jobs("evaluate: {parts: 3}\n")
    by_hand = jobs("evaluate: {}\nsweep: {evaluate.part: [1/3, 2/3, 3/3]}\n")
    assert [(job.digest, job.point) for job in made] == [(job.digest, job.point) for job in by_hand]
    assert parts(made) == ["1/3", "2/3", "3/3"] and all(job.spec.evaluate.parts is None for job in made)
    swept = jobs("evaluate: {parts: 2}\nsweep: {serve.threads: [1, 2]}\n")
    assert [job.point for job in swept] == [
        {"serve.threads": threads, "evaluate.part": part} for threads in (1, 2) for part in ("1/2", "2/2")
    ]


def test_what_are_no_parts_is_refused_with_its_line() -> None:
    """One, too many, a part of parts, a word; more jobs than a submission may have."""
    for value in ("1", "1001", "many", "true"):
        assert "x.yaml:3: evaluate.parts" in problem(f"evaluate: {{parts: {value}}}\n")
    assert "part is one of parts" in problem("evaluate: {parts: 2, part: 1/2}\n")
    assert "evaluate.parts" in problem("evaluate: {}\nsweep: {evaluate.parts: [2000000000]}\n")
    many = ", ".join(str(seed) for seed in range(11))
    assert "at most 10,000" in problem(
        f"evaluate: {{parts: 1000}}\nsweep: {{serve.threads: [{many[3:]}, 11, 12]}}\n"
    )


def test_auto_is_as_many_as_it_takes() -> None:
    """50,000 pictures of 30 GB are 15 parts of at most 2 GiB; of several models the largest number; what fits is whole,
    and the very job without parts. A submission that was read says the number, and is read again as it is."""
    assert parts(jobs("evaluate: {parts: auto}\n", Foreseeing())) == [f"{n}/15" for n in range(1, 16)]
    assert -(-50_000 // 15) * PICTURE <= MAX_BYTES < -(-50_000 // 14) * PICTURE
    read = read_submission_text(HEAD + "evaluate: {parts: auto}\n", "x.yaml", Foreseeing())
    assert json.loads(read.model_dump_json())["evaluate"]["parts"] == 15
    assert read_submission_data(json.loads(read.model_dump_json()), "again", INSTALLED) == read
    both = jobs("evaluate: {parts: auto}\nsweep: {convert.precision: [fp32, int8]}\n", Foreseeing(4_000))
    assert parts(both) == [f"{n}/12" for n in range(1, 13)] * 2
    (whole,), (plain,) = jobs("evaluate: {parts: auto}\n", Foreseeing(3_000)), jobs("evaluate: {}\n")
    assert whole.digest == plain.digest and whole.spec.evaluate.parts is None


def test_auto_that_can_t_be_is_refused_with_its_line() -> None:
    """So many that no number of parts helps; swept."""
    assert problem("evaluate:\n  parts: auto\n", Foreseeing(10**8)).startswith(
        "x.yaml:4: evaluate.parts: 100,000,000 samples of 602,112 bytes fit in no 1,000 parts"
    )
    swept = problem("evaluate: {}\nsweep: {evaluate.parts: [auto, 2]}\n", Foreseeing())
    assert swept.startswith("x.yaml:4: sweep: auto is one number for all jobs")
    assert fewest_parts(10, MAX_BYTES + 1) is None and fewest_parts(3, MAX_BYTES) == 3


def onnx_file(path: Path, shape: list[Any]) -> None:
    """A model that hands a picture on."""
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph), str(path))


def test_what_there_is_is_told_without_making_or_reading_it(tmp_path: Path) -> None:
    """Of a built-in model on its own data, on a split that is named, on fewer samples; of an ONNX file and a folder of
    images by the file's head and the files' names; what nobody knows before is refused with what to do."""
    (own,) = jobs("evaluate: {}\n")
    assert INSTALLED.samples_to_ask(own.spec, tmp_path) == (450, 256)
    (train,) = jobs("evaluate: {dataset: digits, split: train}\n")
    assert INSTALLED.samples_to_ask(train.spec, tmp_path) == (1347, 256)
    (fewer,) = jobs("evaluate: {samples: 20}\n")
    assert INSTALLED.samples_to_ask(fewer.spec, tmp_path) == (20, 256)
    onnx_file(tmp_path / "m.onnx", ["n", 3, 8, 8])
    folder(tmp_path / "pets", train={"0": 3, "1": 1}, val={"0": 1, "1": 1})
    head = "name: x\nmodel: {kind: file, path: m.onnx}\nrequests: {kind: random}\n"
    mine = head + "evaluate: {dataset: folder, path: pets, split: train, parts: auto}\n"
    (whole,) = expand(read_submission_text(mine, "x.yaml", INSTALLED, base_dir=tmp_path))
    assert INSTALLED.samples_to_ask(whole.spec, tmp_path) == (4, 768)
    assert read_submission_text(mine, "x.yaml", INSTALLED).model_dump()["evaluate"]["parts"] == "auto"
    onnx_file(tmp_path / "m.onnx", ["n", 3, "h", "w"])
    with pytest.raises(
        InputError, match=r"x.yaml:4: evaluate.parts: auto .* input x float32\[3, -1, -1\] has no one"
    ):
        read_submission_text(mine, "x.yaml", INSTALLED, base_dir=tmp_path)
    onnx_file(tmp_path / "m.onnx", ["n", 3, 8, 8])
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 3, 8, 8), np.float32), labels=np.arange(2))
    unread = head + "evaluate: {dataset: arrays, path: a.npz, parts: auto}\n"
    with pytest.raises(
        InputError, match=r"how many samples arrays has is known once .*; give a number of parts"
    ):
        read_submission_text(unread, "x.yaml", INSTALLED, base_dir=tmp_path)
