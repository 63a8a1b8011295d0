"""TensorFlow SavedModel with one signature, ``serving_default``, whose names are the model's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.base import Format, Predict, Settings

SIGNATURE = "serving_default"


class SavedModelFormat(Format):
    """SavedModels, run by TensorFlow."""

    kind = "savedmodel"
    title = "TensorFlow SavedModel"
    extra = "tensorflow"
    packages = ("tensorflow", "keras")
    file = "model"
    sources = {"keras": ("fp32",)}

    def open(self, model: ModelArtifact) -> Predict:
        loaded, call = load(Path(model.path))
        import tensorflow as tf

        def predict(arrays: Arrays) -> Arrays:
            answer = call(**{spec.name: tf.constant(arrays[spec.name]) for spec in model.inputs})
            return {spec.name: answer[spec.name].numpy() for spec in model.outputs}

        predict.keep = loaded  # type: ignore[attr-defined]  # a signature holds its variables weakly
        return predict

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        from inferbench_tasks.formats import keras as keras_format

        network = keras_format.load(Path(source.path))
        import tensorflow as tf

        def serve(**tensors: Any) -> dict[str, Any]:
            values = [tensors[spec.name] for spec in source.inputs]
            answer = network(values[0] if len(values) == 1 else values, training=False)
            parts = answer if isinstance(answer, (list, tuple)) else [answer]
            return {spec.name: part for spec, part in zip(source.outputs, parts, strict=True)}

        holder = tf.Module()
        holder.network = network
        signature = tf.function(serve).get_concrete_function(
            **{s.name: tensor_spec(s) for s in source.inputs}
        )
        tf.saved_model.save(holder, str(folder / self.file), signatures={SIGNATURE: signature})


def tensor_spec(spec: TensorSpec) -> Any:
    """TensorFlow's word for an input; dynamic batch."""
    import tensorflow as tf

    sizes = [None if size == -1 else size for size in spec.shape]
    return tf.TensorSpec([None, *sizes], tf.as_dtype(spec.dtype), name=spec.name)


def load(folder: Path) -> tuple[Any, Any]:
    """The loaded model, to be kept, and its signature. InputError where it is damaged or has none."""
    require("tensorflow")
    import tensorflow as tf

    try:
        loaded = tf.saved_model.load(str(folder))
    except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
        raise InputError(f"The SavedModel {folder} can't be loaded: {error}") from error
    if SIGNATURE not in loaded.signatures:
        known = ", ".join(loaded.signatures) or "none"
        raise InputError(f"The SavedModel {folder} has no signature {SIGNATURE}; it has {known}")
    return loaded, loaded.signatures[SIGNATURE]
