"""A worker's side of the leader's signature: what it has not signed, for this queue and once, does not begin."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, ValidationError

from inferbench_tasks import private
from inferbench_tasks.cluster.clock import REMEDY
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining.signing import LASTS_S, PURPOSE

#: The only workloads that InferBench sends. A callback names what is called; a test of a connection holds its secrets.
TYPES = frozenset({"ExecuteTask"})
_ID = re.compile("[0-9a-fA-F-]{8,64}")
_DAY_S = 86_400


class Envelope(BaseModel):
    """What is sent. ``signed``: the JSON of a ``Signed``, as it was signed; ``signature``: hex."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    signed: str
    signature: str


class Signed(BaseModel):
    """``until_s``: Unix time by which it has to begin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: str
    queue: str
    id: str
    until_s: int


@dataclass(frozen=True)
class Verifier:
    """Of one queue. ``begun``: the folder in which ids that have begun are kept until they would have ended anyway."""

    public: str
    queue: str
    begun: Path

    def __post_init__(self) -> None:
        self._key()  # a wrong one is told now

    def open(self, text: str, task_id: str | None) -> str:
        """The workload's JSON, once; InputError with what is wrong. ``task_id``: of the message that brought it."""
        signed = self._signed(text)
        now_s = time.time()
        if signed.queue != self.queue:
            raise InputError(f"it is signed for the queue {signed.queue!r}, and this one is {self.queue!r}")
        if signed.id != task_id or not _ID.fullmatch(signed.id):
            raise InputError(f"it is signed for the message {signed.id!r}, and this one is {task_id!r}")
        if now_s > signed.until_s:
            raise InputError(
                f"it was signed {now_s - signed.until_s + LASTS_S:,.0f} s ago by this host's clock, and had to begin "
                f"within {LASTS_S:,} s. Unless it has waited for so long, this host's clock is as far ahead of the "
                f"leader's (`inferbench nodes`, column clock): {REMEDY}"
            )
        kind = json.loads(signed.workload).get("type")
        if kind not in TYPES:
            raise InputError(f"it is of type {kind!r}; allowed is {', '.join(TYPES)}")
        self._once(signed, now_s)
        return signed.workload

    def _signed(self, text: str) -> Signed:
        try:
            envelope = Envelope.model_validate_json(text)
            self._key().verify(bytes.fromhex(envelope.signature), PURPOSE + envelope.signed.encode())
        except (ValidationError, ValueError, InvalidSignature) as error:
            raise InputError(f"the leader has not signed it ({type(error).__name__})") from None
        return Signed.model_validate_json(envelope.signed)

    def _once(self, signed: Signed, now_s: float) -> None:
        """Ids lie in a folder for the day on which they end, so that a look at few folders removes what has ended."""
        folder = private.folder(private.folder(self.begun) / str(signed.until_s // _DAY_S))
        for day in self.begun.iterdir():
            if int(day.name) < now_s // _DAY_S:
                shutil.rmtree(day, ignore_errors=True)
        try:
            (folder / signed.id.lower()).touch(exist_ok=False)
        except FileExistsError:
            raise InputError(f"the message {signed.id} has begun before") from None

    def _key(self) -> Ed25519PublicKey:
        try:
            return Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public))
        except ValueError:
            raise InputError(f"the leader's key {self.public!r} is none; it has 64 hex digits") from None


def is_signed(text: str) -> bool:
    """Whether it has the form of what a leader signs; whose signature it is stays open."""
    try:
        Envelope.model_validate_json(text)
    except ValidationError:
        return False
    return True
