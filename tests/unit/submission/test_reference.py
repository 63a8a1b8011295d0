"""The reference and the JSON schema, both made from the classes that validate."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.submission import reference
from inferbench_tasks.submission.fields import all_paths
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import Submission
from inferbench_tasks.submission.sweep import expand

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "reference"
BASE: dict[str, Any] = {
    "name": "x",
    "model": {"kind": "zoo", "name": "digits"},
    "load": {"arrivals": {"kind": "poisson", "rate_rps": 5}},
}


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = reference.json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_files_in_docs_are_up_to_date() -> None:
    """Otherwise: ``python -m inferbench_tasks.submission.reference docs/reference``."""
    assert (FOLDER / "submission.md").read_text() == reference.markdown(), f"run: {reference.COMMAND}"
    assert json.loads((FOLDER / reference.SCHEMA_ID).read_text()) == reference.json_schema()


def test_every_field_is_described() -> None:
    """Each key of each section has a default or is needed, what is allowed, and what it is for."""
    rows = [line for line in reference.markdown().splitlines() if re.match(r"\| `", line)]
    assert len(rows) > 80
    for row in rows:
        _, key, allowed, _, text, _ = re.split(r"(?<!\\)\|", row)
        assert allowed.strip(), key
        assert text.strip(), key


def test_every_path_of_a_submission_stands_in_the_reference() -> None:
    """Nothing can be written that is not documented."""
    text = reference.markdown()
    for path in all_paths(Submission):
        leaf = path.rsplit(".", 1)[-1]
        assert f"`{leaf}`" in text or f"{leaf}: " in text, path


def test_the_examples_are_valid_submissions() -> None:
    """What is shown can be copied."""
    submission = read_submission_text(reference.EXAMPLE, "example", INSTALLED)
    assert len(expand(submission)) == 9
    blocks = re.findall(r"```yaml\n(.*?)```", reference.markdown(), re.S)
    assert blocks[0] == reference.EXAMPLE
    for block in blocks[1:]:
        assert len(expand(read_submission_text(yaml.safe_dump(BASE) + block, "block", INSTALLED))) == 6


def test_links_lead_to_sections() -> None:
    """Each anchor is a heading of the same file."""
    text = reference.markdown()
    headings = {
        re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-")
        for h in re.findall(r"^##+ (.*)$", text, re.M)
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= headings


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs" / "submissions").glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_schema_accepts_what_comes_with_inferbench(path: Path, validator: Draft202012Validator) -> None:
    """An editor marks nothing in a good submission."""
    assert list(validator.iter_errors(yaml.safe_load(path.read_text()))) == []


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"sweep": {"serve.threads": [1, 2], "zip": {"load.seed": [1], "load.batch_size": [2]}}},
        {"sweep": {"zip": [{"load.seed": [1, 2]}]}},
        {"serve": {"batching": None}, "slo": None, "tags": ["a"]},
    ],
)
def test_the_schema_accepts_a_sweep_as_it_is_written(
    more: dict[str, Any], validator: Draft202012Validator
) -> None:
    """Paths directly under ``sweep``, one zip or several; null where null is allowed."""
    assert list(validator.iter_errors({**BASE, **more})) == []


@pytest.mark.parametrize(
    "more",
    [
        {"bogus": 1},
        {"name": "a b"},
        {"serve": {"threads": 0}},
        {"serve": {"threads": "2"}},
        {"load": {"arrivals": {"kind": "possion", "rate_rps": 5}}},
        {"load": {"arrivals": {"kind": "poisson", "rate": 5}}},
        {"model": {"kind": "canonical", "family": "gan"}},
        {"sweep": {"serve.threads": 2}},
        {"sweep": [1]},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(
    more: dict[str, Any], validator: Draft202012Validator
) -> None:
    """Unknown keys, wrong names, types, ranges and kinds are marked while one types."""
    assert list(validator.iter_errors({**BASE, **more}))
