"""The usage log on disk: append, read, seal. Knows nothing of OpenTelemetry.

``LogWriter`` appends whole lines; ``open_logs`` and ``open_segments`` read them back, damaged or not;
``segments`` names the files that make up one log.
"""

from memtally.ledger.layout import CACHE_FOLDER, DIRECTORY, LOG_FILE, ensure_directory, segments
from memtally.ledger.reader import OpenLogs, ReadCounts, open_logs, open_segments, read_events, read_logs
from memtally.ledger.writer import LogWriter

__all__ = [
    "CACHE_FOLDER",
    "DIRECTORY",
    "LOG_FILE",
    "LogWriter",
    "OpenLogs",
    "ReadCounts",
    "ensure_directory",
    "open_logs",
    "open_segments",
    "read_events",
    "read_logs",
    "segments",
]
