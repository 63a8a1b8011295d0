"""Which objects layers ran in, by made-up samples."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.monitors.perf_samples import Sample
from inferbench_tasks.servers.sources.sampled_objects import SAMPLED, Mapped, mapped, share

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
