"""nginx before several servers: what its configuration says, that nginx takes it, and what is said without it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from inferbench_tasks.backends import nginx_balancer
from inferbench_tasks.backends.nginx_balancer import Nginx, config, find, unavailable
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.balancer import BalancerSpec
from tests import nginx

MISSING = nginx.missing(lua=False)
OLD, NEW = Nginx("/usr/sbin/nginx", (1, 22, 1), True), Nginx("/usr/sbin/nginx", (1, 27, 0), True)


def behind(protocol: str) -> list[Endpoint]:
    return [Endpoint(protocol=protocol, host="127.0.0.1", port=port, model_name="m") for port in (9101, 9102)]


def text_of(found: Nginx, policy: str, protocol: str) -> str:
    spec = BalancerSpec(policy=policy)  # type: ignore[arg-type]
    return config(found, spec, 9100, behind(protocol), workers=2)


def test_nothing_hides_a_servers_failure() -> None:
    """No request is tried at another server, and none is left out for what it did before."""
    for protocol, directive in (("http", "proxy_next_upstream off;"), ("grpc", "grpc_next_upstream off;")):
        text = text_of(OLD, "least_conn", protocol)
        assert directive in text
        assert [line.strip() for line in text.splitlines() if line.strip().startswith("server 127")] == [
            "server 127.0.0.1:9101 max_fails=0;", "server 127.0.0.1:9102 max_fails=0;",
        ]  # fmt: skip


def test_the_policy_is_what_was_asked_for() -> None:
    """Each in its turn is what nginx does by itself; its processes share one count either way."""
    assert "least_conn;" in text_of(OLD, "least_conn", "http")
    assert "least_conn" not in text_of(OLD, "round_robin", "http")
    assert all("zone replicas" in text_of(OLD, policy, "http") for policy in ("least_conn", "round_robin"))


def test_http2_is_spelled_as_the_version_takes_it() -> None:
    """For gRPC alone: with the port before 1.25.1, by itself from then on."""
    assert "listen 127.0.0.1:9100 http2;" in text_of(OLD, "least_conn", "grpc")
    new = text_of(NEW, "least_conn", "grpc")
    assert "listen 127.0.0.1:9100; http2 on;" in new and "grpc_pass grpc://replicas;" in new
    assert all("http2" not in text_of(found, "least_conn", "http") for found in (OLD, NEW))


@pytest.mark.skipif(bool(MISSING), reason=str(MISSING))
@pytest.mark.parametrize("policy", ["least_conn", "round_robin"])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_nginx_takes_it_without_a_word(tmp_path: Path, policy: str, protocol: str) -> None:
    """That of this machine, by its own check, without a warning."""
    found = find()
    path = tmp_path / "nginx.conf"
    path.write_text(text_of(found, policy, protocol))
    checked = subprocess.run(
        [found.path, "-t", "-q", "-e", "stderr", "-p", str(tmp_path), "-c", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stderr) == (0, "")
    assert unavailable(protocol) is None and found.version >= (1, 0, 0)


def test_without_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the field; no guess at another balancer."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(nginx_balancer, "_USUAL", ())
    with pytest.raises(InputError, match=r"nginx is .* not here: .*apt-get install nginx") as raised:
        find()
    assert raised.value.field == "serve.devices"
    assert "apt-get install nginx" in str(unavailable("http"))


def test_one_without_http2_is_none_for_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    """For HTTP it is."""
    monkeypatch.setattr(nginx_balancer, "find", lambda: Nginx("/opt/nginx", (1, 22, 1), False))
    assert unavailable("http") is None
    assert "/opt/nginx was built without HTTP/2" in str(unavailable("grpc"))


def test_one_that_is_too_old_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both versions."""
    told = subprocess.CompletedProcess([], 0, "", "nginx version: nginx/1.18.0 (Ubuntu)\n")
    monkeypatch.setattr("subprocess.run", lambda *words, **more: told)
    monkeypatch.setattr("shutil.which", lambda name: "/usr/sbin/nginx")
    with pytest.raises(InputError, match=r"is nginx 1\.18\.0; 1\.19\.10 or later"):
        find()


def test_what_is_no_nginx_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name that tells something else."""
    monkeypatch.setattr("shutil.which", lambda name: "/bin/true")
    with pytest.raises(InputError, match="/bin/true is no nginx"):
        find()
