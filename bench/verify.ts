import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { VerifyResult } from "../src/decide/verify/verifyResult.ts";
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
    await server.send({ do: "fillNodes", count: Math.ceil(size / podsPerNode) });
    await server.send({ do: "fillPods", count: size, perNode: podsPerNode });
    // The program that runs us: where its parts lie differs between compiled and joined files.
    const args = [process.argv[1] ?? "", "verify", "--kubeconfig", file, "--settle", "0", "-o", "json"];
    const peer = `kubectl --kubeconfig "$1" get pods -A -o json | jq "$2"`;
    const ours: Timed[] = [];
    const inside: number[] = [];
    const theirs: Timed[] = [];
    // Alternating, so that other load of the machine falls on both.
    for (let round = 0; round < roundsOf(size); round++) {
      const run = await timed(`"$@"`, [process.execPath, ...args]);
      const result = JSON.parse(run.out) as VerifyResult;
      if (result.verdict !== "pass" || result.counts?.total !== size) throw new Error(`verify said ${result.verdict}`);
      ours.push(run);
      inside.push(result.wallMs);
      if (hasPeer) theirs.push(await timed(peer, [file, jqProgram]));
    }
    const median = (runs: readonly Timed[], of: "ms" | "cpuMs"): number =>
      percentile(
        runs.map((run) => run[of]),
        0.5,
      );
    const [oursMs, peerMs] = [median(ours, "ms"), median(theirs, "ms")];
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
      {
        name: `verify ${name}, processor time of the client`,
        value: median(ours, "cpuMs"),
        unit: "ms",
        ...(hasPeer ? { beside: { name: "kubectl and jq", value: median(theirs, "cpuMs") } } : {}),
      },
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
    await server.send({ do: "stop" }).catch(() => {});
    server.kill();
  }
}

interface Timed {
  readonly ms: number;
  /** Of all processes that were run, whatever else the machine did meanwhile. */
  readonly cpuMs: number;
  readonly out: string;
}

/** Runs a script of the shell, which knows the processor time of its children. */
function timed(script: string, args: readonly string[]): Promise<Timed> {
  return new Promise((resolve, reject) => {
    const startedMs = performance.now();
    const counting = `${script}\ncode=$?; times >&2; exit $code`;
    const child = spawn("sh", ["-c", counting, "sh", ...args], { stdio: ["ignore", "pipe", "pipe"] });
    const out: Buffer[] = [];
    let err = "";
    child.stdout.on("data", (piece: Buffer) => out.push(piece));
    child.stderr.on("data", (piece: Buffer) => {
      err += piece.toString("utf8");
    });
    child.on("error", reject);
    child.on("close", (code) => {
      const ms = performance.now() - startedMs;
      if (code === 0) resolve({ ms, cpuMs: childrenMs(err), out: Buffer.concat(out).toString("utf8") });
      else reject(new Error(`${script} ended with ${code}: ${err.slice(0, 500)}`));
    });
  });
}

/** The last line of `times`: user and system time of the children, as `0m1.230s 0m0.120s`. */
function childrenMs(text: string): number {
  const last = text.trimEnd().split("\n").at(-1) ?? "";
  let ms = 0;
  for (const [, minutes = "0", seconds = "0"] of last.matchAll(/([0-9]+)m([0-9.]+)s/g)) {
    ms += Number(minutes) * 60_000 + Number(seconds) * 1000;
  }
  return ms;
}
