"""Streams of tokens from servers that want a key or speak HTTPS, and what can't be asked of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen import standalone
from inferbench_tasks.loadgen.token_load import TokenOptions
from tests.llm_stand_in import StandIn, stand_in
from tests.streamed_load import loaded

pytestmark = pytest.mark.integration
KEY = "sk-test-0123456789"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """One that every test of the module asks for a pace of its own, by the model's name."""
    with stand_in(tmp_path_factory.mktemp("stand-in"), "--pace", "ttft_ms=20,gap_ms=4") as running:
        yield running


def test_the_key_is_sent_and_stands_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that wants it answers with it and repeats a wrong one; no file of either load has it."""
    monkeypatch.setenv("STAND_IN_KEY", KEY)
    monkeypatch.setenv("WRONG_KEY", KEY + "-wrong")
    with stand_in(tmp_path, "--pace", "ttft_ms=1,gap_ms=0.1", "--api-key-env", "STAND_IN_KEY") as closed:
        _, _, tokens = loaded(closed, tmp_path / "right", tokens={"api_key_env": "STAND_IN_KEY"})
        assert tokens["ttft_ms"]["count"] > 0
        plan, outcome, _ = loaded(closed, tmp_path / "wrong", tokens={"api_key_env": "WRONG_KEY"})
        assert "Incorrect API key provided: ***" in outcome.applied.explanations["http_4xx"]
        with pytest.raises(InputError, match=r"\*\*\*"):
            standalone.check_target(plan)
        with pytest.raises(InputError, match="API key provided: ") as raised:
            loaded(closed, tmp_path / "list", model="", tokens={"api_key_env": "WRONG_KEY"})
        assert KEY not in str(raised.value)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("client", ["fast", "reference"])
def test_https_is_spoken_to_who_has_the_right_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    """One that the system trusts (here by SSL_CERT_FILE) and that is of the host; to another nothing is sent."""
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(_certificate("127.0.0.1"))
    monkeypatch.setenv("STAND_IN_KEY", KEY)
    options = ("--pace", "ttft_ms=1,gap_ms=0.1", "--certificate", str(certificate))
    with stand_in(tmp_path, *options, "--api-key-env", "STAND_IN_KEY") as running:
        secure = StandIn(running.port, running.log_path, scheme="https")
        asked: dict[str, Any] = {
            "tokens": {"api_key_env": "STAND_IN_KEY"},
            "client": client,
            "duration_s": 0.3,
        }
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        _, outcome, tokens = loaded(secure, tmp_path / "trusted", **asked)
        assert tokens["ttft_ms"]["count"] > 0 and not outcome.applied.explanations
        assert tokens["stamp"]["by"] == "read"  # what arrives is not what is decrypted
        served = len(running.log())
        monkeypatch.delenv("SSL_CERT_FILE")
        plan = standalone.plan(
            standalone.Asked(
                url=secure.url, arrivals="poisson:5", model="stand-in", protocol="openai",
                options={"client": client}, tokens=TokenOptions(**asked["tokens"]),
            ),
            tmp_path / "stranger",
        )  # fmt: skip
        with pytest.raises(InputError, match="(?i)certificate"):
            standalone.check_target(plan)
        assert len(running.log()) == served


def _certificate(address: str) -> bytes:
    """A private key and a certificate that it signed itself, of an IP address, for an hour."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stand-in")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + built.public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://127.0.0.1", {}, "http or https"),
        ("http://u:p@127.0.0.1", {}, "no user"),
        ("http://127.0.0.1:1/a b", {}, "no address"),
        ("", {"tokens": {"api_key_env": "NO_SUCH_KEY"}}, "NO_SUCH_KEY is not set"),
        ("", {"batch_size": 4}, "is one prompt"),
        ("", {"tokens": {"extra_body": '{"stream": false}'}}, "'stream' is set by the load"),
        ("", {"tokens": {"extra_body": "["}}, "no JSON"),
        ("", {"tokens": {"extra_body": '{"n": 2}'}}, "n must be 1"),
    ],
)
def test_what_can_not_be_asked_is_refused(
    server: StandIn, tmp_path: Path, url: str, options: dict[str, Any], message: str
) -> None:
    """Before anything is sent."""
    asked = standalone.Asked(
        url=url or server.url, arrivals="poisson:5", model="stand-in", protocol="openai",
        options={"duration_s": 1.0}, batch_size=str(options.get("batch_size", 1)),
        tokens=TokenOptions(**options.get("tokens", {})),
    )  # fmt: skip
    with pytest.raises(InputError, match=message):
        standalone.plan(asked, tmp_path)
