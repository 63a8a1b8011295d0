"""Models that are drawn near another one: other widths, kernels and blocks, no weight of it, each layer valid.

``draw.py`` draws and proves that it runs; ``widths.py`` carries the new sizes through the graph, ``rules.py`` says what
they do to an operator's constants.
"""

from inferbench_tasks.bricks.dummies.draw import draw_near

__all__ = ["draw_near"]
