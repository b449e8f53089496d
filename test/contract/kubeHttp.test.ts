/** The HTTP adapter against the embedded server: lost responses, injected errors, and TLS trust. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fixedCredentials, type KubeConnection } from "../../src/adapters/kubeHttp/connection.ts";
import { loadKubeconfig } from "../../src/adapters/kubernetes/kubeconfig.ts";
import { type KubeHttp, kubeHttp } from "../../src/adapters/kubernetes/kubeHttp.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import type { ApiServer } from "../../src/apiserver/startApiServer.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Outcome, RefusalReason } from "../../src/model/outcome.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { ManualClock } from "../../testing/apiserver/manualClock.ts";
import { type ConnectProxy, startProxy } from "./connectProxy.ts";
import { at, configMap, configMaps, expectRefused, pod, pods, value, Watched } from "./contractCluster.ts";
import { httpCluster, silentLog, startServer } from "./contractClusters.ts";

const connect = (connection: KubeConnection, clock: Clock = systemClock()): KubeHttp =>
  kubeHttp(connection, { clock, log: silentLog }, { fieldManager: "contract" });

test.each([{ tls: true }, { tls: false }])(
  "more calls at once than there are connections are all answered: those that wait take connections that are free again (TLS: $tls)",
  async (how) => {
    const cluster = await httpCluster(how);
    try {
      const names = Array.from({ length: 300 }, (_, at) => `crowd-${at}`);
      const made = await Promise.all(names.map((name) => cluster.api.create(configMaps, configMap("default", name))));
      expect(made.filter(({ ok }) => ok)).toHaveLength(names.length);
    } finally {
      await cluster.close();
    }
  },
);

describe("a write whose answer is lost", () => {
  let cluster: Awaited<ReturnType<typeof httpCluster>>;
  beforeAll(async () => {
    cluster = await httpCluster({ tls: false });
  });
  afterAll(() => cluster.close());

  type Write = (api: KubeApi, before: KubeObject) => Promise<Outcome<unknown>>;
  type Check = (api: KubeApi, name: string) => Promise<boolean>;
  const ref = (name: string) => at(pods, "default", name);
  const bound: Check = async (api, name) =>
    (value(await api.get(ref(name))) as unknown as { spec: { nodeName?: string } }).spec.nodeName === "n1";
  const gone: Check = async (api, name) => !(await api.get(ref(name))).ok;
  const labelled: Check = async (api, name) => value(await api.get(ref(name))).metadata.labels?.["l"] === "1";

  test.each<[string, string, Write, Check]>([
    [
      "update",
      "update",
      (api, before) =>
        api.update(ref(before.metadata.name), { ...before, metadata: { ...before.metadata, labels: { l: "1" } } }),
      labelled,
    ],
    [
      "patch",
      "patch",
      (api, { metadata }) =>
        api.patch(ref(metadata.name), { type: "merge", body: { metadata: { labels: { l: "1" } } } }),
      labelled,
    ],
    ["delete", "delete", (api, { metadata }) => api.delete(ref(metadata.name)), gone],
    ["bind", "create", (api, { metadata }) => api.bind(ref(metadata.name), { node: "n1", uid: metadata.uid }), bound],
    ["evict", "create", (api, { metadata }) => api.evict(ref(metadata.name)), gone],
  ])("%s is Unknown, and took effect all the same", async (name, verb, write, happened) => {
    const before = value(await cluster.api.create(pods, pod("default", `lost-${name}`)));
    const disarm = cluster.server.faults.arm({ verb, resource: "pods", times: 1, breakAfter: true });
    expectRefused(await write(cluster.api, before), "Unknown");
    disarm();
    expect(await happened(cluster.api, before.metadata.name)).toBe(true);
  });

  test("create is Unknown, and took effect all the same: the second try is AlreadyExists", async () => {
    const disarm = cluster.server.faults.arm({ verb: "create", times: 1, breakAfter: true });
    expectRefused(await cluster.api.create(configMaps, configMap("default", "lost")), "Unknown");
    disarm();
    expectRefused(await cluster.api.create(configMaps, configMap("default", "lost")), "AlreadyExists");
  });

  test.each<[409 | 410 | 429 | 500 | 503 | 504, RefusalReason]>([
    [409, "Conflict"],
    [410, "Expired"],
    [429, "TooManyRequests"],
    [500, "Unknown"],
    [503, "Unavailable"],
    [504, "Unknown"],
  ])("a create that is answered with %i is %s, and is not sent again", async (code, reason) => {
    const fault = { verb: "create", resource: "configmaps", times: 2, code };
    const disarm = cluster.server.faults.arm(fault);
    const outcome = await cluster.api.create(configMaps, configMap("default", `refused-${code}`));
    disarm();
    expectRefused(outcome, reason);
    if (code === 429 && !outcome.ok) expect(outcome.retryAfterMs).toBe(1_000);
    expect(fault.times).toBe(1);
    expectRefused(await cluster.api.get(at(configMaps, "default", `refused-${code}`)), "NotFound");
  });

  test("a large list is compressed and complete", async () => {
    const text = "x".repeat(60_000);
    for (let n = 0; n < 5; n++)
      value(await cluster.api.create(configMaps, configMap("default", `big-${n}`, { data: { text } })));
    const { items } = value(await cluster.api.list(configMaps, { namespace: "default" }));
    expect(items.filter(({ metadata }) => metadata.name.startsWith("big-"))).toHaveLength(5);
  });
});

describe("an HTTP proxy", () => {
  let proxy: ConnectProxy;
  beforeAll(async () => {
    proxy = await startProxy();
  });
  afterAll(() => proxy.close());

  test.each([false, true])("forwards calls and watches (TLS: %s)", async (tls) => {
    const { server, admin } = await startServer({ tls });
    const kube = connect({ ...admin, proxy: proxy.url });
    const cluster = { api: kube } as unknown as ConstructorParameters<typeof Watched>[0];
    const watched = new Watched(cluster, configMaps, { namespace: "default", sendInitialEvents: true });
    await watched.untilComplete();
    for (let n = 0; n < 5; n++) value(await kube.create(configMaps, configMap("default", `by-proxy-${n}`)));
    await watched.untilNamed("by-proxy-4");
    const target = new URL(server.url).host;
    // One connection for all calls, one for the watch.
    expect(proxy.targets.filter((host) => host === target)).toHaveLength(2);
    const disarm = server.faults.arm({ verb: "create", times: 1, breakAfter: true });
    expectRefused(await kube.create(configMaps, configMap("default", "lost")), "Unknown");
    disarm();
    watched.watch.stop();
    kube.close();
    await server.stop();
  });

  test("that refuses, is down, or forwards to an untrusted server, makes calls Unavailable: nothing was sent", async () => {
    const { server, admin } = await startServer({ tls: true });
    const wrong = new URL(proxy.url);
    wrong.username = "nobody";
    const refused = connect({ ...admin, proxy: wrong.href });
    expectRefused(await refused.create(configMaps, configMap("default", "a")), "Unavailable");
    refused.close();
    const { authority: _, ...untrusting } = admin;
    const untrusted = connect({ ...untrusting, proxy: proxy.url });
    expectRefused(await untrusted.create(configMaps, configMap("default", "a")), "Unavailable");
    untrusted.close();
    const other = await startProxy();
    await other.close();
    const missing = connect({ ...admin, proxy: other.url });
    expectRefused(await missing.create(configMaps, configMap("default", "a")), "Unavailable");
    missing.close();
    await server.stop();
  });
});

describe("trust", () => {
  let server: ApiServer;
  let admin: KubeConnection;
  let stranger: KubeConnection;
  let folder: string;
  beforeAll(async () => {
    ({ server, admin, stranger } = await startServer({ tls: true }));
    folder = mkdtempSync(join(tmpdir(), "trust-"));
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true });
    await server.stop();
  });

  async function listed(connection: KubeConnection): Promise<Outcome<unknown>> {
    const kube = connect(connection);
    const outcome = await kube.list(configMaps);
    kube.close();
    return outcome;
  }

  test("the kubeconfig that the server writes connects to it", async () => {
    const path = join(folder, "config");
    writeFileSync(path, server.kubeconfig);
    expect((await listed(await loadKubeconfig({ path }))).ok).toBe(true);
  });

  test("a server with an unknown certificate authority gets no request: Unavailable", async () => {
    const { authority: _, ...unknown } = admin;
    const outcome = await listed(unknown);
    expectRefused(outcome, "Unavailable");
    if (!outcome.ok) expect(outcome.message).toMatch(/certificate/);
  });

  test("a server with another name in its certificate gets no request, unless that name is configured", async () => {
    expectRefused(await listed({ ...admin, serverName: "other.example.com" }), "Unavailable");
    expect((await listed({ ...admin, serverName: "kubernetes.default.svc" })).ok).toBe(true);
  });

  test("a client without verification connects", async () => {
    const { authority: _, ...unknown } = admin;
    expect((await listed({ ...unknown, insecure: true })).ok).toBe(true);
  });

  test("a token works beside TLS, and a wrong one is Unauthorized", async () => {
    const withToken = (token: string) => ({
      ...admin,
      credentials: fixedCredentials({ authorization: `Bearer ${token}` }),
    });
    expect((await listed(withToken("admin-token"))).ok).toBe(true);
    expectRefused(await listed(withToken("wrong")), "Unauthorized");
  });

  test("an invalid key makes calls Unauthorized, and nothing throws", async () => {
    expectRefused(
      await listed({ ...admin, credentials: fixedCredentials({ certificate: "x", key: "y" }) }),
      "Unauthorized",
    );
  });

  test("a certificate that was replaced is used from then on", async () => {
    const clock = new ManualClock();
    const sources = [stranger.credentials, admin.credentials];
    let asked = 0;
    const credentials: KubeConnection["credentials"] = async (ask) => ({
      ...(await (sources[Math.min(asked++, 1)] as KubeConnection["credentials"])(ask)),
      goodForMs: 60_000,
    });
    const kube = connect({ ...admin, credentials }, clock);
    expectRefused(await kube.list(configMaps), "Forbidden");
    await clock.advance(60_000);
    expect((await kube.list(configMaps)).ok).toBe(true);
    kube.close();
  });

  test("a server that stops ends its watches and closes its port", async () => {
    const other = await startServer({ tls: true });
    const kube = connect(other.admin);
    const cluster = { api: kube } as unknown as ConstructorParameters<typeof Watched>[0];
    const watched = new Watched(cluster, configMaps, { sendInitialEvents: true });
    await watched.untilComplete();
    await other.server.stop();
    await watched.until(({ ends }) => ends.length > 0);
    expect(watched.ends).toEqual([undefined]);
    expectRefused(await kube.get(at(configMaps, "default", "a")), "Unavailable");
    kube.close();
  });
});
