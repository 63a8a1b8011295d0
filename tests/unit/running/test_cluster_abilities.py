"""More devices than there are: an error before anything starts, where the cluster is known."""

from __future__ import annotations

import pytest

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.running.cluster_abilities import ClusterAbilities
from inferbench_tasks.submission.reader import read_submission_text

TEXT = "kind: training\nname: x\ndata: {kind: dummy}\ndevices:\n  count: {count}\n  strategy: ddp\n"


def device(name: str, **more: object) -> Device:
    values = {"device_id": name, "device_type": "cpu", "name": "c", "host": name.partition(".")[0], **more}
    return Device.model_validate(values)


def problems(count: int, *devices: Device) -> list[str]:
    try:
        read_submission_text(TEXT.replace("{count}", str(count)), "x.yaml", ClusterAbilities(lambda: devices))
    except SubmissionError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_a_host_has_to_have_them_all() -> None:
    """With the line, how many are needed, and those that there are."""
    devices = [
        device("x.0"),
        device("x.1"),
        device("y.0"),
        device("y.1"),
        device("y.g", device_type="t4", gpu_index=0),
    ]
    assert problems(2, *devices) == []
    (problem,) = problems(3, *devices)
    assert problem == (
        "x.yaml:5: devices.count: it needs 3 devices of type cpu on one host; there are 2 on x, 2 on y"
    )
    assert "there are none" in problems(2, device("y.g", device_type="t4", gpu_index=0))[0]


def test_a_cluster_that_is_not_known_refuses_nothing() -> None:
    """The job waits then, with the reason."""
    assert problems(16) == []


def test_a_job_of_one_device_asks_nothing() -> None:
    """It waits for a device, as ever; PerfDB is not looked for."""

    def never() -> list[Device]:
        pytest.fail("the cluster was asked")

    read_submission_text(
        TEXT.replace("{count}", "1").replace("ddp", "single"), "x.yaml", ClusterAbilities(never)
    )
