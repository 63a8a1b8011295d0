"""``evaluate.vary``: what may be changed, and what is refused with its line before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import JobSpec

YAML = """\
name: varied
model: {kind: canonical, family: cnn, layers: 1, channels: 4, image_size: 16}
evaluate:
  dataset: digits-png
  vary:
    resize: [nearest]
    crop: [none, 0.875]
"""


def test_a_variant_is_one_change() -> None:
    """No cross product: two lists of one and two alternatives are three variants, in the order of the steps."""
    spec = read_submission_text(YAML, "v.yaml", INSTALLED)
    assert spec.evaluate.vary.changes == (("resize", "nearest"), ("crop", "none"), ("crop", 0.875))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("then", "now", "message"),
    [
        (
            "digits-png",
            "digits",
            r"v.yaml:6: evaluate.vary.resize: samples of digits are grey, .*digits-png, folder",
        ),
        ("  dataset: digits-png\n", "", r"v.yaml:5: evaluate.vary.resize: the model's own samples"),
        ("nearest", "bilinear", r"v.yaml:6: .*resize\[0\]: must be one of: nearest, box, bicubic, lanczos"),
        ("0.875", "1.5", r"v.yaml:7: .*crop\[1\]: must be a number above 0 and below 1 or 'none'; got 1.5"),
        ("none, 0.875", "0.9, 0.9", r"v.yaml:5: evaluate.vary: crop has 0.9 twice"),
        ("crop: [none, 0.875]", "crops: [none]", r"v.yaml:7: .*unknown key; did you mean 'crop'"),
        ("resize: [nearest]", "decoder: [opencv]", r"v.yaml:6: .*decoder\[0\]: must be .*'ffmpeg'"),
        ("    resize: [nearest]\n    crop: [none, 0.875]\n", "    {}\n", r"at least one step of: decoder, "),
        (
            "none, 0.875",
            ", ".join(f"0.{at}" for at in range(11, 28)),
            r"evaluate.vary: has 18 variants, allowed",
        ),
    ],
)
def test_what_can_t_be_varied_is_refused_by_its_line(then: str, now: str, message: str) -> None:
    """A step that the samples don't go through, what is plain anyway, no such value, twice, none, too many."""
    assert then in YAML
    with pytest.raises(InferBenchError, match=message):
        read_submission_text(YAML.replace(then, now), "v.yaml", INSTALLED)


def test_a_submission_without_it_keeps_its_digest() -> None:
    """Null is as if the field had never come; a variant more is another job."""

    def digest(**evaluate: Any) -> str:
        model = {"kind": "zoo", "name": "digits"}
        return job_digest(JobSpec.model_validate({"name": "n", "model": model, "evaluate": evaluate}))

    assert digest() == digest(vary=None)
    assert len({digest(), digest(vary={"resize": ["box"]}), digest(vary={"resize": ["box", "nearest"]})}) == 3
