"""TensorFlow Lite: one flat file, run by LiteRT, which is what Google calls its runtime now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import ConversionError, InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.base import Format, Predict, Settings
from inferbench_tasks.formats.savedmodel import SIGNATURE


class TfliteFormat(Format):
    """Made by TensorFlow's own converter, of its built-in operators only. fp16: weights in half precision, which are
    computed with in fp32.
    """

    kind = "tflite"
    title = "TensorFlow Lite"
    extra = "tflite"
    packages = ("ai-edge-litert", "tensorflow")
    file = "model.tflite"
    sources = {"savedmodel": ("fp32", "fp16")}
    devices = ("cpu",)

    def open(self, model: ModelArtifact) -> Predict:
        require("tflite")
        from inferbench_tasks.formats.tflite_runner import TfliteRunner

        try:
            return TfliteRunner(model.path, 1, [spec.name for spec in model.outputs]).run
        except (ValueError, RuntimeError) as error:
            raise InputError(f"The TFLite model {model.path} can't be loaded: {error}") from error

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        require("tensorflow")
        import tensorflow as tf

        # Not from_saved_model: Keras 3's variables become TFLite's there, which nothing fills, and answers are noise.
        # Of a function they become constants.
        loaded: Any = tf.saved_model.load(source.path)
        function = loaded.signatures[SIGNATURE]
        converter: Any = tf.lite.TFLiteConverter.from_concrete_functions([function], loaded)
        if settings.precision == "fp16":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.target_spec.supported_types = [tf.float16]
        try:
            content = converter.convert()
        except Exception as error:  # whatever the compiler behind it raises
            text = " ".join(str(error).split())[:500]
            raise ConversionError(
                f"TensorFlow's converter makes no TFLite file of {source.name}: {text}"
            ) from error
        (folder / self.file).write_bytes(content)
