"""Which objects layers ran in, by made-up samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.monitors import perf_samples
from inferbench_tasks.monitors.perf_reader import Reader
from inferbench_tasks.monitors.perf_samples import Sample
from inferbench_tasks.servers.sources import sampled_objects
from inferbench_tasks.servers.sources.sampled_objects import SAMPLED, Mapped, SampledObjects, mapped, share
from inferbench_tasks.timing.epoch import epoch_offset
from tests.unit.monitors.ring_file import SAMPLE_BYTES, SIZE, Kernel, sample

OBJECTS = [Mapped(100, 200, "runtime.so"), Mapped(300, 400, "libc.so.6")]
RUNTIME, LIBC, NOWHERE = 150, 399, 250


def layer(name: str, start_ns: int, end_ns: int) -> dict[str, Any]:
    """As the runtime's profile tells it."""
    return {"name": name, "type": "Conv", "start_ns": start_ns, "end_ns": end_ns, "attributes": {}}


def inside(of: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Name, beginning and end of what a layer has inside."""
    return [(each["name"], each["start_ns"], each["end_ns"]) for each in of["inside"]]


def test_a_layer_is_shared_by_the_samples_of_all_its_runs() -> None:
    """Three of four samples of `a` in two runs were in the runtime: three quarters of each of its runs, however long;
    together they are the layer. One that was never met has nothing inside."""
    layers = [layer("a", 1_000, 1_400), layer("b", 1_400, 1_410), layer("a", 2_000, 2_101)]
    times = [(1_000, RUNTIME), (1_399, LIBC), (2_050, RUNTIME), (2_100, RUNTIME)]
    share(layers, [Sample(*each) for each in times], OBJECTS)
    assert inside(layers[0]) == [("runtime.so", 1_000, 1_300), ("libc.so.6", 1_300, 1_400)]
    assert inside(layers[2]) == [("runtime.so", 2_000, 2_075), ("libc.so.6", 2_075, 2_101)]
    assert layers[1]["inside"] == []
    first = layers[0]["inside"][0]
    assert (first["type"], first["inside"]) == (SAMPLED, [])
    assert first["attributes"] == {"library": "runtime.so", "samples": 3, "samples_of_layer": 4}


def test_samples_beside_layers_are_nobodys_and_those_of_bodies_the_bodys() -> None:
    """At its end a layer is over; a sample in a loop's body is none of the loop around it; code of no object is said to
    be."""
    layers = [layer("loop", 0, 100), layer("body", 20, 40)]
    times = [(-1, LIBC), (10, RUNTIME), (20, LIBC), (39, NOWHERE), (50, RUNTIME), (100, LIBC)]
    share(layers, [Sample(*each) for each in times], OBJECTS)
    assert inside(layers[0]) == [("runtime.so", 0, 100)]
    assert inside(layers[1]) == [("libc.so.6", 20, 30), ("no object", 30, 40)]


def test_only_code_is_mapped() -> None:
    """By its address, with its object's name."""
    text = (
        "7f10-7f20 r--p 00000000 fe:00 12 /usr/lib/libm.so.6\n"
        "7f20-7f30 r-xp 00001000 fe:00 12 /usr/lib/with a blank/libm.so.6\n"
        "1000-2000 rwxp 00000000 00:00 0 \n"
    )
    assert mapped(text) == [(0x1000, 0x2000, "no object"), (0x7F20, 0x7F30, "libm.so.6")]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The kernel's side of the only ring that this process gets, which is read at the end of a run alone."""
    made = Kernel(tmp_path / "ring")
    monkeypatch.setattr(sampled_objects, "Reader", lambda rings: Reader(rings, every_s=3600.0))
    monkeypatch.setattr(perf_samples, "opened", lambda cores: {0: -1})
    monkeypatch.setattr(sampled_objects, "Ring", lambda descriptor: made.ring)
    return made


def asked(source: SampledObjects, kernel: Kernel, start_ns: int, samples: int) -> None:
    """A run with so many samples, one each ns."""
    source.start()
    kernel.write(*[sample(start_ns + at, RUNTIME) for at in range(samples)])
    source.stop(start_ns)


def unix(*layers: dict[str, Any]) -> list[dict[str, Any]]:
    """Of CLOCK_MONOTONIC in Unix time."""
    offset_ns = epoch_offset()["offset_ns"]
    moments = ("start_ns", "end_ns")
    return [each | {name: each[name] + offset_ns for name in moments} for each in layers]


def test_runs_that_lost_samples_are_left_out_and_counted(kernel: Kernel) -> None:
    """Of two traced runs of a layer the second was longer than the ring: the shares are of the first's three samples,
    and it says so. A run of before is none of them."""
    source = SampledObjects()
    hour_ns = 3600 * 10**9  # clocks that are read twice are a little apart
    asked(source, kernel, 1 * hour_ns, 5)
    asked(source, kernel, 2 * hour_ns, 3)
    asked(source, kernel, 3 * hour_ns, SIZE // SAMPLE_BYTES + 9)
    kernel.write(sample(0))
    minute_ns = 60 * 10**9
    layers = unix(*(layer("a", at * hour_ns - minute_ns, at * hour_ns + minute_ns) for at in (1, 2, 3)))
    source.into(layers, 2 * hour_ns, 3 * hour_ns)
    assert [each["inside"][0]["attributes"]["samples_of_layer"] for each in layers] == [3, 3, 3]
    assert source.sampling == {"runs": 2, "left_out": 1, "dropped": 0, "lost": 10}


def test_of_more_samples_than_are_kept_the_oldest_runs_go(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three runs have room: the first, which warmed up, is gone. That is our bound's doing, and nothing was
    lost."""
    monkeypatch.setattr(sampled_objects, "MOST_BYTES", 8 * SAMPLE_BYTES)
    source = SampledObjects()
    for start_ns in (10, 20, 30):
        asked(source, kernel, start_ns, 4)
    source.into([], 10, 30)
    assert source.sampling == {"runs": 3, "left_out": 0, "dropped": 1, "lost": 0}


def test_a_run_that_lost_samples_is_not_dropped_too(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no room: where that ends, it is still counted as what it is, once."""
    monkeypatch.setattr(sampled_objects, "MOST_BYTES", 8 * SAMPLE_BYTES)
    source = SampledObjects()
    asked(source, kernel, 10, SIZE // SAMPLE_BYTES + 9)
    for start_ns in (20_000, 30_000, 40_000):
        asked(source, kernel, start_ns, 4)
    source.into([], 10, 40_000)
    assert source.sampling == {"runs": 4, "left_out": 1, "dropped": 1, "lost": 10}


def test_a_run_that_raised_is_none_of_those_that_were_sampled(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it take room from those that are."""
    monkeypatch.setattr(sampled_objects, "MOST_BYTES", 8 * SAMPLE_BYTES)
    source = SampledObjects()
    for start_ns in (10, 20, 30):
        asked(source, kernel, start_ns, 4)
        if start_ns == 20:
            source.raised()
    source.into([], 10, 30)
    assert source.sampling == {"runs": 2, "left_out": 0, "dropped": 0, "lost": 0}


def test_rings_that_can_not_be_mapped_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users may lock so much memory and no more."""

    def refused(descriptor: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(perf_samples, "opened", lambda cores: {0: -1})
    monkeypatch.setattr(perf_samples, "unavailable", lambda: None)
    monkeypatch.setattr(sampled_objects, "Ring", refused)
    with pytest.raises(RuntimeError, match=r"Operation not permitted \(see kernel\.perf_event_mlock_kb\)"):
        SampledObjects()
