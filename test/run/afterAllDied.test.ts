/**
 * All processes of an installation with webhooks have died: what the cluster may still do, and how the next start goes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import type { Unstored } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, "dist/bundle/program/main.js");
const pods = builtin.Pod;
const queues: Resource = { group: "scheduling.run.ai", version: "v2", plural: "queues" };
const defaultQueue = { ...queues, namespace: "", name: "default-queue" };

let server: ApiServer;
let kube: KubeApi;
let folder: string;
let child: ChildProcess;

beforeAll(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom() });
  kube = inProcessKube(server.core, { user: { username: "admin", groups: ["system:masters"] }, fieldManager: "test" });
  folder = mkdtempSync(join(tmpdir(), "muster-died-"));
  writeFileSync(join(folder, "kubeconfig"), server.kubeconfig);
});
afterAll(async () => {
  child.kill("SIGKILL");
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Resolves when the process is ready, with what it logged when it ended before. */
async function start(): Promise<string> {
  const flags = ["--install", "--status-address", "127.0.0.1:0", "--kubeconfig", join(folder, "kubeconfig")];
  const webhooks = ["--webhook-host", "127.0.0.1", "--webhook-address", "127.0.0.1:0"];
  child = spawn(process.execPath, [program, "run", ...flags, ...webhooks, "-o", "json"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let logged = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    logged += chunk.toString();
  });
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const ended = once(child, "exit").then(() => `ended: ${logged}`);
  return Promise.race([once(lines, "line").then(() => "ready"), ended]);
}

async function die(): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

function pod(name: string, annotations: Record<string, string>): Unstored {
  const metadata = { name, namespace: "default", annotations, finalizers: ["batch.kubernetes.io/job-tracking"] };
  const spec = { schedulerName: "kai-scheduler", containers: [{ name: "c", image: "i" }] };
  return { apiVersion: "v1", kind: "Pod", metadata, spec };
}

const said = (outcome: { ok: boolean; message?: string }): string | undefined =>
  outcome.ok ? "accepted" : outcome.message;

describe("when the only process with webhooks was killed", () => {
  beforeAll(async () => {
    expect(await start()).toBe("ready");
    expect(said(await kube.create(pods, pod("works", { "gpu-fraction": "0.5" })))).toBe("accepted");
    expect(said(await kube.create(pods, pod("finishes", { "gpu-fraction": "0.5" })))).toBe("accepted");
    // What the next start has to make is judged by the webhooks that this one leaves behind.
    expect(said(await kube.delete(defaultQueue))).toBe("accepted");
    await die();
  });

  test("a pod that asks for a share is refused, with the name of the webhook", async () => {
    const outcome = await kube.create(pods, pod("late", { "gpu-fraction": "0.5" }));
    expect(said(outcome)).toMatch(/failed calling webhook "shares\./);
  });

  test("labels of a pod can be written", async () => {
    const ref = { ...pods, namespace: "default", name: "works" };
    const outcome = await kube.patch(ref, { type: "merge", body: { metadata: { labels: { a: "b" } } } });
    expect(said(outcome)).toBe("accepted");
  });

  test("a share of a pod cannot be changed", async () => {
    const ref = { ...pods, namespace: "default", name: "works" };
    const body = { metadata: { annotations: { "gpu-fraction": "1.5" } } };
    expect(said(await kube.patch(ref, { type: "merge", body }))).toMatch(/failed calling webhook "shares\./);
  });

  test("a finalizer can be taken off a pod, so Jobs finish and pods go", async () => {
    const ref = { ...pods, namespace: "default", name: "finishes" };
    expect(said(await kube.delete(ref, { gracePeriodSeconds: 0 }))).toBe("accepted");
    const outcome = await kube.patch(ref, { type: "merge", body: { metadata: { finalizers: null } } });
    expect(said(outcome)).toBe("accepted");
    expect(await kube.get(ref)).toMatchObject({ ok: false, reason: "NotFound" });
  });

  test("a new process starts, makes what is missing, and answers", async () => {
    expect(await start()).toBe("ready");
    expect(await kube.get(defaultQueue)).toMatchObject({ ok: true });
    const outcome = await kube.create(pods, pod("much", { "gpu-fraction": "1.5" }));
    expect(said(outcome)).toMatch(/denied the request: metadata\.annotations\[gpu-fraction\]: Invalid value/);
    expect(outcome).toMatchObject({
      status: { details: { kind: "Pod", causes: [{ field: "metadata.annotations[gpu-fraction]" }] } },
    });
    const [cause] = outcome.ok ? [] : (outcome.status?.details?.causes ?? []);
    expect(cause?.message).toMatch(/^Invalid value: "1.5"/);
  });
});
