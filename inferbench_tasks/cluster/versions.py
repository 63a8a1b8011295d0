"""What a worker and its leader have to agree on: InferBench, Python, and what they say to each other."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

from pydantic import BaseModel, ConfigDict, Field

#: Of what leader and workers say to each other (devices, leases, tasks, artifacts); it grows when an older worker would
#: misunderstand a newer leader, or the other way round, though InferBench's version is the same.
PROTOCOL = 1


#: PEP 440's characters: what a worker says stands in logs and answers.
_NUMBER = "^[A-Za-z0-9.+!_-]{1,64}$"


class Versions(BaseModel):
    """Of one installation. ``python`` without its last number: mends of one Python understand each other."""

    model_config = ConfigDict(frozen=True)

    inferbench: str = Field(pattern=_NUMBER)
    python: str = Field(pattern=_NUMBER)
    protocol: int

    def unlike(self, leader: Versions) -> str:
        """Each number in which this worker's versions are not the leader's, with both; "" where all agree."""
        pairs = (
            ("InferBench", self.inferbench, leader.inferbench),
            ("Python", self.python, leader.python),
            ("protocol", self.protocol, leader.protocol),
        )
        return "; ".join(
            f"{name} {mine} of the worker, {theirs} of the leader"
            for name, mine, theirs in pairs
            if mine != theirs
        )


@cache
def own() -> Versions:
    """Of this process."""
    python = ".".join(platform.python_version_tuple()[:2])
    return Versions(inferbench=version("inferbench"), python=python, protocol=PROTOCOL)


def unfit(worker: Versions | None, leader: Versions) -> str:
    """Why a leader gives such a worker no jobs; "" where it does. None: of a version that did not tell."""
    if worker is None:
        return (
            f"its worker is of an InferBench before versions were told; the leader's is {leader.inferbench}"
        )
    return worker.unlike(leader)
