"""Print the package's rooms, the imports between them and their cycles; exit 1 if there is a cycle.

Between modules of one room only import statements count: a registry's table names its variants, which know their base.

    python -m benchmarks.structure [--edges]
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.structure.imports import cycles, module_graph, room_graph


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    graph = module_graph(root)
    rooms = room_graph(graph)
    edges = sorted((room, target) for room, targets in rooms.items() for target in targets)
    if "--edges" in sys.argv[1:]:
        for room, target in edges:
            print(f"{room.partition('.')[2]} -> {target.partition('.')[2]}")
    circles = {"rooms": cycles(rooms), "modules": cycles(module_graph(root, by_name=False))}
    print(
        f"{len(graph)} modules in {len(rooms)} rooms, {len(edges)} imports between rooms; "
        f"cycles between rooms: {len(circles['rooms'])}, between modules: {len(circles['modules'])}"
    )
    for what, groups in circles.items():
        for group in groups:
            print(f"cycle of {what}: {', '.join(group)}")
    return int(bool(circles["rooms"] or circles["modules"]))


if __name__ == "__main__":
    sys.exit(main())
