"""polars over a usage log: python polars_count.py FILE."""

import json
import sys

import polars as pl

RECORD = pl.Struct(
    {
        "kind": pl.String,
        "slug": pl.String,
        "file_bytes": pl.UInt64,
        "file_tokens_estimate": pl.UInt64,
        "injected_bytes": pl.UInt64,
        "injected_tokens_estimate": pl.UInt64,
    }
)
SCHEMA = {
    "id": pl.String,
    "occurred_at": pl.String,
    "session_id": pl.String,
    "event": pl.String,
    "source": pl.String,
    "actor": pl.String,
    "tokenizer": pl.String,
    "records": pl.List(RECORD),
}

is_use = pl.col("event") == "use"
counted = (
    pl.scan_ndjson(sys.argv[1], schema=SCHEMA)
    .with_row_index("line")
    .select("line", "event", "occurred_at", "records")
    .explode("records")
    .with_columns(first=pl.col("line") != pl.col("line").shift(1, fill_value=-1))
    .unnest("records")
    .group_by("kind", "slug")
    .agg(
        is_use.sum().alias("uses"),
        pl.col("first").sum().alias("events"),
        pl.col("occurred_at").max().alias("latest"),
        pl.col("file_tokens_estimate").filter(~is_use).sum().alias("tokens"),
    )
    .collect()
)
print(json.dumps({"events": int(counted["events"].sum()), "uses": int(counted["uses"].sum())}))
