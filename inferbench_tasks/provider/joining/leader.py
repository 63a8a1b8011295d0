"""A worker's side of joining: who the leader is, what it is asked, and what is kept of its answer.

Nothing is believed before the leader has shown the authority whose fingerprint stands in the token, and the secret
goes to no other. What came lies in ``<data dir>/joined``, mode 600: the authority's certificate, the worker's own with
its key, the login, and DAG files with submissions.
"""

from __future__ import annotations

import io
import json
import re
import ssl
import time
from dataclasses import asdict, dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from filelock import FileLock

from inferbench_tasks import private, settings
from inferbench_tasks.cluster import clock
from inferbench_tasks.cluster.versions import own
from inferbench_tasks.errors import InputError, LeaderAwayError, ServerError
from inferbench_tasks.provider.joining import files
from inferbench_tasks.provider.joining.answers import LAST_OFFSET, Admission, Ask
from inferbench_tasks.provider.joining.authority import fingerprint, pem_of, request, shown
from inferbench_tasks.provider.joining.tokens import Secret
from inferbench_tasks.workers.devices import host_name

FOLDER = "joined"
AUTHORITY, CERTIFICATE, LOGIN, FILES, MARK = "ca.pem", "worker.pem", "login.json", "files", "files.mark"
TIMEOUT_S = 20.0
LINKED = (files.SUBMITTED, files.PARTS)
REFUSED = frozenset({401, 409, 413, 422})
#: Of an answer: of DAGs and submissions in an archive, and of all others, which may come from anybody.
MOST_FILES_BYTES, MOST_BYTES = 2 * files.MOST_BYTES, 65_536
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]")
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9._-]+)?")


@dataclass(frozen=True)
class Leader:
    """The leader that a data directory has joined. ``port``: the first of the gateway's."""

    folder: Path
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    login_database: str
    workloads_key: str
    artifacts: str | None
    name: str
    expires_at: str

    @classmethod
    def join(cls, url: str, secret: Secret, data_dir: Path) -> Leader:
        """Ask to be let in. InputError where the leader says no, or is another; LeaderAwayError where none answers;
        ServerError where what answers is no leader.
        """
        host, port = address(url)
        folder = private.folder(data_dir / FOLDER)
        _link(data_dir, folder / FILES)
        _prove(host, port, secret, folder / AUTHORITY)
        key, csr = request()
        ask = Ask(
            token_id=secret.token_id, secret=secret.secret, csr=csr, versions=own(),
            home=settings.home_id(data_dir), host=_UNUSUAL.sub("-", host_name())[:255],
        )  # fmt: skip
        answer = _asked(_base(host, port), "POST", "/join", folder / AUTHORITY, json=ask.model_dump())
        admission = Admission.model_validate_json(answer.content)
        private.write(folder / CERTIFICATE, key + admission.certificate)
        leader = cls(
            folder, host, port, admission.user, secret.password, admission.database,
            admission.login_database, admission.workloads_key, admission.artifacts, admission.name,
            admission.expires_at,
        )  # fmt: skip
        private.write(folder / LOGIN, json.dumps({**asdict(leader), "folder": None}))
        return leader

    @classmethod
    def of(cls, data_dir: Path) -> Leader:
        """Whom this data directory has joined; InputError where it never has."""
        folder = data_dir / FOLDER
        try:
            return cls(**{**json.loads((folder / LOGIN).read_text()), "folder": folder})
        except FileNotFoundError:
            raise InputError(
                f"{data_dir} has joined no leader; `inferbench worker --join URL --token FILE` does."
            ) from None

    def sync(self) -> Path:
        """Bring DAG files and submissions up to date; the folder that holds them."""
        folder = self.folder / FILES
        with FileLock(self.folder / "files.lock"):
            mark = self.folder / MARK
            known = mark.read_text() if mark.exists() else ""
            answer = _asked(
                _base(self.host, self.port), "GET", "/files", self.folder / AUTHORITY,
                most_bytes=MOST_FILES_BYTES, auth=(self.user, self.password),
                headers={"If-None-Match": known} if known else {},
            )  # fmt: skip
            if answer.status_code != httpx.codes.NOT_MODIFIED:
                private.folder(folder)
                files.unpack(io.BytesIO(answer.content), folder)
                for name in (files.DAGS, files.SUBMISSIONS, *LINKED):
                    private.folder(folder / name)
                private.write(mark, answer.headers["etag"])
        return folder


