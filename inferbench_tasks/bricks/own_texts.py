"""Texts of a model's own among its operators' attributes: patterns, words, file names, notes."""

from __future__ import annotations

import onnx_ir as ir

from inferbench_tasks.errors import InputError

#: Whose operators' settings are known: ONNX's and the runtime's.
_DOMAINS = {"", "ai.onnx", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"}
#: What these operators call the texts that are one of a few words, or, of a product, letters for its axes.
_SETTINGS = {
    "activation", "activation_type", "activations", "approximate", "attention_mode", "auto_pad",
    "auxiliary_cache_layout", "beta_activation", "case_change_action", "coordinate_transformation_mode",
    "direction", "equation", "gate_activation", "k_cache_dtype", "k_quant_type", "keep_aspect_ratio_policy",
    "kv_cache_layout", "metric", "mode", "nearest_mode", "padding_mode", "pixel_format", "policy_mode",
    "quant_type", "reduction", "round_mode", "selected_kv_source", "to", "update_rule", "v_cache_dtype",
    "v_quant_type",
}  # fmt: skip
_TEXTS = (ir.AttributeType.STRING, ir.AttributeType.STRINGS)


def refuse_own_texts(node: ir.Node) -> None:
    """InputError where an operator has a text in its attributes that is no known setting."""
    for attribute in node.attributes.values():
        known = node.domain in _DOMAINS and attribute.name in _SETTINGS
        text = attribute.type in _TEXTS and not known
        if text or (
            attribute.type == ir.AttributeType.TENSOR and attribute.value.dtype == ir.DataType.STRING
        ):
            raise InputError("a layer has a text in its attributes, which is the model's own", field="model")
