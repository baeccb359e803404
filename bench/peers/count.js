// Node over a usage log, JSON.parse on each line: node count.js FILE
"use strict";
const { createReadStream } = require("node:fs");
const { createInterface } = require("node:readline");

async function main() {
  let events = 0;
  const uses = new Map();
  const stream = createReadStream(process.argv[2], { highWaterMark: 1 << 20 });
  for await (const line of createInterface({ input: stream, crlfDelay: Infinity })) {
    const event = JSON.parse(line);
    events += 1;
    if (event.event !== "use") continue;
    for (const record of event.records) {
      const key = `${record.kind}/${record.slug}`;
      uses.set(key, (uses.get(key) ?? 0) + 1);
    }
  }
  const total = [...uses.values()].reduce((sum, count) => sum + count, 0);
  console.log(JSON.stringify({ events, uses: total }));
}

main();
