"""Reading a submission: from files, texts and data; no input brings anything but a SubmissionError."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.problem import MAX_PROBLEMS
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.document import MAX_BYTES
from inferbench_tasks.submission.reader import (
    read_submission,
    read_submission_data,
    read_submission_text,
)
from inferbench_tasks.submission.schema import Submission, serving_only
from inferbench_tasks.submission.sweep import expand
from tests.unit.submission.strategies import broken, submissions

GOOD = """\
name: good
model: {kind: zoo, name: digits}
load:
  arrivals: {kind: poisson, rate_rps: 50}
"""


def messages(text: str) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(text, "x.yaml", INSTALLED)
    return [str(problem) for problem in caught.value.problems]


def _problems(read: Callable[[], SubmissionBase]) -> list[str] | None:
    """None where the submission is fine."""
    try:
        assert read().name
    except SubmissionError as error:
        return [str(problem) for problem in error.problems]
    return None


def test_a_good_text_becomes_a_submission() -> None:
    """Values arrive typed, defaults are filled in."""
    submission = serving_only(read_submission_text(GOOD, "x.yaml", INSTALLED), "")
    assert submission.name == "good"
    assert submission.traffic.arrivals.mean_rate_rps(1.0) == 50
    assert submission.serve.backend == "onnxruntime"


@settings(max_examples=60, deadline=None)
@given(submissions())
def test_a_submission_survives_yaml_and_json(data: dict[str, Any]) -> None:
    """Written as YAML or JSON, and as what the model dumps, a submission reads back equal."""
    submission = Submission.model_validate(data)
    for text in (yaml.safe_dump(data, allow_unicode=True), submission.model_dump_json()):
        assert read_submission_text(text, "x.yaml", INSTALLED) == submission
    assert read_submission_data(submission.model_dump(mode="json"), "request", INSTALLED) == submission


@settings(max_examples=150, deadline=None)
@given(st.text())
@example("? ")
@example("*a")
@example("&a *a")
@example("%YAML 9.9\n---\na: b")
@example("a: !")
@example("{{: }")
@example("\ufeff")
@example('name: "\\ud800"')
def test_any_text_is_refused_in_plain_words(text: str) -> None:
    """Arbitrary text raises SubmissionError and nothing else."""
    assert messages(text)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused_in_plain_words(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file of arbitrary bytes raises SubmissionError and nothing else."""
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(data)
    with pytest.raises(SubmissionError):
        read_submission(path, INSTALLED)


@settings(max_examples=200, deadline=None)
@given(broken())
def test_a_broken_submission_reads_or_is_refused(data: dict[str, Any]) -> None:
    """Whatever stands anywhere: a Submission or a SubmissionError, from text and from data alike."""
    for read in (
        lambda: read_submission_data(data, "request", INSTALLED),
        lambda: read_submission_text(yaml.safe_dump(data, allow_unicode=True), "x.yaml", INSTALLED),
    ):
        problems = _problems(read)
        assert problems is None or problems
        assert all("\n" not in text and "pydantic" not in text.lower() for text in problems or ())


@pytest.mark.parametrize("data", [None, [], "text", 5, {1: 2}, {"name": {1: 2}}, {"name": object()}])
def test_data_that_is_no_json_is_refused(data: Any) -> None:
    """What is no mapping of text keys is refused as any other mistake."""
    with pytest.raises(SubmissionError):
        read_submission_data(data, "request", INSTALLED)


def test_a_problem_without_text_has_no_line() -> None:
    """Data of a request has fields, but no lines."""
    with pytest.raises(SubmissionError, match=r"^request: model: missing; a mapping with kind"):
        read_submission_data(
            {"name": "a", "load": {"arrivals": {"kind": "poisson", "rate_rps": 1}}}, "request", INSTALLED
        )


