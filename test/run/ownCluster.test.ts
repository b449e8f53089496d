/**
 * The controllers on a foreign cluster: a server that knows nothing of them, nodes that are another process, and the
 * rights that deploy/muster.yaml gives and no others.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { applyManifest } from "../../src/cli/cluster/applyManifests.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject, Unstored } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, "dist/bundle/program/main.js");
const pods = builtin.Pod;
const queues: Resource = { group: "scheduling.run.ai", version: "v2", plural: "queues" };
const sets: Resource = { group: "grove.io", version: "v1alpha1", plural: "podcliquesets" };
const roles = builtin.Role;
const account = "system:serviceaccount:muster-system:muster";

let server: ApiServer;
let kube: KubeApi;
let folder: string;
const children: ChildProcess[] = [];
/** What the controllers logged, which must never be that they may not do something. */
let logged = "";

beforeAll(async () => {
  const tokenFile = `robot,${account},robot,"system:serviceaccounts,system:serviceaccounts:muster-system,system:authenticated"`;
  server = await startApiServer({ clock: systemClock(), random: systemRandom(), tokenFile });
  kube = inProcessKube(server.core, { user: { username: "admin", groups: ["system:masters"] }, fieldManager: "test" });
  folder = mkdtempSync(join(tmpdir(), "muster-own-"));
  writeFileSync(join(folder, "admin"), server.kubeconfig);
  const config = parse(server.kubeconfig) as { users: { user: unknown }[] };
  for (const each of config.users) each.user = { token: "robot" };
  writeFileSync(join(folder, "robot"), stringify(config));
  expect(await apply("deploy/muster.yaml")).toBeGreaterThan(40);
  await start("nodes", "sim", "--pool", "h100=2", "--kubeconfig", join(folder, "admin"));
  await start(
    ...[
      "run",
      "--installed",
      "--leader-elect",
      "--lease-namespace",
      "muster-system",
      "--status-address",
      "127.0.0.1:0",
    ],
    ...["--webhook-host", "127.0.0.1", "--webhook-address", "127.0.0.1:0", "--kubeconfig", join(folder, "robot")],
  );
});
afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const apply = (file: string): Promise<number> => applyManifest(kube, server.core.registry, join(root, file));

async function start(...flags: string[]): Promise<void> {
  const child = spawn(process.execPath, [program, ...flags, "-o", "json"], { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  child.stderr.on("data", (chunk: Buffer) => {
    logged += chunk.toString();
  });
  const ended = once(child, "exit").then(() => {
    throw new Error(`it ended before it was ready: ${logged}`);
  });
  ended.catch(() => {});
  await Promise.race([once(createInterface({ input: child.stdout }), "line"), ended]);
}

/** Waits on the world, not on the clock: the server's own events decide. */
function until(holds: () => Promise<boolean>): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      holds().then((does) => (does ? resolve() : setTimeout(look, 50)), reject);
    };
    look();
  });
}

async function listed<T>(ref: Resource, namespace = "default"): Promise<T[]> {
  const answer = await kube.list(ref, { namespace });
  if (!answer.ok) throw new Error(answer.message);
  return answer.value.items as unknown as T[];
}

function hasLabels({ metadata }: KubeObject, wanted: Record<string, string>): boolean {
  return Object.entries(wanted).every(([key, value]) => metadata.labels?.[key] === value);
}

function object(apiVersion: string, kind: string, name: string, rest: object): Unstored {
  return { apiVersion, kind, metadata: { name }, ...rest };
}

