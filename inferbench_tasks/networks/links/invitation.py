"""What one host gives the other so that it may measure the link: an address, and a secret that counts once."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path

from inferbench_tasks.errors import InputError

STDIN = "-"
_SECRET_BYTES = 32
_MOST_BYTES = 1024
_FORM = re.compile(r"inferbench-link-1 (\S+) ([0-9]{1,5}) ([0-9a-f]{64})\s*")


@dataclass(frozen=True, slots=True)
class Invitation:
    """Where the other side listens, and by what the two know each other; the secret is in no representation."""

    address: str
    port: int
    secret: bytes = field(repr=False)

    @classmethod
    def drawn(cls, address: str, port: int) -> Invitation:
        """With a new secret."""
        return cls(address, port, secrets.token_bytes(_SECRET_BYTES))

    @property
    def text(self) -> str:
        """One line, as the file has it."""
        return f"inferbench-link-1 {self.address} {self.port} {self.secret.hex()}"

    @classmethod
    def parse(cls, text: str) -> Invitation:
        """InputError, which never quotes it, for what is no such line."""
        match = _FORM.fullmatch(text)
        if match is None or int(match[2]) > 65535:
            raise InputError(
                "The file holds no link: it is written on the other host by `inferbench links listen --to FILE`."
            )
        return cls(numeric(match[1]), int(match[2]), bytes.fromhex(match[3]))

    @classmethod
    def read(cls, place: str) -> Invitation:
        """Of a file that nobody else can read, or from standard input (``-``); InputError."""
        if place == STDIN:
            return cls.parse(sys.stdin.read(_MOST_BYTES))
        try:
            with open(place) as file:
                mode = os.fstat(file.fileno()).st_mode
                if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise InputError(
                        f"{place} is open to other users (mode {stat.S_IMODE(mode):o}): `chmod 600 {place}`."
                    )
                return cls.parse(file.read(_MOST_BYTES))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise InputError(f"{place} can't be read: {reason}.") from None

    def write(self, path: Path) -> None:
        """A new file, mode 600; InputError where it can't be made, or is there already."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise InputError(f"--to {path} can't be written: {error.strerror}.") from None
        with open(descriptor, "w") as file:
            file.write(f"{self.text}\n")


def numeric(address: str) -> str:
    """An address as numbers; InputError for a name, which may mean another host on each side."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise InputError(f"{address!r} is no IP address; name the one that the other host reaches.") from None
    if parsed.is_unspecified:
        raise InputError(
            f"{address} is every address of this host; name the one that the other host reaches."
        )
    return str(parsed)
