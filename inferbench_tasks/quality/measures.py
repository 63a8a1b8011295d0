"""Which measures there are. Who only checks a submission reads their names, and no numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferbench_tasks.registry import Registry

if TYPE_CHECKING:
    from inferbench_tasks.quality.base import Measure

MEASURES: Registry[type[Measure]] = Registry(
    "measure of quality",
    "inferbench.quality",
    {
        "top1_ratio": "inferbench_tasks.quality.top_k:Top1",
        "top5_ratio": "inferbench_tasks.quality.top_k:Top5",
        "macro_f1": "inferbench_tasks.quality.macro_f1:MacroF1",
        "own_decision_ratio": "inferbench_tasks.quality.own_decision:OwnDecision",
        "auc": "inferbench_tasks.quality.auc:Auc",
        "agreement_ratio": "inferbench_tasks.quality.agreement:Agreement",
        "cosine_to_source": "inferbench_tasks.quality.cosine:CosineToSource",
        "neighbours_spearman": "inferbench_tasks.quality.neighbours:Neighbours",
        "largest_difference_ratio": "inferbench_tasks.quality.largest_difference:LargestDifference",
        "target_spearman": "inferbench_tasks.quality.target_spearman:TargetSpearman",
        "exact_match_ratio": "inferbench_tasks.quality.squad:ExactMatch",
        "answer_f1": "inferbench_tasks.quality.squad:AnswerF1",
        "word_error_ratio": "inferbench_tasks.quality.error_rates:WordErrors",
        "character_error_ratio": "inferbench_tasks.quality.error_rates:CharacterErrors",
        "psnr_db": "inferbench_tasks.quality.pictures:Psnr",
        "ssim": "inferbench_tasks.quality.pictures:Ssim",
        "mean_iou": "inferbench_tasks.quality.mean_iou:MeanIou",
        "average_precision": "inferbench_tasks.quality.average_precision:AveragePrecision",
        "average_precision_50": "inferbench_tasks.quality.average_precision:AveragePrecision50",
        "average_precision_small": "inferbench_tasks.quality.average_precision:AveragePrecisionSmall",
        "average_precision_medium": "inferbench_tasks.quality.average_precision:AveragePrecisionMedium",
        "average_precision_large": "inferbench_tasks.quality.average_precision:AveragePrecisionLarge",
    },
)