describe("on a cluster that knows nothing of them, with the rights of deploy/muster.yaml", () => {
  test("two halves of a GPU run, and the webhook gave them their ConfigMaps", async () => {
    await apply("examples/kai/10-queues.yaml");
    await apply("examples/kai/20-half-a-gpu.yaml");
    await until(async () => {
      const all = await listed<Pod>(pods);
      return all.length === 2 && all.every(({ status }) => status?.phase === "Running");
    });
    const [one] = await listed<Pod>(pods);
    expect(one?.spec?.volumes?.some(({ configMap }) => configMap !== undefined)).toBe(true);
    expect(logged).not.toMatch(/forbidden/i);
  });

  test("a PodCliqueSet gets its defaults by webhook and all of its pods", async () => {
    const container = { name: "c", image: "registry.example.com/serve:1" };
    const target = { type: "Utilization", averageUtilization: 80 };
    const metrics = [{ type: "Resource", resource: { name: "cpu", target } }];
    const scaling = { autoScalingConfig: { minReplicas: 2, maxReplicas: 3, metrics } };
    const clique = (name: string): object => ({
      name,
      spec: {
        ...scaling,
        roleName: name,
        replicas: 2,
        podSpec: { schedulerName: "kai-scheduler", containers: [container] },
      },
    });
    const labels = { "kai.scheduler/queue": "team-vision" };
    const set = object("grove.io/v1alpha1", "PodCliqueSet", "pair", {
      metadata: { name: "pair", namespace: "default", labels, annotations: labels },
      spec: { replicas: 1, template: { cliques: [clique("a"), clique("b")] } },
    });
    const made = await kube.create(sets, set);
    expect(made).toMatchObject({ ok: true, value: { spec: { template: { terminationDelay: "4h0m0s" } } } });
    await until(async () => {
      const ofSet = (await listed<Pod>(pods)).filter(({ metadata }) => metadata.name.startsWith("pair-"));
      return ofSet.length === 4 && ofSet.every(({ status }) => status?.phase === "Running");
    });
    const gang = { "app.kubernetes.io/part-of": "pair" };
    await until(async () => (await listed<KubeObject>(roles)).some((role) => hasLabels(role, gang)));
    const now = await kube.get({ ...sets, namespace: "default", name: "pair" });
    expect(now.ok ? (now.value["status"] as { lastErrors?: unknown }).lastErrors : now).toBeUndefined();
    await kube.delete({ ...sets, namespace: "default", name: "pair" });
    await until(async () => (await listed(sets)).length === 0);
    expect(logged).not.toMatch(/forbidden/i);
  });

  test("a set whose pods share devices gets its role and all of its pods", async () => {
    await apply("examples/gangs/resource-sharing.yaml");
    await until(async () => {
      const all = await listed<Pod>(pods);
      return all.filter(({ metadata }) => metadata.name.startsWith("rs-test-")).length === 3;
    });
    const now = await kube.get({ ...sets, namespace: "default", name: "rs-test" });
    expect(now.ok ? (now.value["status"] as { lastErrors?: unknown }).lastErrors : now).toBeUndefined();
    await kube.delete({ ...sets, namespace: "default", name: "rs-test" });
    await until(async () => (await listed(sets)).length === 0);
    expect(logged).not.toMatch(/forbidden/i);
  });

  test.each([
    [
      "a queue without resources",
      () => kube.create(queues, object("scheduling.run.ai/v2", "Queue", "empty", { spec: {} })),
      /queues\.validate\.scheduling\.muster\.dev.*resources/,
    ],
    [
      "the deletion of a queue with children",
      () => kube.delete({ ...queues, namespace: "", name: "research" }),
      /queues\.validate\.scheduling\.muster\.dev.*team-vision/,
    ],
    [
      "a share above one",
      () => {
        const metadata = { name: "much", namespace: "default", annotations: { "gpu-fraction": "1.5" } };
        const spec = { schedulerName: "kai-scheduler", containers: [{ name: "c", image: "i" }] };
        return kube.create(pods, object("v1", "Pod", "much", { metadata, spec }));
      },
      /shares\.validate\.bind\.muster\.dev.*below 1\.0/,
    ],
  ])("%s is refused by webhook", async (_, write, message) => {
    const outcome = await write();
    expect(outcome.ok ? "accepted" : outcome.message).toMatch(message);
  });

  test("pods of the cluster's own scheduler are left to it", async () => {
    const spec = { containers: [{ name: "c", image: "i" }] };
    const plain = object("v1", "Pod", "plain", { metadata: { name: "plain", namespace: "default" }, spec });
    expect(await kube.create(pods, plain)).toMatchObject({ ok: true });
    const labels = { "kai.scheduler/queue": "team-vision" };
    const after = object("v1", "Pod", "after", {
      metadata: { name: "after", namespace: "default", labels },
      spec: { ...spec, schedulerName: "kai-scheduler" },
    });
    expect(await kube.create(pods, after)).toMatchObject({ ok: true });
    const nodeOf = async (name: string): Promise<string | undefined> => {
      const found = await kube.get({ ...pods, namespace: "default", name });
      return found.ok ? (found.value as unknown as Pod).spec?.nodeName : undefined;
    };
    await until(async () => (await nodeOf("after")) !== undefined);
    expect(await nodeOf("plain")).toBeUndefined();
  });
});