def test_all_problems_come_at_once_in_the_order_of_their_lines() -> None:
    """Text, schema, names and sweep are all judged, whatever is wrong with the others."""
    found = messages(
        "name: on\n"
        "model: {kind: zoo, name: nothing}\n"
        "serve: {backend: vlm, threads: 0}\n"
        "load:\n"
        "  arrivals: {kind: poisson}\n"
        "  seed: 1\n"
        "  seed: 2\n"
        "sweep:\n"
        "  serve.thread: [1]\n"
    )
    assert [message.split(" ")[0:2] for message in found] == [
        ["x.yaml:1:", "name:"],
        ["x.yaml:2:", "model.name:"],
        ["x.yaml:3:", "serve.threads:"],
        ["x.yaml:3:", "serve.backend:"],
        ["x.yaml:5:", "load.arrivals.rate_rps:"],
        ["x.yaml:7:", "load.seed:"],
        ["x.yaml:9:", "sweep.serve.thread:"],
    ]


def test_more_problems_than_anyone_reads_are_counted() -> None:
    """The list of problems ends, and says how many there are."""
    found = messages(GOOD + "".join(f"key_{i}: 1\n" for i in range(MAX_PROBLEMS + 50)))
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1] == "x.yaml: and 50 more problems"


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    """More than a megabyte is refused by its size, quickly, even if it ends inside a character."""
    path = tmp_path / "large.yaml"
    path.write_bytes(b"# " + "ä".encode() * MAX_BYTES)
    with pytest.raises(SubmissionError, match="larger than 1,000,000 bytes"):
        read_submission(path, INSTALLED)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 400_000,
        "{a: " * 100_000,
        "- " * 400_000,
        "a: [" + "1, " * 300_000 + "]",
        "? " * 100_000,
        "a: &a " + "[" * 30 + "1" + "]" * 30 + "\nb: [" + "*a, " * 100_000 + "]",
    ],
    ids=["lists", "mappings", "dashes", "long list", "question marks", "aliases"],
)
def test_hostile_text_within_the_size_limit_costs_little(text: str) -> None:
    """Depth and number of values are bounded before anything grows: one refusal, no recursion error."""
    assert len(messages(text)) == 1


def test_folders_missing_files_pipes_and_odd_names_are_told(tmp_path: Path) -> None:
    """Each gets its own word, and a pipe is never opened."""
    os.mkfifo(tmp_path / "pipe.yaml")
    for path, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "none.yaml", "there is no such file"),
        (tmp_path / "pipe.yaml", "is not a plain file"),
        (Path("a\0b"), "is no name of a file"),
        (tmp_path / ("x" * 300), "can't be read: File name too long"),
    ):
        with pytest.raises(SubmissionError, match=words):
            read_submission(path, INSTALLED)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    """The reason is the system's."""
    path = tmp_path / "secret.yaml"
    path.write_text(GOOD)
    path.chmod(0)
    with pytest.raises(SubmissionError, match="can't be read: Permission denied"):
        read_submission(path, INSTALLED)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    """Files of other editors read the same, with the same lines."""
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_submission(path, INSTALLED).name == "good"
    path.write_bytes(b"\xef\xbb\xbf" + (GOOD + "oops: 1\n").replace("\n", "\r\n").encode())
    with pytest.raises(SubmissionError, match=r"windows\.yaml:5: oops: unknown key"):
        read_submission(path, INSTALLED)


def test_named_files_are_looked_for_below_the_submission_only(tmp_path: Path) -> None:
    """A file beside the submission is fine; one that a link fetches from elsewhere is not."""
    outside = tmp_path / "outside.onnx"
    outside.write_bytes(b"x")
    folder = tmp_path / "submissions"
    folder.mkdir()
    (folder / "linked.onnx").symlink_to(outside)
    (folder / "circle.onnx").symlink_to(folder / "circle.onnx")
    (folder / "own.onnx").write_bytes(b"x")
    path = folder / "x.yaml"
    text = GOOD.replace("{kind: zoo, name: digits}", "{kind: file, path: NAME}")
    path.write_text(text.replace("NAME", "own.onnx"))
    assert serving_only(read_submission(path, INSTALLED), "").model.kind == "file"
    for name, words in (
        ("linked.onnx", "is a link that leads out"),
        ("circle.onnx", "can't be looked at|does not exist"),
        ("none.onnx", "does not exist"),
        ("own.onnx/x", "does not exist|can't be looked at"),
    ):
        path.write_text(text.replace("NAME", name))
        with pytest.raises(SubmissionError, match=f"x.yaml:2: model.path: .*({words})"):
            read_submission(path, INSTALLED)


