"""What a cache entry says of its model is looked at: a model's own code may have written it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import StorageError
from inferbench_tasks.modelrepo.build import file_of


def test_a_model_lies_in_its_entry(tmp_path: Path) -> None:
    """As a file or a folder, or below one."""
    for name in ("model.onnx", "model", "a/model.onnx"):
        assert file_of(tmp_path, {"file": name}) == tmp_path / name


@pytest.mark.parametrize("name", ["/", "/etc/passwd", "..", "a/../../b", "", ".", 1, None, "out", "a\0b"])
def test_no_name_leads_out_of_it(name: Any, tmp_path: Path) -> None:
    """Its digest would be that of all that the machine has."""
    (tmp_path / "out").symlink_to("/")
    with pytest.raises(StorageError, match="which is no file in it"):
        file_of(tmp_path, {"file": name})
