"""Every serving backend and launcher that can run here, started on a model that is known; what its tests run on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import BACKENDS, Deployment
from inferbench_tasks.launchers import processes, records
from inferbench_tasks.launchers.base import LAUNCHERS, LOOPBACK
from inferbench_tasks.submission.schema import ServeSpec
from tests import docker_engine
from tests.docker_engine import ENVIRONMENTS
from tests.serving_cases import Case

#: The mark of this session's servers: another session beside it has its own.
RUN = f"contract-{os.getpid()}"
#: Not installed, or not built, for every run of the tests.
OPTIONAL = {
    ("mlserver", "process"): "its environment takes minutes to install",
    ("torchserve", "process"): "its environment takes minutes to install",
    ("triton", "container"): "its image takes a minute to build",
}


def combinations(all_protocols: bool = True) -> list[Any]:
    """Every built-in backend with every launcher and protocol; those that can't run here say why.

    What does not depend on the protocol is tested with the first one.
    """
    found = []
    for kind in BACKENDS:
        if BACKENDS.origin(kind) != "built-in":
            continue
        backend = BACKENDS.load(kind)
        if backend.streams:  # no tensors: tests/integration/test_prompts_submission.py
            continue
        for launcher in backend.launchers:
            for protocol in backend.protocols if all_protocols else backend.protocols[:1]:
                reason = backend.unavailable(launcher)
                if launcher == "container":
                    reason = docker_engine.impossible() or reason
                    if kind not in docker_engine.IMAGES:
                        reason = reason or "its image is not built by the tests"
                if (kind, launcher) in OPTIONAL and not os.environ.get("INFERBENCH_TEST_OPTIONAL"):
                    reason = f"{OPTIONAL[kind, launcher]}; INFERBENCH_TEST_OPTIONAL=1 runs it"
                marks = [pytest.mark.skip(reason=reason)] if reason else []
                found.append(
                    pytest.param((kind, launcher, protocol), marks=marks, id=f"{kind}-{launcher}-{protocol}")
                )
    return found


def processes_over_http() -> list[Any]:
    """The combinations with processes that speak HTTP."""
    return [found for found in combinations() if found.values[0][1:] == ("process", "http")]


def of_several_formats() -> list[Any]:
    """The combinations whose backend serves more than one format."""
    found = combinations(all_protocols=False)
    return [of for of in found if len(BACKENDS.load(of.values[0][0]).formats) > 1]


def of_onnx() -> list[Any]:
    """The combinations whose backend serves ONNX files."""
    return [found for found in combinations() if "onnx" in BACKENDS.load(found.values[0][0]).formats]


#: One of each program, and of each way to start one. The other backends are engines of the first one's program; those
#: that are optional are programs of their own, and cost nothing where nobody asks for them.
PROCESSES = [
    ("onnxruntime", "process"),
    ("triton", "process"),
    ("mlserver", "process"),
    ("torchserve", "process"),
]
PROGRAMS = [*PROCESSES, ("onnxruntime", "container"), ("triton", "container")]


def long_unless(usual: Callable[[str, str, str], bool], found: list[Any]) -> list[Any]:
    """These combinations, of which `make test` runs those that are ``usual``, by backend, launcher and protocol."""
    return [of if usual(*of.values[0]) else of._replace(marks=[*of.marks, pytest.mark.long]) for of in found]


def with_programs(kinds: Sequence[tuple[str, str]], found: list[Any]) -> list[Any]:
    """These combinations, of which `make test` runs those of ``kinds``, by backend and launcher."""
    return long_unless(lambda kind, launcher, protocol: (kind, launcher) in kinds, found)


class Bench:
    """Starts one backend by one launcher, in a folder of the test's own."""

    def __init__(self, kind: str, launcher: str, protocol: str, folder: Path, cases: Any) -> None:
        self.backend_class = BACKENDS.load(kind)
        self.launcher = LAUNCHERS.load(launcher)()
        self.launcher_kind, self.kind, self.protocol = launcher, kind, protocol
        self.folder = folder
        self.servers_dir = folder / "servers"
        self._cases = cases
        self._given: Case | None = None

    def case(self, dynamic: bool = False) -> Case:
        """The model in the first format that the backend serves."""
        found: Case = self._given or self._cases(self.backend_class.formats[0], dynamic)
        return found

    def case_in(self, format_: str) -> Case:
        """The model in that format."""
        found: Case = self._cases(format_, False)
        return found

    def use(self, case: Case) -> None:
        """Serve this one instead."""
        self._given = case

    @contextmanager
    def server(
        self, run_id: str = RUN, dynamic: bool = False, rows: int = 8, secret: str = "", **spec: Any
    ) -> Iterator[startup.Started]:
        """A started server; ended afterwards, whatever happens. ``secret``: as of one that another host loads."""
        folder = self.folder / run_id
        folder.mkdir(exist_ok=True)
        ENVIRONMENTS.mkdir(exist_ok=True)
        deployment = Deployment(
            run_id,
            self.case(dynamic).model,
            ServeSpec.model_validate({"backend": self.kind, "launcher": self.launcher_kind, **spec}),
            folder,
            ENVIRONMENTS,
            protocol=self.protocol,
            client_batch_size=rows,
            listens=LOOPBACK if secret else "",
            secret=secret,
        )
        try:
            started = startup.start(self.backend_class(), deployment, self.launcher, self.servers_dir)
            yield started
            started.probe.close()
        finally:
            records.end_run(self.servers_dir, run_id)


class Kept:
    """A server of a bench that several tests ask in turn; started again where one of them has ended it."""

    RUN = f"kept-{os.getpid()}"

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._open = ExitStack()
        self._started: startup.Started | None = None

    def started(self) -> startup.Started:
        """It, alive."""
        if self._started is None or not self.bench.launcher.alive(self._started.server):
            self.close()
            self._started = self._open.enter_context(self.bench.server(self.RUN))
        return self._started

    def close(self) -> None:
        """End it; nothing of it may be left."""
        self._open.close()
        self._started = None
        assert not self.bench.servers_dir.exists() or list(self.bench.servers_dir.iterdir()) == []
        assert leftovers(self.RUN) == []


def leftovers(run_id: str) -> list[str]:
    """Processes that carry a run's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(processes.MARK, "").startswith(run_id):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def ask(probe: Any, case: Case, rows: int, offset: int = 0) -> dict[str, Any]:
    """The answers to ``rows`` samples from ``offset`` on."""
    answer: dict[str, Any] = probe.infer({"x": case.samples["x"][offset : offset + rows]})
    return answer
