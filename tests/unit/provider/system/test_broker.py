"""The settings of the broker of `inferbench up`."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.provider.system import broker


def test_a_broker_that_other_hosts_write_to_takes_its_share_of_memory_and_loses_nothing(
    tmp_path: Path,
) -> None:
    """An eighth of the machine's, 256 MiB at least; without a gateway nobody else writes to it."""
    assert (broker.most_bytes(8 * 2**30), broker.most_bytes(2**30)) == (2**30, 2**28)

    def settings(*, bounded: bool) -> list[str]:
        return Path(broker.command(tmp_path, 1, "x", bounded=bounded)[-1]).read_text().splitlines()

    bounded = dict(line.split(" ", 1) for line in settings(bounded=True))
    assert bounded["maxmemory-policy"] == "noeviction" and int(bounded["maxmemory"]) >= 2**28
    assert not [line for line in settings(bounded=False) if line.startswith("maxmemory")]
