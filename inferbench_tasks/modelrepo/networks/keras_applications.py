"""Networks of ``keras.applications`` with random weights."""

from __future__ import annotations

from typing import Any


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x side x side x 3`` -> 1000 scores, only in TensorFlow.

    ``arguments``: the class ``application``, side, and what that class takes itself: MobileNet's ``alpha``.
    """
    import keras

    own = {key: value for key, value in arguments.items() if key not in ("application", "side")}
    application = getattr(keras.applications, arguments["application"])
    side = arguments["side"]
    return application(weights=None, classifier_activation=None, input_shape=(side, side, 3), **own)
