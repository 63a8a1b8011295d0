"""Before a server's files are written, its folder has nothing in it that would lead them elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import Deployment, Prepared
from inferbench_tasks.backends.llm_stand_in import LlmStandIn
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import ServerError
from inferbench_tasks.launchers.process import ProcessLauncher
from inferbench_tasks.submission.schema import ServeSpec


class Refusing(LlmStandIn):
    """Writes its configuration as backends do, and goes no further."""

    def prepare(self, deployment: Deployment) -> Prepared:
        (deployment.folder / "config.json").write_text("{}")
        raise ServerError("no further")


@pytest.mark.parametrize("what", ["link", "pipe"])
def test_what_an_earlier_server_left_in_its_folder_is_removed(what: str, tmp_path: Path) -> None:
    """A link or a pipe in the place of a file that is written now; plain files stay, and what a link leads to."""
    folder, secret = tmp_path / "server", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("not yours")
    (folder / "server.log").write_text("said before")
    if what == "link":
        (folder / "config.json").symlink_to(secret)
    else:
        os.mkfifo(folder / "config.json")
    model = ModelArtifact(
        name="m", framework="gguf", format="pace", path=str(secret), digest="d", inputs=(), outputs=()
    )
    spec = ServeSpec.model_validate({"backend": LlmStandIn.kind})
    with pytest.raises(ServerError, match="no further"):
        startup.start(
            Refusing(),
            Deployment("r", model, spec, folder, tmp_path),
            ProcessLauncher(),
            tmp_path / "servers",
        )
    assert secret.read_text() == "not yours"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "config.json": "{}",
        "server.log": "said before",
    }
