"""The backend of exported programs."""

from pathlib import Path

import pytest

from inferbench_tasks.backends.base import Deployment
from inferbench_tasks.backends.torch_export import TorchExport
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.submission.schema import ServeSpec

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@pytest.mark.parametrize("format_", ["aotinductor", "pt2"])
def test_what_loading_compiles_is_kept_for_that_model_alone(tmp_path: Path, format_: str) -> None:
    """A compiled model's server may write into a folder of the model's digest; another model's into another."""
    pytest.importorskip("torch")
    folders = []
    for digest in ("a" * 64, "b" * 64):
        path = str(tmp_path / "m.pt2")
        model = ModelArtifact(
            name="m", framework="torch", format=format_, path=path, digest=digest, inputs=(), outputs=()
        )
        spec = ServeSpec.model_validate({"backend": "torch_export"})
        launch = TorchExport().prepare(Deployment("r", model, spec, tmp_path, tmp_path / "envs")).launch
        folders.append(launch.env.get(VARIABLE))
        assert format_ == "pt2" or (folders[-1] in launch.reach.writes and digest in str(folders[-1]))
    assert format_ != "pt2" or folders == [None, None]
    assert format_ == "pt2" or folders[0] != folders[1]
