import { Buffer } from "node:buffer";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Figure, percentile } from "./figure.ts";
import { type Peer, RawConnection } from "./rawHttp.ts";
import { ServerHandle } from "./serverHandle.ts";
import { benchPod } from "./workload.ts";

/** The figures of the embedded API server. Each group starts servers of its own and reports what it is doing. */
export async function* benchApiServer(say: (text: string) => void): AsyncGenerator<Figure> {
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-"));
  try {
    for (const [name, group] of groups) {
      say(name);
      yield* await group(folder);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const groups: [string, (folder: string) => Promise<Figure[]>][] = [
  ["start of an empty server", benchStart],
  ["reads of one object", benchGet],
  ["durable writes", benchWrites],
  ["50,000 pods: lists, memory, restart", benchLarge],
  ["restarts with 10,000 and 100,000 objects", benchRestarts],
  ["watch fan-out", benchWatch],
  ["10,000 idle watchers", benchIdleWatchers],
  ["kubectl, end to end", benchKubectl],
  ["clean-up of dependents and namespaces", benchCleanUp],
];

const pods = "/api/v1/namespaces/default/pods";

async function benchStart(folder: string): Promise<Figure[]> {
  const dataDir = join(folder, "start");
  const first = await startOnce(dataDir);
  const again = [];
  for (let round = 0; round < 5; round++) again.push(await startOnce(dataDir));
  return [
    {
      name: "first start, keys and certificates made",
      value: first.processMs,
      unit: "ms",
      target: { at: "most", value: 400 },
    },
    {
      name: "start to ready, empty, process start included",
      value: percentile(
        again.map((one) => one.processMs),
        0.5,
      ),
      unit: "ms",
      target: { at: "most", value: 300 },
      beside: { name: "an empty Node process", value: await emptyProcessMs() },
    },
    { name: "memory, empty", value: (again[0]?.rssBytes ?? 0) / 1e6, unit: "MB", target: { at: "most", value: 80 } },
  ];
}

async function startOnce(dataDir: string): Promise<{ processMs: number; rssBytes: number }> {
  const server = new ServerHandle();
  const started = await server.start({ dataDir, tls: true });
  await server.send({ do: "stop" });
  return started;
}

async function emptyProcessMs(): Promise<number> {
  const { spawnSync } = await import("node:child_process");
  const times: number[] = [];
  for (let round = 0; round < 5; round++) {
    const startedMs = nowMs();
    spawnSync(process.execPath, ["-e", "0"]);
    times.push(nowMs() - startedMs);
  }
  return percentile(times, 0.5);
}

async function benchGet(folder: string): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const tls of [false, true]) {
    const server = new ServerHandle();
    await server.start({ dataDir: join(folder, `get-${tls}`), tls });
    await server.send({ do: "fillPods", count: 1 });
    const run = await load(server.peer(), 32, 4_000, (connection) => connection.request("GET", `${pods}/pod-0`));
    const floor = tls ? undefined : await rawServerRate();
    figures.push({
      name: `GET one pod, ${tls ? "TLS" : "plain HTTP"}, 32 connections`,
      value: run.perSecond,
      unit: "/s",
      target: { at: "least", value: tls ? 15_000 : 25_000 },
      ...(floor === undefined ? {} : { beside: { name: "bare node:http, same bytes", value: floor } }),
    });
    await server.send({ do: "stop" });
  }
  return figures;
}

/** What node:http alone does with the same client: a server that answers a constant. */
async function rawServerRate(): Promise<number> {
  const body = Buffer.from(JSON.stringify(benchPod(0)).padEnd(2000));
  const server = createServer((_, response) => {
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": String(body.length) });
    response.end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const peer: Peer = { host: "127.0.0.1", port: (server.address() as AddressInfo).port, tls: undefined };
  const { perSecond } = await load(peer, 32, 2_000, (connection) => connection.request("GET", "/"));
  server.closeAllConnections();
  server.close();
  return perSecond;
}

async function benchWrites(folder: string): Promise<Figure[]> {
  const figures: Figure[] = [];
  const floor = await logFloor(folder);
  for (const tls of [false, true]) {
    const server = new ServerHandle();
    await server.start({ dataDir: join(folder, `writes-${tls}`), tls });
    let next = 0;
    const peer = server.peer();
    await load(peer, 32, 1_000, (c) => c.request("POST", pods, JSON.stringify(benchPod(next++)))); // warm-up
    const first = next;
    const create = await load(peer, 32, 5_000, (c) => c.request("POST", pods, JSON.stringify(benchPod(next++))), 201);
    const how = tls ? "TLS" : "plain HTTP";
    figures.push({
      name: `create a pod, durable, ${how}, 32 clients`,
      value: create.perSecond,
      unit: "/s",
      target: { at: "least", value: 5_000 },
      beside: { name: "2 KB appends, one fdatasync per 32", value: floor },
    });
    figures.push({
      name: `create a pod, durable, ${how}, p99`,
      value: create.p99Ms,
      unit: "ms",
      target: { at: "most", value: 20 },
    });
    if (!tls) {
      let bound = first;
      const binding = (at: number) =>
        JSON.stringify({
          apiVersion: "v1",
          kind: "Binding",
          metadata: { name: `pod-${at}` },
          target: { kind: "Node", name: `node-${at % 500}` },
        });
      const bind = await load(
        peer,
        32,
        2_500,
        (c) => {
          const at = bound++;
          return c.request("POST", `${pods}/pod-${at}/binding`, binding(at));
        },
        201,
        next - first,
      );
      figures.push({
        name: "bind a pod, durable",
        value: bind.perSecond,
        unit: "/s",
        target: { at: "least", value: 8_000 },
      });
      let patched = 0;
      const patch = await load(peer, 32, 3_000, (c) => {
        const at = first + (patched++ % (next - first));
        const body = JSON.stringify({ status: { phase: "Running", podIP: `10.0.${patched % 250}.1` } });
        return c.request("PATCH", `${pods}/pod-${at}/status`, body, "application/merge-patch+json");
      });
      figures.push({
        name: "merge-patch a status, durable",
        value: patch.perSecond,
        unit: "/s",
        target: { at: "least", value: 4_000 },
      });
      let applied = 0;
      const apply = await load(peer, 32, 3_000, (c) => {
        const at = applied++;
        const name = `cm-${at % 2_000}`;
        const body = JSON.stringify({
          apiVersion: "v1",
          kind: "ConfigMap",
          metadata: { name },
          data: { at: String(at), kind: "bench" },
        });
        return c.request(
          "PATCH",
          `/api/v1/namespaces/default/configmaps/${name}?fieldManager=bench&force=true`,
          body,
          "application/apply-patch+yaml",
        );
      });
      figures.push({
        name: "server-side apply, durable",
        value: apply.perSecond,
        unit: "/s",
        target: { at: "least", value: 1_500 },
      });
    }
    await server.send({ do: "stop" });
  }
  return figures;
}

/** What the disk allows: appends of two kilobytes, 32 to a sync, nothing else. */
async function logFloor(folder: string): Promise<number> {
  const file = await open(join(folder, "floor.log"), "w");
  const batch = Array.from({ length: 32 }, () => Buffer.alloc(2048, 97));
  const startedMs = nowMs();
  let count = 0;
  while (nowMs() - startedMs < 1_000) {
    await file.writev(batch);
    await file.datasync();
    count += batch.length;
  }
  const seconds = (nowMs() - startedMs) / 1000;
  await file.close();
  return count / seconds;
}

async function benchLarge(folder: string): Promise<Figure[]> {
  const dataDir = join(folder, "large");
  const server = new ServerHandle();
  const { rssBytes } = await server.start({ dataDir, tls: false });
  const nodes = (await server.send({ do: "fillNodes", count: 5_000 })) as { ms: number };
  const filled = (await server.send({ do: "fillPods", count: 50_000 })) as { ms: number };
  const after = await server.usage();
  const connection = await RawConnection.open(server.peer());
  await connection.request("GET", "/api/v1/pods");
  const lists = [];
  for (let round = 0; round < 3; round++) {
    const startedNs = process.hrtime.bigint();
    const { bytes, firstByteNs } = await connection.request("GET", "/api/v1/pods");
    lists.push({
      bytes,
      ms: Number(process.hrtime.bigint() - startedNs) / 1e6,
      firstMs: Number(firstByteNs - startedNs) / 1e6,
    });
  }
  const best = lists.sort((a, b) => a.ms - b.ms)[1] ?? { bytes: 0, ms: 0, firstMs: 0 };
  const page = await timeOf(connection, "/api/v1/pods?limit=500");
  const table = await timeOf(connection, "/api/v1/pods?limit=500", "application/json;as=Table;v=v1;g=meta.k8s.io");
  const node = await timeOf(connection, "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-00001");
  connection.close();
  await server.send({ do: "stop" });
  const again = new ServerHandle();
  const restarted = await again.start({ dataDir, tls: true });
  await again.send({ do: "stop" });
  return [
    {
      name: "5,000 nodes and 50,000 pods created, durable, in process",
      value: (nodes.ms + filled.ms) / 1000,
      unit: "s",
      target: { at: "most", value: 20 },
    },
    {
      name: "memory per pod stored (history included)",
      value: (after.rssBytes - rssBytes) / 55_000 / 1000,
      unit: "KB",
      target: { at: "most", value: 3 },
    },
    {
      name: `LIST of 50,000 pods (${Math.round(best.bytes / 1e6)} MB), last byte`,
      value: best.ms,
      unit: "ms",
      target: { at: "most", value: 400 },
      beside: { name: "Buffer.concat of the same bytes", value: concatMs(best.bytes) },
    },
    { name: "LIST of 50,000 pods, first byte", value: best.firstMs, unit: "ms", target: { at: "most", value: 20 } },
    { name: "LIST, a page of 500", value: page, unit: "ms", target: { at: "most", value: 3 } },
    { name: "Table of 500 pods", value: table, unit: "ms", target: { at: "most", value: 10 } },
    { name: "LIST by node name among 50,000 pods", value: node, unit: "ms" },
    {
      name: "restart with 55,000 objects, process start included",
      value: restarted.processMs,
      unit: "ms",
      target: { at: "most", value: 900 },
    },
  ];
}

async function benchRestarts(folder: string): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [count, targetMs] of [
    [10_000, 300],
    [100_000, 1_500],
  ] as const) {
    const dataDir = join(folder, `restart-${count}`);
    const server = new ServerHandle();
    await server.start({ dataDir, tls: false });
    await server.send({ do: "fillPods", count });
    await server.send({ do: "stop" });
    const times: number[] = [];
    for (let round = 0; round < 3; round++) times.push((await startOnce(dataDir)).processMs);
    figures.push({
      name: `restart with ${count.toLocaleString("en-US")} pods, process start included`,
      value: percentile(times, 0.5),
      unit: "ms",
      target: { at: "most", value: targetMs },
    });
  }
  return figures;
}

async function benchIdleWatchers(_folder: string): Promise<Figure[]> {
  const watchers = 10_000;
  const server = new ServerHandle();
  await server.start({ tls: false });
  const { revision, rssBytes } = await server.usage();
  const connections: RawConnection[] = [];
  try {
    for (let at = 0; at < watchers; at += 100) {
      const opened = await Promise.all(Array.from({ length: 100 }, () => RawConnection.open(server.peer())));
      for (const connection of opened) {
        connection.stream(`/api/v1/namespaces/default/pods?watch=true&resourceVersion=${revision}`, () => {});
      }
      connections.push(...opened);
    }
    await new Promise<void>((resolve) => setTimeout(resolve, 1_000));
    const after = await server.usage();
    return [
      {
        name: "memory of 10,000 idle watchers, their connections included",
        value: (after.rssBytes - rssBytes) / 1e6,
        unit: "MB",
        target: { at: "most", value: 100 },
      },
    ];
  } finally {
    for (const connection of connections) connection.close();
    server.kill();
  }
}

/** What a person waits for. Left out where there is no kubectl. */
async function benchKubectl(folder: string): Promise<Figure[]> {
  const { spawnSync } = await import("node:child_process");
  if (spawnSync("kubectl", ["version", "--client"]).status !== 0) return [];
  const server = new ServerHandle();
  const { kubeconfig } = await server.start({ tls: true });
  await server.send({ do: "fillPods", count: 20 });
  const path = join(folder, "kubeconfig");
  await writeFile(path, kubeconfig, { mode: 0o600 });
  const env = { ...process.env, KUBECONFIG: path, HOME: folder };
  const times: number[] = [];
  for (let round = 0; round < 12; round++) {
    const startedMs = nowMs();
    spawnSync("kubectl", ["get", "pods"], { env });
    times.push(nowMs() - startedMs);
  }
  const startedMs = nowMs();
  spawnSync("kubectl", ["version", "--client"], { env });
  const alone = nowMs() - startedMs;
  await server.send({ do: "stop" });
  return [
    {
      name: "kubectl get pods, end to end, TLS",
      value: percentile(times, 0.5),
      unit: "ms",
      target: { at: "most", value: 120 },
      beside: { name: "kubectl version --client", value: alone },
    },
  ];
}

async function timeOf(connection: RawConnection, path: string, accept?: string): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < 30; round++) {
    const startedMs = nowMs();
    await connection.request("GET", path, undefined, "application/json", false, accept);
    times.push(nowMs() - startedMs);
  }
  return percentile(times, 0.5);
}

