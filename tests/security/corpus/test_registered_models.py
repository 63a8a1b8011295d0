"""Records of the model repository that name files elsewhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.modelrepo.repository import ModelRepository


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "..\\secret", ""])
def test_a_models_file_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """``file`` obeys the rule of the names of ``files``: nothing outside the folder is read."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_text("canary")
    db: Any = SimpleNamespace(files=None)
    card = ModelCard(name="m", version=1, format="onnx", file=name)
    with pytest.raises(PerfDBError, match="forbidden name"):
        ModelRepository(db).fetch(card, folder)
