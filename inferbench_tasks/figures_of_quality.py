"""The rows of the table of figures that say how right answers are; runs without ``evaluate`` have none of them.

Each is the measure of the same name (``quality/``); ``docs/explanation/answers.md`` says how it is made.
"""

from __future__ import annotations

from inferbench_tasks.figure import Better, Figure, View


def _quality(
    name: str,
    title: str,
    noun: str,
    formula: str,
    held: int | None = None,
    views: tuple[View, ...] = ("report",),
    better: Better = "higher",
    unit: str = "1",
    least: float | None = 0.0,
    *,
    above_one: bool = False,
) -> Figure:
    """``unit``: the one that people read; of what is read in "%" 1 is stored for 100%."""
    percent = unit == "%"
    return Figure(
        name, f"quality.{name}.value", "1" if percent else unit, title, better,
        f"{formula}; over the samples of `evaluate`, asked under load", noun=noun,
        display_unit="%" if percent else None, display_factor=100.0 if percent else 1.0, above_one=above_one,
        interval=f"quality.{name}.ci95", held=held, worsens=False, rate_free=True, views=views, evaluated=True,
        least=least,
    )  # fmt: skip


QUALITY_FIGURES: tuple[Figure, ...] = (
    _quality(
        "top1_ratio", "Top-1 accuracy", "top-1", "samples whose answer names their label / samples", 23,
        ("report", "terminal"), unit="%",
    ),
    _quality(
        "top5_ratio", "Top-5 accuracy", "top-5", "samples whose label has one of the five largest scores / samples", 24,
        unit="%",
    ),
    _quality("macro_f1", "Macro F1", "macro F1", "mean over classes of 2 TP / (2 TP + FP + FN)", 25),
    _quality(
        "auc", "AUC, one against the rest", "AUC",
        "mean over classes of P(a sample of the class has a larger score for it than another one)", 26,
    ),
    _quality(
        "agreement_ratio", "Agreement with the source model", "agreement",
        "samples for which answer and source model's name the same class / samples (answers that are classes)", 27,
        unit="%",
    ),
    _quality(
        "cosine_to_source", "Cosine similarity to the source model's vectors", "cosine to source",
        "mean over samples of a . b / (|a| |b|), a: answer, b: source model's (answers that are vectors)", 32,
        least=None,
    ),
    _quality(
        "neighbours_spearman", "Order of similarities as the source model's", "Spearman of neighbours",
        "Spearman's rho of the cosines of each sample with the next, as answered and as the source model has them",
        33, least=None,
    ),
    _quality(
        "largest_difference_ratio", "Largest difference from the source model", "difference from source",
        "max |answer - source model's| / max |source model's| (answers that are no classes and no vectors)", 34,
        better="lower",
    ),
    _quality(
        "target_spearman", "Spearman's rank correlation with the targets", "Spearman of targets",
        "correlation of the ranks of answers and targets (answers that are one number)", 35,
        least=None,
    ),
    _quality(
        "exact_match_ratio", "Exact match of answers", "exact match",
        "samples whose answer, normalised as SQuAD does, is one of the right ones / samples", 36,
        unit="%",
    ),
    _quality(
        "answer_f1", "F1 of the answers' words", "answer F1",
        "mean of the best over right answers of 2 c / (words of answer + of right), c: common words", 37,
    ),
    _quality(
        "word_error_ratio", "Word error rate", "word errors",
        "insertions, deletions and replacements of words / words of the right texts", 38, better="lower",
        unit="%", above_one=True,
    ),
    _quality(
        "character_error_ratio", "Character error rate", "character errors",
        "insertions, deletions and replacements of characters / characters of the right texts", 39, better="lower",
        unit="%", above_one=True,
    ),
    _quality(
        "psnr_db", "Peak signal-to-noise ratio", "PSNR",
        "mean over pictures of 10 log10(peak^2 / mean squared error), at most 100 dB", 40, unit="dB",
        least=None,
    ),
    _quality(
        "ssim", "Structural similarity", "SSIM", "mean over pictures of the index of Z. Wang et al., 2004", 41,
        least=None,
    ),
    _quality(
        "mean_iou", "Mean intersection over union", "mean IoU",
        "mean over classes of pixels that both answer and mask name / pixels that either names", 42,
    ),
    _quality(
        "own_decision_ratio", "Right by the model's own rule", "own decision",
        "samples for which the maker's rule (least scores, classes said as others) says their label / samples", 48,
        unit="%",
    ),
    _quality(
        "average_precision", "COCO's average precision", "AP",
        "mean over classes, ten IoU from 0.50 to 0.95 and 101 recalls of the largest precision at that recall or more",
        43,
    ),
    _quality(
        "average_precision_50", "Average precision at IoU 0.50", "AP50",
        "mean over classes and 101 recalls of the largest precision at that recall or more, found: IoU >= 0.50", 44,
    ),
    _quality(
        "average_precision_small", "COCO's average precision of small objects", "AP, small",
        "average precision over the ten IoU, of objects with an area of up to 32 x 32 pixels of their picture", 45,
    ),
    _quality(
        "average_precision_medium", "COCO's average precision of medium objects", "AP, medium",
        "average precision over the ten IoU, of objects with an area from 32 x 32 to 96 x 96 pixels", 46,
    ),
    _quality(
        "average_precision_large", "COCO's average precision of large objects", "AP, large",
        "average precision over the ten IoU, of objects with an area from 96 x 96 pixels of their picture on", 47,
    ),
)  # fmt: skip
