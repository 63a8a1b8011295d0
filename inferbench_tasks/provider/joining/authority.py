"""The system's own certificate authority: one for a data directory, which signs its gateway and its workers only.

A worker knows it by the SHA-256 of its certificate, which stands in the worker's token: no other authority of the
world counts between a leader and its workers, and this one counts nowhere else.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from filelock import FileLock

from inferbench_tasks import private
from inferbench_tasks.errors import InputError, StorageError

KEY, CERTIFICATE, LOCK = "ca.key", "ca.pem", "lock"
_YEARS_10 = timedelta(days=3650)
#: A worker's clock may be behind the leader's.
_BACKDATED = timedelta(days=1)
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Authority:
    """``pem``: its certificate, as everybody may know it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def of(cls, folder: Path) -> Authority:
        """The one of that folder, made if there is none; StorageError where its files are damaged."""
        private.folder(folder)
        with FileLock(folder / LOCK):
            if not (folder / CERTIFICATE).exists():
                made = cls._made()
                private.write(folder / KEY, _key_pem(made.key))
                private.write(folder / CERTIFICATE, made.pem)
        try:
            key = serialization.load_pem_private_key((folder / KEY).read_bytes(), None)
            certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
        except (OSError, ValueError) as error:
            raise StorageError(
                f"The certificate authority in {folder} can't be read ({type(error).__name__}). Remove {KEY} and "
                f"{CERTIFICATE} there for a new one; all workers need new tokens then."
            ) from error
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(key, certificate)

    @classmethod
    def _made(cls) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("InferBench workers")
        builder = _builder(name, name, key.public_key(), datetime.now(UTC) + _YEARS_10)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @property
    def pem(self) -> str:
        return pem_of(self.certificate)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.certificate)

    def server(self, path: Path, names: Sequence[str]) -> None:
        """Write a key with its certificate for a server of these names and addresses, mode 600."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._leaf(key.public_key(), names[0], datetime.now(UTC) + _YEARS_10, server=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), False)
        private.write(path, _key_pem(key) + self._signed(builder) + self.pem)

    def sign(self, request_pem: str, worker: str, until: datetime) -> str:
        """A worker's certificate for its own key; whatever name the request has, it gets that of its token.

        InputError for what is no request, or one that its key has not signed.
        """
        try:
            request = x509.load_pem_x509_csr(request_pem.encode())
        except ValueError as error:
            raise InputError("what came is no request for a certificate (PEM)") from error
        key = request.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey) or not request.is_signature_valid:
            raise InputError(
                "the request for a certificate is not signed by an elliptic-curve key of its own"
            )
        return self._signed(self._leaf(key, worker, until, server=False))

    def _leaf(
        self, key: ec.EllipticCurvePublicKey, name: str, until: datetime, *, server: bool
    ) -> x509.CertificateBuilder:
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = _builder(_name(name), self.certificate.subject, key, until)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return builder.add_extension(issuer, False)

    def _signed(self, builder: x509.CertificateBuilder) -> str:
        return builder.sign(self.key, hashes.SHA256()).public_bytes(_PEM).decode()


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of its DER, 64 hex digits."""
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def shown(pem: bytes) -> x509.Certificate:
    """The one certificate in what a stranger shows; ValueError where there is none, or another beside it."""
    certificates = x509.load_pem_x509_certificates(pem)
    if len(certificates) != 1:
        raise ValueError(f"{len(certificates)} certificates")
    return certificates[0]


def pem_of(certificate: x509.Certificate) -> str:
    """That certificate's PEM, and nothing of what it was read from."""
    return certificate.public_bytes(_PEM).decode()


def request() -> tuple[str, str]:
    """A new key of a worker, and the request to certify it: both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    csr = x509.CertificateSigningRequestBuilder().subject_name(_name("worker")).sign(key, hashes.SHA256())
    return _key_pem(key), csr.public_bytes(_PEM).decode()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    return builder.not_valid_before(datetime.now(UTC) - _BACKDATED).not_valid_after(until)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(_PEM, form, serialization.NoEncryption()).decode()
