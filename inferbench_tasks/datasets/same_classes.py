"""Whether a data set's classes are those of a model: by their number, and by their names where both are known."""

from __future__ import annotations

from dataclasses import dataclass

from inferbench_tasks.contracts.models import ModelSource

_LISTED = "a line each"


@dataclass(frozen=True)
class ModelClasses:
    """``scored``: how many classes the model ``name`` gives a score each, None where that can't be told. ``names``: of
    each class by its number, () where nobody knows them."""

    name: str
    scored: int | None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: ModelSource, name: str, scored: int | None) -> ModelClasses:
        """Named as those of the data that the model was made on, where it scores as many."""
        own = source.dataset()
        names = tuple(own.class_names) if own is not None else ()
        return cls(name, scored, names if scored in (None, len(names)) else ())


def why_others(
    data: str, names: tuple[str, ...], model: ModelClasses, *, by_name: bool, listed: bool
) -> str | None:
    """Why the classes ``names`` of the data set ``data`` are not the model's; None if they are, as far as is known.

    ``by_name``: they are numbered in the order of their names. ``listed``: by a user, who says by that which of the
    model's classes each is, and may call it as he likes.
    """
    count = len(names)
    if model.scored is not None and count != model.scored:
        if by_name:
            return (
                f"{data} has {count} classes by their names, {model.name} scores {model.scored}: which is which can't "
                f"be told. Write the model's classes in their order into classes.txt beside the data, {_LISTED}"
            )
        return (
            f"{data} has {count} classes, {model.name} scores {model.scored}: they are not the same. Take a model of "
            f"these classes; in a classes.txt of yours, list all classes of the model in their order, {_LISTED}"
        )
    if not model.names or names == model.names or listed:
        return None
    if count != len(model.names):
        return f"{data} has {count} classes, {model.name} has {len(model.names)}: they are not the same"
    at = next(at for at, (its, own) in enumerate(zip(names, model.names, strict=True)) if its != own)
    differ = f"class {at} of {data} is {names[at]!r}, and {model.names[at]!r} of {model.name}"
    if by_name:
        return (
            f"{differ}. Write the model's classes in their order, as your labels call them, into classes.txt beside "
            f"the data, {_LISTED}"
        )
    return f"{differ}: they are not the same. Take a model of these classes, or data of the model's"