def address(url: str) -> tuple[str, int]:
    """Host and port of a leader's URL; InputError for what is none."""
    allowed = (
        f"--join {url[:100]!r} can't be joined; allowed is https://HOST:PORT, as `inferbench up --listen` prints it: "
        "HOST is a name, an IPv4 address or [IPv6]."
    )
    try:
        parts = urlsplit(url)
        port = parts.port
        host = httpx.URL(url).raw_host.decode()
        host.encode("idna")  # as the socket will: labels of a name have 1 to 63 characters
    except (ValueError, httpx.InvalidURL):
        raise InputError(allowed) from None
    plain = "@" not in parts.netloc and not parts.query and not parts.fragment and parts.path in ("", "/")
    if (
        parts.scheme != "https"
        or not _HOST.fullmatch(host)
        or not port
        or not plain
        or port + LAST_OFFSET > 65535
    ):
        raise InputError(allowed)
    return host, port


def _link(data_dir: Path, folder: Path) -> None:
    """What a leader has in its data directory by the form and by REST is in a worker's by links to what came."""
    for name in LINKED:
        link = data_dir / name
        if not link.is_symlink() and link.exists():
            raise InputError(
                f"{data_dir} has a system of its own ({link}): a worker that joins another needs its own --data-dir."
            )
        if not link.is_symlink():
            link.symlink_to(folder / name)


def _prove(host: str, port: int, secret: Secret, path: Path) -> None:
    """Keep the authority's certificate if it is the token's; the secret is not sent here."""
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE  # only to fetch what the fingerprint then proves
    asked = _asked(_base(host, port), "GET", "/ca", unverified)
    _compare_clocks(asked)
    try:
        certificate = shown(asked.content)
        seen = fingerprint(certificate)
    except ValueError:
        certificate, seen = None, "not that of one certificate"
    if certificate is None or seen != secret.fingerprint:
        raise InputError(
            f"What answers at https://{host}:{port} is not the leader that made this token: its authority's SHA-256 is "
            f"{seen}, the token's {secret.fingerprint}. Either the URL is another system's, the leader has a new "
            "authority (make a new token), or somebody is in between. The token was not sent."
        )
    # What was hashed, and not what came: all certificates of this file are believed from now on.
    private.write(path, pem_of(certificate))


def _compare_clocks(answer: httpx.Response) -> None:
    """Before certificates, whose dates a wrong clock takes for a stranger's; InputError for such a clock."""
    if date := answer.headers.get("date"):
        told = clock.fault(time.time() - parsedate_to_datetime(date).timestamp(), "the leader's")
        if told:
            raise InputError(
                f"{answer.url.host} would give no job to this host: {told}. The token was not sent."
            )


def _asked(
    base: str,
    method: str,
    path: str,
    verify: ssl.SSLContext | Path,
    most_bytes: int = MOST_BYTES,
    **more: Any,
) -> httpx.Response:
    context = verify if isinstance(verify, ssl.SSLContext) else ssl.create_default_context(cafile=verify)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        with httpx.Client(verify=context, timeout=TIMEOUT_S, trust_env=False) as client:
            client.headers["accept-encoding"] = "identity"
            with client.stream(method, base + path, **more) as streamed:
                answer = _whole(streamed, most_bytes)
    except httpx.TransportError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise InputError(
                f"{base} does not prove that it is the leader: {error}. Join by an address or name that the leader was "
                "told with --listen; if it is one, somebody is in between."
            ) from None
        raise LeaderAwayError(
            f"The leader at {base} can't be reached ({error}). Is it up with --listen, and are its four ports from "
            "that one on open to this host?"
        ) from None
    if answer.is_success or answer.status_code == httpx.codes.NOT_MODIFIED:
        return answer
    try:
        detail = str(answer.json().get("detail", ""))
    except ValueError:
        detail = ""
    if answer.status_code in REFUSED and detail:
        raise InputError(f"The leader at {base} refuses: {detail}.")
    kind = LeaderAwayError if answer.is_server_error else ServerError
    raise kind(f"{base}{path} answers {answer.status_code} {detail}".rstrip())


def _whole(streamed: httpx.Response, most_bytes: int) -> httpx.Response:
    """Status, etag, date and body as it came, unpacked by nobody; ServerError for one that is longer."""
    body = bytearray()
    for piece in streamed.iter_raw():
        body += piece
        if len(body) > most_bytes:
            raise ServerError(f"{streamed.url} answers with more than {most_bytes:,} bytes")
    headers = {name: value for name, value in streamed.headers.items() if name in ("etag", "date")}
    return httpx.Response(
        streamed.status_code, headers=headers, content=bytes(body), request=streamed.request
    )


def _base(host: str, port: int) -> str:
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
