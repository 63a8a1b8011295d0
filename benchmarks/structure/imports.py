"""The import graph of the package, lazy imports included, and its cycles.

What counts as an import of a module: an ``import`` statement anywhere in a file, also inside a function or under
TYPE_CHECKING, and a string that names a module of the package (``registry`` tables, ``import_module``). What follows
"-m" in a list is a process of its own, not an import.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

PACKAGE = "inferbench_tasks"
Graph = dict[str, set[str]]


def modules(root: Path) -> dict[str, Path]:
    """Every module of the package under ``root`` by its dotted name; a package by its ``__init__``."""
    names = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def module_graph(root: Path, *, by_name: bool = True) -> Graph:
    """Module -> the modules of the package that it imports.

    With ``by_name`` a string that names a module counts too: a registry's table leads to its variants.
    """
    known = modules(root)
    graph: Graph = {}
    for name, path in known.items():
        statements = _statements(path.read_text(encoding="utf-8"))
        graph[name] = {t for t in _imported(statements, known, by_name) if t not in (name, PACKAGE)}
    return graph


def room_of(module: str) -> str:
    """The package at the top level that a module belongs to, or the module itself where it stands alone."""
    return ".".join(module.split(".")[:2])


def room_graph(graph: Mapping[str, Iterable[str]]) -> Graph:
    """The same between the rooms of the house: packages and lone modules at the top level."""
    rooms: Graph = {room_of(name): set() for name in graph if name != PACKAGE}
    for name, targets in graph.items():
        for target in targets:
            if name != PACKAGE and room_of(name) != room_of(target):
                rooms[room_of(name)].add(room_of(target))
    return rooms


def cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components with more than one member (Tarjan 1972, iterative)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []
    for start in sorted(graph):
        if start in order:
            continue
        work = [(start, iter(sorted(graph[start])))]
        order[start] = low[start] = len(order)
        stack.append(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    work.append((target, iter(sorted(graph.get(target, ())))))
                    break
                if target in stack:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(component) > 1:
                        components.append(sorted(component))
    return components


@dataclass(frozen=True)
class _Statements:
    """What a file may import by: names, pairs of a module and what is taken from it, strings."""

    imports: frozenset[str]
    parts: frozenset[tuple[str, tuple[str, ...]]]
    strings: frozenset[str]


@cache
def _statements(text: str) -> _Statements:
    """Of a file's text; parsing the whole package takes a second, and the rules ask several times."""
    tree = ast.parse(text)
    processes = _after_dash_m(tree)
    imports, parts, strings = set(), set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            parts.add((node.module, tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in processes:
            strings.add(node.value.partition(":")[0])
    return _Statements(frozenset(imports), frozenset(parts), frozenset(strings))


def _imported(statements: _Statements, known: Mapping[str, Path], by_name: bool) -> set[str]:
    targets = set(statements.imports)
    for module, names in statements.parts:
        parts = {f"{module}.{name}" for name in names}
        inside = {part for part in parts if part in known}
        targets |= inside if inside == parts else inside | {module}
    if by_name:
        targets |= statements.strings
    return {target for target in targets if target in known}


def _after_dash_m(tree: ast.AST) -> set[int]:
    starts: set[int] = set()
    for node in ast.walk(tree):
        parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else ()
        for flag, module in pairwise(parts):
            if isinstance(flag, ast.Constant) and flag.value == "-m":
                starts.add(id(module))
    return starts
