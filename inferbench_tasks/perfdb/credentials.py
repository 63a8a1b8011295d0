"""Who may log in to the embedded server: nobody but the user whose data directory it is.

A key is drawn once and lies in ``<data>/perfdb/key``, mode 600. MongoDB takes it as the key file of its replica set:
with it the server's own user ``__system`` may do everything, which is how the set is made and ``inferbench`` gets its
login. That user's password follows from the key, so that there is one secret, and a URI stays the same over restarts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from inferbench_tasks import private
from inferbench_tasks.errors import StorageError

FILE = "key"
USER = "inferbench"
#: Reads, writes and indexes of every database, and what tells how the server is; no users, no shutdown.
ROLES = ("readWriteAnyDatabase", "dbAdminAnyDatabase", "clusterMonitor")


@dataclass(frozen=True)
class Credentials:
    """``key``: the text of the key file, base64."""

    key: str = field(repr=False)

    @property
    def password(self) -> str:
        """Of the user ``inferbench``."""
        return hmac.new(self.key.encode(), b"inferbench's login to its PerfDB", hashlib.sha256).hexdigest()

    @property
    def login(self) -> str:
        """``user:password@``, as it stands in a URI."""
        return f"{USER}:{self.password}@"


def read(folder: Path) -> Credentials | None:
    """What was drawn for that folder; None if nothing was. Raises StorageError where it can't be read."""
    try:
        key = (folder / FILE).read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{folder / FILE} can't be read: {error.strerror}.") from error
    return Credentials(key) if key else None


def drawn(folder: Path) -> Credentials:
    """The same, drawn if nothing was; the caller holds the folder's lock."""
    credentials = read(folder)
    if credentials is None:
        credentials = Credentials(base64.b64encode(secrets.token_bytes(48)).decode())
        private.write(folder / FILE, credentials.key + "\n")
    private.close(folder / FILE)  # mongod refuses a key that others may read
    return credentials
