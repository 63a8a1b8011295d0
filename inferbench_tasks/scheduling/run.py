"""A lease as the scheduler sees it."""

from __future__ import annotations

from inferbench_tasks.scheduling.model import QueuedJob


class Run:
    """A lease that a job holds."""

    __slots__ = ("devices", "est_end_s", "limit_end_s", "node_id", "orphan", "start_s", "token")

    def __init__(self, node_id: str, devices: tuple[int, ...], token: int | None) -> None:
        self.node_id = node_id
        self.devices = devices
        self.token = token
        self.orphan = False
        self.start_s = self.est_end_s = self.limit_end_s = 0.0

    def begin(self, at_s: float, job: QueuedJob) -> None:
        """The expected end and the time limit count from now."""
        self.start_s = at_s
        self.est_end_s = at_s + job.est_s
        self.limit_end_s = at_s + job.limit_s
