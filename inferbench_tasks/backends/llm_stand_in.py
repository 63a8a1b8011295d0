"""``llm_stand_in``: our own server of OpenAI's API at a known pace, NOT a language model; every result says so."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

from inferbench_tasks.backends.base import Backend, Deployment, Prepared
from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.contracts.stand_in_faults import StandInFaults
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.sandbox import Reach
from inferbench_tasks.servers.llm_stand_in.pace import MODEL

#: In the server's folder: what it wrote when, the truth that a client can be tested against.
LOG = "truth.jsonl"


class LlmStandIn(Backend):
    """Nothing is computed: chunks come when the pace says."""

    kind = "llm_stand_in"
    formats = ("llm_stand_in",)
    protocols = ("openai",)
    batching = False
    streams = True

    def __init__(self) -> None:
        self._faults: StandInFaults | None = None

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """It is ours, and needs nothing."""
        return None

    def version(self) -> str:
        return version("inferbench")

    def label(self) -> str:
        """The label that no result may lack; with the faults of the deployment that was prepared."""
        faults = f", WITH FAULTS ({self._faults.words()})" if self._faults else ""
        return f"not a language model: a stand-in at a known pace{faults}, InferBench {self.version()}"

    def prepare(self, deployment: Deployment) -> Prepared:
        """The pace of the model's file becomes the server's options."""
        pace = json.loads(Path(deployment.model.path).read_bytes())
        slots, named = pace.pop("slots"), pace.pop("faults", None)
        self._faults = None if named is None else StandInFaults.model_validate(named)
        faults = self._faults.given() if self._faults else None
        port = deployment.port or free_ports(1, deployment.host)[0]
        config_path = deployment.folder / "config.json"
        config_path.write_text(json.dumps({"pace": pace, "slots": slots, "faults": faults}))
        options = ",".join(f"{name}={value}" for name, value in pace.items())
        launch = Launch(
            run_id=deployment.run_id,
            folder=deployment.folder,
            config_path=config_path,
            argv=(
                sys.executable, "-m", "inferbench_tasks.servers.llm_stand_in", "--until-signal",
                "--host", deployment.host, "--port", str(port), "--pace", options, "--slots", str(slots or 0),
                "--log", str(deployment.folder / LOG), *(("--faults", json.dumps(faults)) if faults else ()),
            ),
            env={},
            port_in_use="Address already in use",
            reach=Reach(binds=(port,)),
        )  # fmt: skip
        endpoint = Endpoint(protocol="openai", host=deployment.host, port=port, model_name=MODEL)
        about = {"pace": pace, "slots": slots, **({"faults": faults} if faults else {})}
        return Prepared(launch, lambda: endpoint, about)