function concatMs(bytes: number): number {
  const parts = Array.from({ length: 50_000 }, () => Buffer.alloc(Math.max(1, Math.floor(bytes / 50_000)), 97));
  const startedMs = nowMs();
  Buffer.concat(parts);
  return nowMs() - startedMs;
}

async function benchWatch(_folder: string): Promise<Figure[]> {
  const server = new ServerHandle();
  await server.start({ tls: false });
  await server.send({ do: "fillPods", count: 100 });
  const { revision } = await server.usage();
  const watchers = 100;
  const events = 10_000;
  const lags: number[] = [];
  let delivered = 0;
  let done = (): void => {};
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  const connections: RawConnection[] = [];
  for (let at = 0; at < watchers; at++) {
    const connection = await RawConnection.open(server.peer());
    connections.push(connection);
    const counter = needleCounter(modified);
    connection.stream(`/api/v1/pods?watch=true&resourceVersion=${revision}`, (data) => {
      delivered += counter(data);
      if (at === 0) lags.push(...lagsIn(data));
      if (delivered >= watchers * events) done();
    });
  }
  const before = await server.usage();
  const startedMs = nowMs();
  await server.send({ do: "churn", count: events, pods: 100, pauseEvery: 16 });
  await all;
  const seconds = (nowMs() - startedMs) / 1000;
  const after = await server.usage();
  for (const connection of connections) connection.close();
  const calm = await benchLag(server);
  await server.send({ do: "stop" });
  const cpuSeconds = (after.cpuMs - before.cpuMs) / 1000;
  return [
    {
      name: `watch deliveries, ${watchers} watchers, per core of the server`,
      value: delivered / cpuSeconds,
      unit: "/s",
      target: { at: "least", value: 200_000 },
    },
    { name: "watch deliveries, wall clock (client on the other core)", value: delivered / seconds, unit: "/s" },
    {
      name: "commit to watcher at 100 writes a second, p99",
      value: percentile(calm, 0.99),
      unit: "ms",
      target: { at: "most", value: 5 },
    },
  ];
}

