"""The classes that a model scores, by name, and its maker's rule for which of them is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: An answer that names no class. Numbers below it are classes of the model that the data set has not.
NO_CLASS = -1


@dataclass(frozen=True)
class NamedClasses:
    """``names``: in the order of the scores. ``said_as``: of each what is said in its place, mostly itself.

    ``least``: of each the score from which its maker's tool trusts it, and ``else_said`` what that says below.
    ``called``: what data sets call a class -> its name here. ``rule``: the maker's rule, in words.
    """

    names: tuple[str, ...]
    said_as: tuple[str, ...]
    least: tuple[float, ...]
    else_said: tuple[str, ...]
    called: Mapping[str, str]
    rule: str
