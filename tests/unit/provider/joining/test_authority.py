"""The authority's certificates: what for, whose, how long."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.provider.joining.authority import (
    CERTIFICATE,
    KEY,
    Authority,
    fingerprint,
    request,
    shown,
)

UNTIL = datetime.now(UTC) + timedelta(days=1)


def test_a_folder_has_one_authority_whose_key_is_its_owner_s(tmp_path: Path) -> None:
    """Made once, and the same for whoever asks next."""
    made = Authority.of(tmp_path)
    assert Authority.of(tmp_path).fingerprint == made.fingerprint == fingerprint(shown(made.pem.encode()))
    assert stat.S_IMODE((tmp_path / KEY).stat().st_mode) == 0o600
    assert Authority.of(tmp_path / "other").fingerprint != made.fingerprint


def test_a_worker_s_certificate_has_its_token_s_name_and_is_no_server_s(tmp_path: Path) -> None:
    """Whatever it asked for: it can't pass for the leader, nor outlive its token."""
    authority = Authority.of(tmp_path)
    _, csr = request()
    certificate = x509.load_pem_x509_certificate(authority.sign(csr, "0123456789ab", UNTIL).encode())
    certificate.verify_directly_issued_by(authority.certificate)
    assert certificate.subject.rfc4514_string() == "CN=0123456789ab"
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert abs(certificate.not_valid_after_utc - UNTIL) < timedelta(seconds=1)


def test_a_server_s_certificate_has_the_names_that_it_may_be_called_by(tmp_path: Path) -> None:
    """Addresses as addresses, names as names."""
    authority, path = Authority.of(tmp_path), tmp_path / "server.pem"
    authority.server(path, ["192.0.2.1", "2001:db8::1", "leader.example"])
    certificate = x509.load_pem_x509_certificates(path.read_bytes())[0]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.1", "2001:db8::1"]
    assert names.get_values_for_type(x509.DNSName) == ["leader.example"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("change", ["", "no request", "flipped"])
def test_what_is_no_request_is_not_signed(tmp_path: Path, change: str) -> None:
    """Nor one that its key has not signed."""
    _, csr = request()
    if change == "flipped":
        lines = csr.splitlines()
        lines[-2] = lines[-2][:-6] + ("AAAA" if lines[-2][-6:-2] != "AAAA" else "BBBB") + lines[-2][-2:]
        change = "\n".join(lines)
    with pytest.raises(InputError, match="request for a certificate"):
        Authority.of(tmp_path).sign(change, "w", UNTIL)


def test_a_damaged_authority_is_told_with_the_remedy(tmp_path: Path) -> None:
    """It is not replaced by itself: all workers' tokens name the old one."""
    Authority.of(tmp_path)
    (tmp_path / CERTIFICATE).write_text("damaged")
    with pytest.raises(StorageError, match=r"Remove ca\.key and ca\.pem"):
        Authority.of(tmp_path)