def test_text_without_a_folder_is_not_checked_against_files() -> None:
    """A request's text names files of the machine that runs it."""
    submission = read_submission_text(
        GOOD.replace("{kind: zoo, name: digits}", "{kind: file, path: a.onnx}"), "x", INSTALLED
    )
    assert serving_only(submission, "").model.kind == "file"


def test_a_missing_file_of_a_sweep_is_told_at_the_sweep(tmp_path: Path) -> None:
    """The line is the sweep's, where the name stands."""
    (tmp_path / "a.onnx").write_bytes(b"x")
    path = tmp_path / "x.yaml"
    path.write_text(
        GOOD.replace("{kind: zoo, name: digits}", "{kind: file, path: a.onnx}")
        + "sweep:\n  model.path: [a.onnx, b.onnx]\n"
    )
    with pytest.raises(SubmissionError, match=r"x\.yaml:6: sweep\.model\.path: 'b\.onnx' does not exist"):
        read_submission(path, INSTALLED)


@pytest.mark.parametrize(
    "path", ["/abs", "~/x", "..", "a/../b", "a/..", "C:/x", "a\\b", "file://x", "http://x/y"]
)
def test_paths_that_could_lead_away_are_refused(path: str) -> None:
    """Absolute paths, paths upwards, home folders, drives, backslashes and addresses."""
    (message,) = messages(GOOD.replace("{kind: zoo, name: digits}", f"{{kind: file, path: '{path}'}}"))
    assert message.startswith("x.yaml:2: model.path: ")


@pytest.mark.parametrize("path", ["a", "a/b.onnx", "a..b", "..a", "models/v1..2/x", "ä/ö"])
def test_paths_below_the_folder_are_fine(path: str) -> None:
    """Dots inside of names are no way out."""
    text = GOOD.replace("{kind: zoo, name: digits}", f"{{kind: file, path: '{path}'}}")
    assert serving_only(read_submission_text(text, "x.yaml", INSTALLED), "").model.kind == "file"


@pytest.mark.parametrize("slug", ["a", "A1", "resnet50-triton", "v1.2.3", "a_b-c.d", "x" * 100])
def test_names_that_are_fine(slug: str) -> None:
    """Letters, digits, hyphen, underscore, single dots inside."""
    assert read_submission_text(GOOD.replace("name: good", f"name: {slug}"), "x.yaml", INSTALLED).name == slug


@pytest.mark.parametrize(
    "slug",
    [
        "-rf",
        ".hidden",
        "a..b",
        "a.",
        "a/b",
        "a b",
        "a;b",
        "$a",
        "a$b",
        "<b>",
        "a\\n",
        "ä",
        "a'",
        "x" * 101,
        "",
    ],
)
def test_names_that_mean_something_elsewhere_are_refused(slug: str) -> None:
    """To a shell, a browser, a file system or a database."""
    text = GOOD.replace("name: good", f'name: "{slug}"')
    assert messages(text)[0].startswith("x.yaml:1: name: must be a name (letters, digits")


def test_a_kind_that_is_not_installed_is_told_with_those_that_are() -> None:
    """At its line, and nothing else: what else may stand there, only the kind could say."""
    assert messages("kind: servin\n" + GOOD.replace("load:", "lod:")) == [
        "x.yaml:1: kind: unknown kind of submission 'servin'; did you mean 'serving'? known: bricks, serving, training"
    ]
    assert messages(GOOD + "kind: 5\n") == [
        f"x.yaml:{len(GOOD.splitlines()) + 1}: kind: must be one of: bricks, serving, training; got 5"
    ]


def test_the_default_kind_may_be_written() -> None:
    """It is the same submission, and the same jobs."""
    named, plain = (
        read_submission_text(text, "x.yaml", INSTALLED) for text in ("kind: serving\n" + GOOD, GOOD)
    )
    assert named == plain
    assert [job.job_id for job in expand(named)] == [job.job_id for job in expand(plain)]


def test_a_kind_can_t_be_swept() -> None:
    """A submission is of one kind."""
    (message,) = messages(GOOD + "sweep: {kind: [serving]}\n")
    assert (
        "kind can't be swept: a submission is of one kind; sweep what is below: model, stack, requests"
        in message
    )
