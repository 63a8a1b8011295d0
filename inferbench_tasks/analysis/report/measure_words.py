"""How a measure of answers is called in tables, and how it is written there."""

from __future__ import annotations

from typing import Any

#: The measures in the order in which they are shown, with their heads; others follow by their names.
HEADS = {
    "top1_ratio": "top-1",
    "top5_ratio": "top-5",
    "macro_f1": "macro F1",
    "own_decision_ratio": "by the model's own rule",
    "auc": "AUC",
    "agreement_ratio": "agreement with source",
    "cosine_to_source": "cosine to source",
    "neighbours_spearman": "Spearman of neighbours, to source",
    "largest_difference_ratio": "largest difference from source",
    "target_spearman": "Spearman of targets",
    "exact_match_ratio": "exact match",
    "answer_f1": "F1 of answers",
    "word_error_ratio": "word error rate",
    "character_error_ratio": "character error rate",
    "psnr_db": "PSNR, dB",
    "ssim": "SSIM",
    "mean_iou": "mean IoU",
    "average_precision": "AP, IoU 0.50 to 0.95",
    "average_precision_50": "AP, IoU 0.50",
    "average_precision_small": "AP of small objects",
    "average_precision_medium": "AP of medium objects",
    "average_precision_large": "AP of large objects",
}


def measure_text(name: str, quality: dict[str, Any] | None) -> str:
    """A measure of answers with its 95% interval, as tables have it; ``–`` where there is none."""
    if quality is None:
        return "–"
    form = "{:.2%}" if name.endswith("_ratio") else "{:.4f}"
    if name == "largest_difference_ratio":
        form = "{:.3g}"
    ends = quality.get("ci95")
    return form.format(quality["value"]) + (
        f" ({form.format(ends[0])} to {form.format(ends[1])})" if ends else ""
    )
