"""Bad submissions and the exact messages that they get.

``tests/submissions/bad/NAME.yaml`` is the submission, ``NAME.expected`` its messages, a line each, without
the folder. ``{backends}`` and the like stand for the names that a registry knows, so that a new variant
changes no file here.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.arrivals.base import ARRIVALS
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.datasets.base import DATASETS
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.modelrepo.zoo import ZOO
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import LoadSpec, ServeSpec, Submission

#: Names are looked up in a PerfDB, too, where there is one.
pytestmark = pytest.mark.usefixtures("data_dir")
FOLDER = Path(__file__).parents[2] / "submissions" / "bad"
CASES = sorted(FOLDER.glob("*.yaml"))


@cache
def names() -> dict[str, str]:
    """What stands for each token."""
    return {
        "{backends}": ", ".join(BACKENDS),
        "{formats}": ", ".join(FORMATS),
        "{arrivals}": ", ".join(ARRIVALS),
        "{zoo}": ", ".join(ZOO),
        "{datasets}": ", ".join(DATASETS),
        "{measures}": ", ".join(MEASURES),
        "{data sets of pictures}": ", ".join(INSTALLED.datasets_of("pictures")),
        "{openvino here}": version("openvino"),
        "{keys}": ", ".join(Submission.model_fields),
        "{serve keys}": ", ".join(ServeSpec.model_fields),
        "{load keys}": ", ".join(LoadSpec.model_fields),
    }


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_bad_submission_gets_exactly_these_messages(path: Path) -> None:
    """All problems at once, each with file, line, field, what is wrong and what is allowed."""
    with pytest.raises(SubmissionError) as caught:
        read_submission(path, INSTALLED)
    messages = [str(problem).replace(str(FOLDER) + "/", "") for problem in caught.value.problems]
    expected = path.with_suffix(".expected").read_text()
    for token, known in names().items():
        expected = expected.replace(token, known)
    assert messages == expected.splitlines()


def test_there_are_enough_of_them() -> None:
    """At least thirty bad submissions, and no expectation without its submission."""
    assert len(CASES) >= 30
    assert {path.stem for path in FOLDER.glob("*.expected")} == {path.stem for path in CASES}
