"""Where ``up --listen`` may listen, checked before anything starts; what a worker may join."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import psutil
import pytest

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining.leader import address
from inferbench_tasks.provider.joining.listening import listening
from inferbench_tasks.provider.system.config import BROKER_URL
from inferbench_tasks.provider.system.local import free_port


@pytest.mark.parametrize("text", ["", "127.0.0.1:0", "127.0.0.1:65533", "https://127.0.0.1", "a b", "[::1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """With what is allowed."""
    with pytest.raises(InputError, match=r"allowed are ADDRESS\[:PORT\]"):
        listening(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0", "short for 0.0.0.0"),
        ("127.1:7440", "short for 127.0.0.1"),
        ("224.0.0.1", "many hosts"),
        ("[ff02::1]", "many hosts"),
        ("255.255.255.255", "many hosts"),
        ("a" * 64, "nowhere"),
        ("a..b", "nowhere"),
        ("[...]", "nowhere"),
    ],
)
def test_an_address_that_no_host_has_for_itself_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    """A gateway that answers everywhere is asked for by 0.0.0.0 or [::] only."""
    monkeypatch.delenv(BROKER_URL, raising=False)
    monkeypatch.delenv(settings.PERFDB_URI, raising=False)
    with pytest.raises(InputError, match=f"{why}.*addresses and names of this host"):
        listening(text)


def test_an_address_of_another_host_and_a_taken_port_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of the four is enough."""
    monkeypatch.delenv(BROKER_URL, raising=False)
    monkeypatch.delenv(settings.PERFDB_URI, raising=False)
    with pytest.raises(InputError, match="Four free ports of an address of this host"):
        listening("192.0.2.200:7440")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="in use"):
            listening(f"127.0.0.1:{taken.getsockname()[1] - 3}")


@pytest.mark.parametrize("variable", [BROKER_URL, settings.PERFDB_URI])
def test_servers_of_the_user_s_own_are_not_listened_for(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Workers connect to those by themselves."""
    monkeypatch.setenv(variable, "x://y")
    with pytest.raises(InputError, match=f"{variable} names another"):
        listening("127.0.0.1")


def test_a_leader_s_url_has_https_and_a_port() -> None:
    """And nothing that would be ignored."""
    assert address("https://leader:7440") == ("leader", 7440)
    assert address("https://[::1]:7440/") == ("::1", 7440)
    for url in (
        "http://leader:7440",
        "https://leader",
        "leader:7440",
        "https://u:p@leader:1",
        "https://l:1/x",
        "https://l:x",
        "https://:p@leader:1",
        "https://leader:1#x",
        f"https://{'a' * 64}.x:1",
        "https://a..b:1",
        "https://ho st:1",
        "https://a\x00b:1",
    ):
        with pytest.raises(InputError, match="can't be joined; allowed is https"):
            address(url)


def test_an_interface_without_a_broadcast_address_can_be_listened_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ip addr add 192.0.2.10/24 dev eth0`` gives none, and the system then tells the address itself in its place."""
    told = SimpleNamespace(address="127.0.0.3", broadcast="127.0.0.3", family=socket.AF_INET)
    other = SimpleNamespace(address="127.0.0.4", broadcast="127.0.0.255", family=socket.AF_INET)
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"eth0": [told], "eth1": [other]})
    for variable in (BROKER_URL, settings.PERFDB_URI):
        monkeypatch.delenv(variable, raising=False)
    assert listening(f"127.0.0.3:{free_port()}").names[0] == "127.0.0.3"
    with pytest.raises(InputError, match="many hosts"):
        listening(f"127.0.0.255:{free_port()}")
