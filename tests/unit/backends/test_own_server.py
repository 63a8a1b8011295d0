"""What our own server tells of itself, in a folder where it may write anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inferbench_tasks.backends.own_server import read_ports
from inferbench_tasks.errors import ServerError


def test_ports_are_read_of_a_plain_file(tmp_path: Path) -> None:
    """None before it is written; a link and a pipe are refused with the file's name, and not waited for."""
    address = tmp_path / "server" / "address.json"
    address.parent.mkdir()
    assert read_ports(address) == {}
    address.write_text('{"ports": {"http": 8000}}')
    assert read_ports(address) == {"http": 8000}
    address.rename(tmp_path / "other.json")
    address.symlink_to(tmp_path / "other.json")
    with pytest.raises(ServerError, match="address.json: a link stands there"):
        read_ports(address)
    address.unlink()
    os.mkfifo(address)
    with pytest.raises(ServerError, match="address.json: no plain file stands there"):
        read_ports(address)
