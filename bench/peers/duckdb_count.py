"""DuckDB over a usage log: python duckdb_count.py THREADS FILE."""

import json
import sys

import duckdb

QUERY = """
SELECT count(*) FILTER (event = 'use') AS uses, sum(place = 1) AS events,
       max(occurred_at) AS latest, sum(record.file_tokens_estimate) FILTER (event <> 'use') AS tokens
FROM (
  SELECT event, occurred_at, unnest(records) AS record, generate_subscripts(records, 1) AS place
  FROM read_json(
    $file, format = 'newline_delimited', ignore_errors = true,
    columns = {
      id: 'VARCHAR', occurred_at: 'VARCHAR', session_id: 'VARCHAR', event: 'VARCHAR', source: 'VARCHAR',
      actor: 'VARCHAR', tokenizer: 'VARCHAR',
      records: 'STRUCT(kind VARCHAR, slug VARCHAR, file_bytes UBIGINT, file_tokens_estimate UBIGINT,
                       injected_bytes UBIGINT, injected_tokens_estimate UBIGINT)[]'
    })
)
GROUP BY record.kind, record.slug
"""

connection = duckdb.connect(config={"threads": int(sys.argv[1])})
rows = connection.execute(QUERY, {"file": sys.argv[2]}).fetchall()
print(json.dumps({"events": int(sum(row[1] for row in rows)), "uses": sum(row[0] for row in rows)}))
