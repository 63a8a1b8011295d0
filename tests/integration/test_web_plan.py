"""What the plan over REST says of a model that takes a batch of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks import settings
from tests.unit.stages.test_fixed_batch import asked, inspected, of_four

pytestmark = [pytest.mark.integration, pytest.mark.airflow]


def test_a_plan_says_what_is_known_of_the_file(
    http: TestClient, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a file that nobody read; then its batch, and that a job that batches would be refused."""
    folder = tmp_path / "submissions"
    folder.mkdir()
    monkeypatch.setenv(settings.SUBMISSIONS_DIR, str(folder))
    of_four(folder / "four.onnx")

    def remarks(**changes: object) -> list[str]:
        asked(folder, **changes)
        document = {"submission": (folder / "s.yaml").read_text()}
        answer = http.post("/inferbench/api/submissions/plan", json=document)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["remarks"])

    assert remarks() == []
    inspected(folder, data_dir)
    (told,) = remarks()
    assert told.startswith("four is served at its batch of 4, batching off: ")
    (told,) = remarks(serve={"batching": {}})
    assert told.startswith("One job would be refused: serve.batching: ")
