"""The leader's signature on each task that it sends: whoever else writes into the broker starts nothing.

All workers of a system with ``up --listen`` have a login at its broker, and could put anything into any queue. So the
scheduler signs what it sends (Ed25519): the workload, the queue, Celery's id, and until when it may begin. The key is
made beside the authority and stays there (mode 600); workers are told the public one.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from filelock import FileLock

from inferbench_tasks import private
from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.provider.joining.tokens import FOLDER

#: The public key, 64 hex digits, in the environment of all parts of such a system and of the workers that joined it.
PUBLIC = "INFERBENCH_WORKLOADS_KEY"
#: The key itself, 64 hex digits: of a deployment's scheduler, which has no folder for it.
PRIVATE = "INFERBENCH_SIGNING_KEY"
FILE, LOCK = "workloads.key", "workloads.lock"
#: What the key signs is this and nothing else.
PURPOSE = b"InferBench workload 1\n"
#: A message may wait for its worker so long, less what the worker's clock is off (``cluster.clock.MOST_APART_S``).
LASTS_S = 86_400


@dataclass(frozen=True)
class SigningKey:
    """Of a leader."""

    key: Ed25519PrivateKey

    @classmethod
    def of(cls, home: Path) -> SigningKey:
        """The one of the environment, or of the system in ``home``, made if there is none.

        InputError for a setting that is none, StorageError where its file is damaged.
        """
        if held := os.environ.get(PRIVATE):
            try:
                return cls(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(held)))
            except ValueError:
                raise InputError(
                    f"{PRIVATE} is no key; one has 64 hex digits, as `make env` draws it."
                ) from None
        folder = private.folder(home / FOLDER)
        path = folder / FILE
        with FileLock(folder / LOCK):
            if not path.exists():
                private.write(path, _pem(Ed25519PrivateKey.generate()))
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError) as error:
            raise StorageError(
                f"The key in {path} can't be read ({type(error).__name__}). Remove it for a new one, and start the "
                "system and all workers that joined it again."
            ) from error
        assert isinstance(key, Ed25519PrivateKey)
        return cls(key)

    @property
    def public(self) -> str:
        """As workers are told it, 64 hex digits."""
        return self.key.public_key().public_bytes_raw().hex()

    @property
    def environment(self) -> dict[str, str]:
        """For all parts of the system."""
        return {PUBLIC: self.public}

    def sign(self, workload: str, queue: str, task_id: str) -> str:
        """What is sent in a workload's place. ``workload``: Airflow's JSON; ``task_id``: Celery's."""
        fields = {
            "workload": workload,
            "queue": queue,
            "id": task_id,
            "until_s": int(time.time()) + LASTS_S,
        }
        signed = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        signature = self.key.sign(PURPOSE + signed.encode()).hex()
        return json.dumps({"signed": signed, "signature": signature})


def _pem(key: Ed25519PrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
