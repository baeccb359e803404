"""What of Claude Code's own settings decides about memory."""

from __future__ import annotations

import json
import os

from memtally._files import read_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["claude_settings"]

_MOST_BYTES = 4 * 1_048_576


def claude_settings(config_folder: str, root: str) -> dict[str, Any]:
    """``autoMemoryEnabled`` and ``autoMemoryDirectory``, as the user and the workspace have set them.

    The folder is the user's to name: one that a workspace from elsewhere names is not looked at.
    """
    found: dict[str, Any] = {}
    for folder, keys in (
        (config_folder, ("autoMemoryEnabled", "autoMemoryDirectory")),
        (os.path.join(root, ".claude"), ("autoMemoryEnabled",)),
    ):
        for name in ("settings.json", "settings.local.json"):
            try:
                values = json.loads(read_small(os.path.join(folder, name), _MOST_BYTES))
            except (OSError, ValueError, RecursionError):
                continue
            if isinstance(values, dict):
                found.update({key: values[key] for key in keys if key in values})
    return found
