"""``INFERBENCH_SANDBOX`` and what a kernel lacks."""

import pytest

from inferbench_tasks import sandbox
from inferbench_tasks.errors import InputError
from inferbench_tasks.sandbox import landlock


@pytest.mark.parametrize("abi", [0, 3, 5])
def test_a_kernel_without_a_part_is_refused_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch, abi: int
) -> None:
    """Otherwise the record says what was missing, and ``off`` is said as well."""
    monkeypatch.setattr(landlock, "landlock_abi", lambda: abi)
    sandbox.require()
    assert "not kept in: " in sandbox.state()
    monkeypatch.setenv(sandbox.SANDBOX, "require")
    with pytest.raises(InputError, match="does not keep in: "):
        sandbox.require()
    monkeypatch.setenv(sandbox.SANDBOX, "off")
    sandbox.require()
    assert sandbox.state() == "off"
    monkeypatch.setenv(sandbox.SANDBOX, "maybe")
    with pytest.raises(InputError, match="allowed: on, require, off"):
        sandbox.setting()
