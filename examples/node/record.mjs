// Record from Node, or any language that can start a process: JSON lines to one `memtally add`, in the background.
// Nothing here throws into the application, and nothing waits for it but its own end.
import { spawn } from "node:child_process";

export class Recorder {
  #queue = [];
  #running = null;

  constructor({ command = process.env.MEMTALLY ?? "memtally", workspace = process.cwd(), session = null } = {}) {
    this.command = command;
    this.workspace = workspace;
    this.session = session;
    this.failed = 0;
  }

  /** A record was read into a context. `id`: the host's own id of the read, which counts once. */
  use(kind, slug, { source = "MemoryRead", id, bytes = null, actor } = {}) {
    this.#queue.push({
      kind_of: "use",
      line: {
        source,
        session_id: this.session,
        host: "node-example",
        ...(id && { id }),
        ...(actor && { actor }),
        occurred_at: new Date().toISOString(),
        records: [{ kind, slug, file_bytes: bytes }],
      },
    });
    this.#running ??= this.#run();
  }

  /** All that was recorded so far is in the log, or counted in `failed`. */
  async settled() {
    while (this.#running) await this.#running;
  }

  async #run() {
    await null; // what is recorded in the same turn goes in one append
    while (this.#queue.length) {
      const batch = this.#queue.splice(0);
      if (!(await this.#append(batch.map(({ line }) => JSON.stringify(line)).join("\n")))) this.failed += batch.length;
    }
    this.#running = null;
  }

  #append(lines) {
    return new Promise((resolve) => {
      const child = spawn(this.command, ["add", "use", "--workspace", this.workspace], {
        stdio: ["pipe", "ignore", "ignore"],
      });
      child.on("error", () => resolve(false));
      child.on("close", (code) => resolve(code === 0));
      child.stdin.on("error", () => {}); // it has ended before it read all: its exit code says so
      child.stdin.end(lines + "\n");
    });
  }
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const recorder = new Recorder({ session: "node-1" });
  for (let read = 0; read < 3; read++) recorder.use("decision", "adopt-otlp", { bytes: 40 });
  recorder.use("skill", "pdf", { source: "SkillInvoke", id: "call-7" });
  recorder.use("skill", "pdf", { source: "SkillInvoke", id: "call-7" }); // counts once
  await recorder.settled();
  console.log(`failed: ${recorder.failed}`);
}
