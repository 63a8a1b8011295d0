"""The import graph that the rules of the house are checked with."""

from __future__ import annotations

from pathlib import Path

from benchmarks.structure.imports import PACKAGE, cycles, module_graph, room_graph


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / PACKAGE / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_every_way_to_import_counts(tmp_path: Path) -> None:
    """At the top, inside a function, under TYPE_CHECKING, by import_module and by a registry's table."""
    write(
        tmp_path,
        a__x=f"import {PACKAGE}.b.y\n",
        b__y=f"def f():\n    from {PACKAGE}.c import z\n",
        c__z=f"if TYPE_CHECKING:\n    from {PACKAGE}.d.u import T\n",
        d__u=f"TABLE = {{'k': '{PACKAGE}.e.v:Class'}}\n",
        e__v=f"import_module('{PACKAGE}.a.x')\n",
    )
    rooms = room_graph(module_graph(tmp_path))
    assert rooms == {f"{PACKAGE}.{a}": {f"{PACKAGE}.{b}"} for a, b in zip("abcde", "bcdea", strict=True)}
    assert cycles(rooms) == [[f"{PACKAGE}.{room}" for room in "abcde"]]


def test_a_process_of_its_own_is_no_import(tmp_path: Path) -> None:
    """What follows -m runs elsewhere."""
    write(tmp_path, a=f"argv = ['python', '-m', '{PACKAGE}.b', '{PACKAGE}.c']\n", b="", c="")
    assert module_graph(tmp_path)[f"{PACKAGE}.a"] == {f"{PACKAGE}.c"}


def test_circles_are_found_apart(tmp_path: Path) -> None:
    """Two circles with an arrow between them are two, and what only leads into one is in none."""
    graph = {"p": ["q"], "q": ["p", "r"], "r": ["s"], "s": ["r"], "t": ["p"]}
    assert cycles(graph) == [["r", "s"], ["p", "q"]]