/** From write to watcher when the server is not saturated; the stamp in the object has whole milliseconds. */
async function benchLag(server: ServerHandle): Promise<number[]> {
  const { revision } = await server.usage();
  const connection = await RawConnection.open(server.peer());
  const lags: number[] = [];
  connection.stream(`/api/v1/pods?watch=true&resourceVersion=${revision}`, (data) => lags.push(...lagsIn(data)));
  for (let round = 0; round < 100; round++) {
    await server.send({ do: "churn", count: 1, pods: 100, pauseEvery: 1 });
    await new Promise<void>((resolve) => setTimeout(resolve, 10));
  }
  connection.close();
  return lags;
}

const modified = Buffer.from('{"type":"MODIFIED"');
const stamp = Buffer.from('"bench/at":"');

/** Counts a needle in a stream, also where it lies across two reads. */
function needleCounter(needle: Buffer): (data: Buffer) => number {
  let tail = Buffer.alloc(0);
  return (data) => {
    const seam = Buffer.concat([tail, data.subarray(0, needle.length - 1)]);
    tail = Buffer.from(
      data.length >= needle.length - 1
        ? data.subarray(data.length - needle.length + 1)
        : seam.subarray(-needle.length + 1),
    );
    return occurrences(seam, needle) + occurrences(data, needle);
  };
}

