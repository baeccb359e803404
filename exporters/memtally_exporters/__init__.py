"""OpenTelemetry exporters of memtally: the SDK on one side, the usage log on the other.

``WorkspaceLogExporter`` is what ``OTEL_LOGS_EXPORTER=memtally`` and the declarative YAML file load.
"""

from memtally_exporters.workspace_log import WorkspaceLogExporter

__all__ = ["WorkspaceLogExporter"]
