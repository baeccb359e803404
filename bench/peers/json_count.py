"""The standard library's json, one line after the other: python json_count.py FILE."""

import json
import sys
from collections import Counter

events = 0
uses: Counter[tuple[str, str]] = Counter()
with open(sys.argv[1], "rb") as stream:
    for line in stream:
        event = json.loads(line)
        events += 1
        if event["event"] == "use":
            uses.update((record["kind"], record["slug"]) for record in event["records"])
print(json.dumps({"events": events, "uses": uses.total()}))
