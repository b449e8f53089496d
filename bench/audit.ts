import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AuditResult } from "../src/decide/audit/auditResult.ts";
import { type Figure, percentile } from "./figure.ts";
import { ServerHandle } from "./serverHandle.ts";

const nodes = 5_000;
const podsPerNode = 10;
const rounds = 3;

/** `muster audit` as a process of its own, all checks, against a server over TLS. */
export async function* benchAudit(say: (text: string) => void): AsyncGenerator<Figure> {
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-audit-"));
  const server = new ServerHandle();
  try {
    const pods = nodes * podsPerNode;
    say(`${nodes.toLocaleString("en-US")} nodes, ${pods.toLocaleString("en-US")} pods`);
    const { kubeconfig } = await server.start({ tls: true });
    const file = join(folder, "kubeconfig");
    await writeFile(file, kubeconfig, { mode: 0o600 });
    await server.send({ do: "fillNodes", count: nodes });
    await server.send({ do: "fillPods", count: pods, perNode: podsPerNode });
    const runs: Ran[] = [];
    for (let round = 0; round < rounds; round++) {
      // The program that runs us: where its parts lie differs between compiled and joined files.
      const run = await ran([process.argv[1] ?? "", "audit", "--kubeconfig", file, "--settle", "0", "-o", "json"]);
      const { checks, snapshot } = JSON.parse(run.out) as AuditResult;
      const unknown = checks.filter(({ status }) => status === "unknown");
      if (snapshot?.counts["pods"] !== pods || unknown.length > 0) throw new Error("audit has not read the cluster");
      runs.push(run);
    }
    const median = (of: "ms" | "peakMb"): number =>
      percentile(
        runs.map((run) => run[of]),
        0.5,
      );
    const name = `audit ${nodes.toLocaleString("en-US")} nodes, ${pods.toLocaleString("en-US")} pods`;
    yield {
      name: `${name}, all checks, whole process`,
      value: median("ms"),
      unit: "ms",
      target: { at: "most", value: 5_000 },
    };
    yield { name: `${name}, peak memory`, value: median("peakMb"), unit: "MB", target: { at: "most", value: 1_500 } };
  } finally {
    await server.send({ do: "stop" }).catch(() => {});
    server.kill();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Ran {
  readonly ms: number;
  /** The largest resident memory, as the kernel counts it; zero where there is no /proc. */
  readonly peakMb: number;
  readonly out: string;
}

const pollMs = 20;

async function ran(args: readonly string[]): Promise<Ran> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const out: Buffer[] = [];
  child.stdout.on("data", (piece: Buffer) => out.push(piece));
  let peakMb = 0;
  const timer = setInterval(async () => {
    const status = await readFile(`/proc/${child.pid}/status`, "utf8").catch(() => "");
    peakMb = Math.max(peakMb, Number(/VmHWM:\s+([0-9]+) kB/.exec(status)?.[1] ?? 0) / 1024);
  }, pollMs);
  await new Promise((resolve) => child.once("close", resolve));
  clearInterval(timer);
  return { ms: performance.now() - startedMs, peakMb, out: Buffer.concat(out).toString("utf8") };
}
