"""Per-record figures from usage logs. Knows nothing of OpenTelemetry, prints nothing."""

from memtally.report.build import build_report
from memtally.report.model import Coverage, RecordUsage, Review, ReviewItem, SourceCoverage, UsageReport
from memtally.report.review import review

__all__ = [
    "Coverage",
    "RecordUsage",
    "Review",
    "ReviewItem",
    "SourceCoverage",
    "UsageReport",
    "build_report",
    "review",
]
