"""What leader and worker tell each other when a worker joins."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from inferbench_tasks.cluster.versions import Versions

#: Ports of the gateway, from the one of its URL on.
BROKER_OFFSET, PERFDB_OFFSET, EXECUTION_OFFSET = 1, 2, 3
LAST_OFFSET = EXECUTION_OFFSET


class Ask(BaseModel):
    """A worker's question. ``csr``: the request to certify its key, PEM."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token_id: str = Field(pattern="^[0-9a-f]{12}$")
    secret: str = Field(max_length=100, repr=False)
    csr: str = Field(max_length=8_000)
    versions: Versions
    home: str = Field(pattern="^[0-9a-f]{32}$")
    host: str = Field(pattern="^[A-Za-z0-9._-]{1,255}$")


class Admission(BaseModel):
    """The leader's answer. ``certificate``: the worker's, PEM; ``user``: of its logins."""

    model_config = ConfigDict(frozen=True)

    name: str
    user: str
    database: str
    login_database: str
    """Whose user of PerfDB it is."""
    certificate: str
    expires_at: str
    workloads_key: str = Field(pattern="^[0-9a-f]{64}$")
    """Public: what the leader signs the tasks with that it sends."""
    artifacts: str | None
    """The store that the leader was told of; None: PerfDB."""
