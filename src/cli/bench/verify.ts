import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { VerifyResult } from "../../decide/verify/verifyResult.ts";
import { type Figure, percentile } from "./figure.ts";
import { ServerHandle } from "./serverHandle.ts";

const sizes = [1_000, 10_000, 50_000];
/** As many as have a GPU each on a node of the workload. */
const podsPerNode = 8;
/** kubectl takes a minute and more for the largest. */
const roundsOf = (size: number): number => (size > 10_000 ? 1 : 3);

/** What the shell harness asks, in one pass: five counts and the distribution, of the pods alone. */
const jqProgram = `[.items[]] | {
  total: length,
  running: map(select(.status.phase == "Running")) | length,
  pending: map(select(.status.phase == "Pending")) | length,
  unscheduled: map(select(.status.phase == "Pending" and (.spec.nodeName // "") == "")) | length,
  failed: map(select(.status.phase == "Failed")) | length,
  distribution: (group_by(.spec.nodeName // "") | map({key: (.[0].spec.nodeName // "<none>"), value: length}) | from_entries)
}`;

/** `muster verify` as a process of its own beside `kubectl get -o json | jq`, both against the same server over TLS. */
export async function* benchVerify(say: (text: string) => void): AsyncGenerator<Figure> {
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-verify-"));
  const hasPeer =
    spawnSync("kubectl", ["version", "--client"]).status === 0 && spawnSync("jq", ["--version"]).status === 0;
  if (!hasPeer) say("kubectl or jq is not on the PATH: the peer is not measured");
  try {
    for (const size of sizes) {
      say(`${size.toLocaleString("en-US")} pods`);
      yield* await benchSize(size, folder, hasPeer);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function benchSize(size: number, folder: string, hasPeer: boolean): Promise<Figure[]> {
  const server = new ServerHandle();
  try {
    const { kubeconfig } = await server.start({ tls: true });
    const file = join(folder, `kubeconfig-${size}`);
    await writeFile(file, kubeconfig, { mode: 0o600 });
    await server.tell({ do: "fillNodes", count: Math.ceil(size / podsPerNode) });
    await server.tell({ do: "fillPods", count: size, perNode: podsPerNode });
    const program = fileURLToPath(new URL("../main.js", import.meta.url));
    const args = [program, "verify", "--kubeconfig", file, "--settle", "0", "-o", "json"];
    const pipeline = `kubectl --kubeconfig "$1" get pods -A -o json | jq "$2"`;
    const ours: number[] = [];
    const inside: number[] = [];
    const theirs: number[] = [];
    // In turns, so that whatever else the machine does falls on both.
    for (let round = 0; round < roundsOf(size); round++) {
      const { ms, out } = await timed(process.execPath, args);
      const result = JSON.parse(out) as VerifyResult;
      if (result.verdict !== "pass" || result.counts?.total !== size) throw new Error(`verify said ${result.verdict}`);
      ours.push(ms);
      inside.push(result.wallMs);
      if (hasPeer) theirs.push((await timed("sh", ["-c", pipeline, "sh", file, jqProgram])).ms);
    }
    const peerMs = percentile(theirs, 0.5);
    const oursMs = percentile(ours, 0.5);
    const name = `${size.toLocaleString("en-US")} pods`;
    return [
      {
        name: `verify ${name}, all default checks, whole process`,
        value: oursMs,
        unit: "ms",
        ...(size === 10_000 ? { target: { at: "most", value: 1_000 } as const } : {}),
        ...(hasPeer ? { beside: { name: "kubectl get pods -o json | jq, pods only", value: peerMs } } : {}),
      },
      { name: `verify ${name}, without the start of the process`, value: percentile(inside, 0.5), unit: "ms" },
      hasPeer
        ? {
            name: `verify ${name}, against kubectl and jq`,
            value: peerMs / oursMs,
            unit: "times faster",
            ...(size === 10_000 ? { target: { at: "least", value: 3 } as const } : {}),
          }
        : { name: `verify ${name}, against kubectl and jq: not measured`, value: 0, unit: "" },
    ];
  } finally {
    await server.tell({ do: "stop" }).catch(() => {});
    server.kill();
  }
}

function timed(command: string, args: readonly string[]): Promise<{ ms: number; out: string }> {
  return new Promise((resolve, reject) => {
    const startedMs = performance.now();
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
    const pieces: Buffer[] = [];
    child.stdout.on("data", (piece: Buffer) => pieces.push(piece));
    child.on("error", reject);
    child.on("close", (code) => {
      const out = Buffer.concat(pieces).toString("utf8");
      if (code === 0) resolve({ ms: performance.now() - startedMs, out });
      else reject(new Error(`${command} ended with ${code}: ${out.slice(0, 500)}`));
    });
  });
}
