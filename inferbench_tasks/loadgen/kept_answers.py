"""A load whose answers are kept, each with its request: what is asked of a model, not how fast it answers.

Every answer is decoded on the sender's loop, which costs it more than a look at a length: such a load's times are not
those of the load that is measured.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.clients.answers import AnswerCheck, BadAnswer, Outputs
from inferbench_tasks.clients.base import OK, Call, Client, ClientFactory, ClientSettings, Sink
from inferbench_tasks.clients.forwarding import ForwardingSink
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.errors import LoadError
from inferbench_tasks.requests.ragged import unpacked

#: How an output's array is called in the file, before its own name.
_OUTPUT = "output:"


class KeepingCheck(AnswerCheck):
    """Decodes every answer; ``last``: the outputs of the last good one."""

    last: Outputs

    def known(self, batch_size: int, length: int) -> bool:
        """Every answer is looked at."""
        return False

    def problem(self, batch_size: int, length: int, answer: bytes | Outputs) -> str | None:
        self.decoded += 1
        try:
            outputs = self.outputs(answer)
            self.check(outputs, batch_size)
        except BadAnswer as error:
            return str(error)
        self._largest_bytes = max(self._largest_bytes, length)
        self.last = outputs
        return None


class Keeper:
    """The answers of one sender, until they are written."""

    def __init__(self) -> None:
        self._requests: list[int] = []
        self._outputs: list[Outputs] = []

    def add(self, request_id: int, outputs: Outputs) -> None:
        """Keep one answer; a copy, for outputs are views of what came over the wire."""
        self._requests.append(request_id)
        self._outputs.append({name: np.array(array) for name, array in outputs.items()})

    def write(self, path: Path) -> None:
        """All answers as one ``.npz``: ``request_id``, one for each row of the outputs, in the order of arrival."""
        rows = [len(next(iter(outputs.values()))) for outputs in self._outputs]
        arrays: Outputs = {"request_id": np.repeat(np.array(self._requests, dtype=np.int64), rows)}
        names = list(self._outputs[0]) if self._outputs else []
        for name in names:
            try:
                joined = np.concatenate([outputs[name] for outputs in self._outputs])
            except (KeyError, ValueError) as error:
                raise LoadError(f"The answers' output {name} can't be kept as one array: {error}") from error
            arrays[_OUTPUT + name] = joined.astype(np.str_) if joined.dtype.kind == "O" else joined
        write_archive(path, arrays)


@dataclass(frozen=True)
class Kept:
    """``request_id``: whose answer each row is of; a request of several samples has a row for each, in their order."""

    request_id: NDArray[np.int64]
    outputs: Outputs


def read_kept(paths: list[Path]) -> Kept:
    """What the senders of a load kept, together."""
    parts: list[Outputs] = []
    for path in paths:
        with np.load(path, allow_pickle=False) as archive:
            part = unpacked(archive)
        if len(part["request_id"]):
            parts.append(part)
    if not parts:
        return Kept(np.empty(0, np.int64), {})
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    outputs = {
        name.removeprefix(_OUTPUT): array for name, array in joined.items() if name.startswith(_OUTPUT)
    }
    return Kept(joined["request_id"].astype(np.int64), outputs)


def keeping(factory: ClientFactory, keeper: Keeper) -> ClientFactory:
    """The same client, whose good answers are kept. Clients judge an answer right before they end its call."""

    def make(
        settings: ClientSettings, loop: asyncio.AbstractEventLoop, sink: Sink, check: AnswerCheck
    ) -> Client:
        assert isinstance(check, KeepingCheck)
        return factory(settings, loop, _Ends(sink, check, keeper), check)

    return make


class _Ends(ForwardingSink):
    def __init__(self, sink: Sink, check: KeepingCheck, keeper: Keeper) -> None:
        super().__init__(sink)
        self._check = check
        self._keeper = keeper

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        if status == OK and not call.done:
            self._keeper.add(call.request_id, self._check.last)
        super().finish(call, status, done_ns)