function occurrences(data: Buffer, needle: Buffer): number {
  let found = 0;
  for (let at = data.indexOf(needle); at >= 0; at = data.indexOf(needle, at + needle.length)) found++;
  return found;
}

function lagsIn(data: Buffer): number[] {
  const lags: number[] = [];
  for (let at = data.indexOf(stamp); at >= 0; at = data.indexOf(stamp, at + stamp.length)) {
    const writtenMs = Number(data.toString("latin1", at + stamp.length, at + stamp.length + 13));
    if (Number.isFinite(writtenMs)) lags.push(Date.now() - writtenMs);
  }
  return lags;
}

async function benchCleanUp(_folder: string): Promise<Figure[]> {
  const server = new ServerHandle();
  await server.start({ tls: false });
  const connection = await RawConnection.open(server.peer());
  const owner = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "owner" } };
  const made = await connection.request(
    "POST",
    "/api/v1/namespaces/default/configmaps",
    JSON.stringify(owner),
    "application/json",
    true,
  );
  const uid = /"uid":"([^"]+)"/.exec(made.text)?.[1] ?? "";
  await server.send({ do: "fillPods", count: 10_000, owner: { name: "owner", uid } });
  let startedMs = nowMs();
  await connection.request("DELETE", "/api/v1/namespaces/default/configmaps/owner");
  await untilEmpty(connection, "/api/v1/namespaces/default/pods?limit=1");
  const cascade = (nowMs() - startedMs) / 1000;
  await connection.request(
    "POST",
    "/api/v1/namespaces",
    JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: "big" } }),
  );
  await server.send({ do: "fillPods", count: 5_000, namespace: "big" });
  startedMs = nowMs();
  await connection.request("DELETE", "/api/v1/namespaces/big");
  await untilGone(connection, "/api/v1/namespaces/big");
  const namespace = (nowMs() - startedMs) / 1000;
  connection.close();
  await server.send({ do: "stop" });
  return [
    {
      name: "10,000 dependents collected after their owner",
      value: cascade,
      unit: "s",
      target: { at: "most", value: 3 },
    },
    { name: "namespace with 5,000 pods deleted", value: namespace, unit: "s", target: { at: "most", value: 3 } },
  ];
}

