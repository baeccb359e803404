"""OpenTelemetry names: the scope, the event names and the attributes that memtally emits.

Own names live under ``memtally.``; the conventions' own attributes are used where one exists.
Source: OpenTelemetry semantic conventions (general, session, GenAI).
"""

from __future__ import annotations

from memtally._version import __version__

SCOPE_NAME = "memtally"
SCOPE_VERSION = __version__
SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0"

EVENT_NAMES = {"use": "memtally.use", "resident_exposure": "memtally.resident_exposure"}

LOG_RECORD_UID = "log.record.uid"
SESSION_ID = "session.id"
GEN_AI_MEMORY_RECORD_ID = "gen_ai.memory.record.id"

WORKSPACE_ID = "memtally.workspace.id"
SOURCE = "memtally.source"
ACTOR = "memtally.actor"
HOST = "memtally.host"
TOKENIZER = "memtally.tokenizer"
INPUT_TOKENS = "memtally.input_tokens"
RECORDS = "memtally.records"
