"""Which variables of ours reach a process that makes or converts models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

#: Of our environment only these reach such a process; secrets of Airflow, brokers and databases do not.
NAMES = {
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "CC", "CXX",
    "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "no_proxy", "JAVA_HOME", "MPLBACKEND", "CUDA_HOME", "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES", "GLIBC_TUNABLES",
}  # fmt: skip
PREFIXES = (
    "LC_",
    "PYTHON",
    "XDG_",
    "INFERBENCH_",
    "TF_",
    "KERAS_",
    "OMP_",
    "MKL_",
    "MALLOC_",
    "COVERAGE_",
)
SECRETS = (
    "PERFDB_URI", "METADATA_DB", "BROKER_URL", "NOTIFY", "PASSWORD", "SECRET", "TOKEN", "_KEY", "API_KEY", "CREDENTIAL",
)  # fmt: skip
#: Settings of package installers, for processes that may install a package, and those of the way to an index.
INSTALLERS = ("PIP_", "UV_")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
#: An address with a login in it.
LOGIN = re.compile(r"://[^/\s@]+@")


def environment(
    variables: Mapping[str, str],
    also: Iterable[str] = (),
    *,
    installs: bool = False,
    credentials: bool = False,
) -> dict[str, str]:
    """Those variables that such a process may see: none that is called like a secret, or is an address with a login.

    ``installs``: it may install a package, and sees the settings of the installers too; ``credentials``: with logins
    of the indexes and proxies, which the installers need.
    """
    names = set(also)
    prefixes = PREFIXES + INSTALLERS if installs else PREFIXES

    def visible(name: str, value: str) -> bool:
        if credentials and (name.startswith(INSTALLERS) or name in PROXIES):
            return True
        secret = any(word in name for word in SECRETS) or LOGIN.search(value)
        return (name in NAMES or name.startswith(prefixes)) and not secret

    return {name: value for name, value in variables.items() if name in names or visible(name, value)}