/** A benchmark must end: what takes longer than this is reported as this long. */
const patienceMs = 60_000;

async function untilEmpty(connection: RawConnection, path: string): Promise<void> {
  for (const startedMs = nowMs(); nowMs() - startedMs < patienceMs; ) {
    const { text } = await connection.request("GET", path, undefined, "application/json", true);
    if (text.includes('"items":[]')) return;
    await new Promise<void>((resolve) => setTimeout(resolve, 5));
  }
}

async function untilGone(connection: RawConnection, path: string): Promise<void> {
  for (const startedMs = nowMs(); nowMs() - startedMs < patienceMs; ) {
    const { status } = await connection.request("GET", path);
    if (status === 404) return;
    await new Promise<void>((resolve) => setTimeout(resolve, 5));
  }
}

interface Load {
  readonly perSecond: number;
  readonly p99Ms: number;
}

/** Keeps a number of connections busy for a while, or until the work runs out. */
async function load(
  peer: Peer,
  connections: number,
  forMs: number,
  request: (connection: RawConnection) => Promise<{ status: number }>,
  expected = 200,
  workMax = Number.POSITIVE_INFINITY,
): Promise<Load> {
  const open = await Promise.all(Array.from({ length: connections }, () => RawConnection.open(peer)));
  const times: number[] = [];
  let count = 0;
  const startedMs = nowMs();
  await Promise.all(
    open.map(async (connection) => {
      while (nowMs() - startedMs < forMs && count < workMax) {
        count++;
        const sentMs = nowMs();
        const { status } = await request(connection);
        if (status !== expected && !(expected === 200 && status === 201))
          throw new Error(`expected ${expected}, got ${status}`);
        times.push(nowMs() - sentMs);
      }
    }),
  );
  const seconds = (nowMs() - startedMs) / 1000;
  for (const connection of open) connection.close();
  return { perSecond: times.length / seconds, p99Ms: percentile(times, 0.99) };
}

function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
