import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CoreV1Api, type KubeConfig, makeInformer, type V1ConfigMap, Watch } from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { diskKeyFiles } from "../../src/adapters/disk/diskKeyFiles.ts";
import { FileStore } from "../../src/adapters/disk/fileStore.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { Condition, type ServerForClients, serverForClients } from "./serverForClients.ts";

let running: ServerForClients;

beforeAll(async () => {
  running = await serverForClients();
});
afterAll(() => running.server.stop());

interface Heard {
  events: string[];
  /** How the watch ended. */
  ended: Promise<unknown>;
  until(length: number): Promise<void>;
  abort(): void;
}

/** Watches configmaps of a namespace from a revision on. */
async function listen(config: KubeConfig, namespace: string, query: Record<string, string>): Promise<Heard> {
  const events: string[] = [];
  const condition = new Condition();
  let end = (_: unknown): void => {};
  const ended = new Promise<unknown>((resolve) => {
    end = resolve;
  });
  const controller = await new Watch(config).watch(
    `/api/v1/namespaces/${namespace}/configmaps`,
    query,
    (type: string, object: V1ConfigMap & { code?: number }) => {
      events.push(type === "ERROR" ? `ERROR ${object.code}` : `${type} ${object.metadata?.name}`);
      condition.changed();
    },
    (error) => end(error),
  );
  return {
    events,
    ended,
    until: (length) => condition.until(() => events.length >= length),
    abort: () => controller.abort(),
  };
}

async function makeNamespace(config: KubeConfig, name: string): Promise<CoreV1Api> {
  const core = config.makeApiClient(CoreV1Api);
  await core.createNamespace({ body: { metadata: { name } } });
  return core;
}

test("a watch delivers every change after its revision, filtered, and ends when the server ends it", async () => {
  const { config, server } = running;
  const core = await makeNamespace(config, "watched");
  await server.controllers.idle();
  const start = await core.listNamespacedConfigMap({ namespace: "watched" });
  const resourceVersion = start.metadata?.resourceVersion ?? "";
  const all = await listen(config, "watched", { resourceVersion });
  const red = await listen(config, "watched", { resourceVersion, labelSelector: "color=red" });
  const create = (name: string, color: string) =>
    core.createNamespacedConfigMap({ namespace: "watched", body: { metadata: { name, labels: { color } } } });
  await create("a", "red");
  const b = await create("b", "blue");
  await core.replaceNamespacedConfigMap({
    namespace: "watched",
    name: "b",
    body: { ...b, metadata: { ...b.metadata, labels: { color: "red" } } },
  });
  await core.deleteNamespacedConfigMap({ namespace: "watched", name: "a" });
  await all.until(4);
  await red.until(3);
  expect(all.events).toEqual(["ADDED a", "ADDED b", "MODIFIED b", "DELETED a"]);
  expect(red.events).toEqual(["ADDED a", "ADDED b", "DELETED a"]);
  server.closeWatches("/configmaps");
  expect(await all.ended).toBe(null);
  red.abort();
  await red.ended;
});

test("a watch from a compacted revision receives ERROR 410 and nothing else", async () => {
  const { config, server } = running;
  const core = await makeNamespace(config, "forgotten");
  const created = await core.createNamespacedConfigMap({ namespace: "forgotten", body: { metadata: { name: "x" } } });
  await core.deleteNamespacedConfigMap({ namespace: "forgotten", name: "x" });
  server.compactNow();
  const heard = await listen(config, "forgotten", { resourceVersion: created.metadata?.resourceVersion ?? "" });
  await heard.ended;
  expect(heard.events).toEqual(["ERROR 410"]);
});

test("an informer that was disconnected during a compaction misses nothing", async () => {
  const { config, server } = running;
  const namespace = "informed";
  const core = await makeNamespace(config, namespace);
  await server.controllers.idle();
  const create = (name: string) => core.createNamespacedConfigMap({ namespace, body: { metadata: { name } } });
  const touch = (name: string) =>
    core.patchNamespacedConfigMap({ namespace, name, body: [{ op: "add", path: "/data", value: { touched: name } }] });
  for (const name of ["stays", "goes", "changes"]) await create(name);

  const informer = makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () =>
    core.listNamespacedConfigMap({ namespace }),
  );
  const condition = new Condition();
  const told: string[] = [];
  for (const verb of ["add", "update", "delete"] as const) {
    informer.on(verb, (object) => {
      told.push(`${verb} ${object.metadata?.name}`);
      condition.changed();
    });
  }
  let broken = 0;
  informer.on("error", () => {
    broken++;
    condition.changed();
  });
  await informer.start();
  await condition.until(() => told.length === 4);
  await create("live");
  await condition.until(() => told.includes("add live"));
  told.length = 0;

  // The connection ends and cannot be opened again; meanwhile the world goes on, and the past is forgotten.
  const disarm = server.faults.arm({ verb: "watch", resource: "configmaps", code: 503 });
  server.closeWatches("/configmaps");
  await condition.until(() => broken > 0);
  await core.deleteNamespacedConfigMap({ namespace, name: "goes" });
  await touch("changes");
  await create("new");
  server.compactNow();
  disarm();
  await informer.start();
  await condition.until(() => told.length >= 3);
  expect([...told].sort()).toEqual(["add new", "delete goes", "update changes"]);

  // And it hears what comes after.
  await create("after");
  await condition.until(() => told.includes("add after"));
  expect(namesIn(informer.list(namespace))).toEqual(["after", "changes", "kube-root-ca.crt", "live", "new", "stays"]);
  await informer.stop();
});

test("an informer whose watches end all the time, some of them with 410, ends up with the truth", async () => {
  const { config, server } = running;
  const namespace = "restless";
  const core = await makeNamespace(config, namespace);
  await server.controllers.idle();
  const informer = makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () =>
    core.listNamespacedConfigMap({ namespace }),
  );
  const condition = new Condition();
  const revisions = new Map<string, number>();
  const backwards: string[] = [];
  informer.on("change", (object) => {
    const name = object.metadata?.name ?? "";
    const revision = Number(object.metadata?.resourceVersion);
    if (revision < (revisions.get(name) ?? 0)) backwards.push(`${name} ${revision}`);
    revisions.set(name, revision);
    condition.changed();
  });
  informer.on("error", () => void informer.start());
  await informer.start();
  for (let at = 0; at < 60; at++) {
    const name = `n${at % 7}`;
    const known = await core.listNamespacedConfigMap({ namespace, fieldSelector: `metadata.name=${name}` });
    if (known.items.length === 0) await core.createNamespacedConfigMap({ namespace, body: { metadata: { name } } });
    else if (at % 3 === 0) await core.deleteNamespacedConfigMap({ namespace, name });
    else {
      await core.replaceNamespacedConfigMap({
        namespace,
        name,
        body: { metadata: { name }, data: { at: String(at) } },
      });
    }
    if (at % 4 === 0) server.closeWatches();
    if (at % 10 === 0) server.compactNow();
  }
  const truth = await core.listNamespacedConfigMap({ namespace });
  const stamp = (objects: readonly V1ConfigMap[]) =>
    objects.map(({ metadata }) => `${metadata?.name} ${metadata?.resourceVersion}`).sort();
  await condition.until(() => stamp(informer.list(namespace)).join() === stamp(truth.items).join());
  expect(backwards).toEqual([]);
  await informer.stop();
});

test("a watch resumes across a restart of the server on its data folder", async () => {
  const directory = mkdtempSync(join(tmpdir(), "watch-restart-"));
  try {
    const start = (port: number) =>
      serverForClients({
        store: new FileStore({ directory: join(directory, "store"), clock: systemClock() }),
        keyFiles: diskKeyFiles(join(directory, "pki")),
        listen: { port },
      });
    const first = await start(0);
    const core = await makeNamespace(first.config, "kept");
    await first.server.controllers.idle();
    const { metadata } = await core.createNamespacedConfigMap({ namespace: "kept", body: { metadata: { name: "a" } } });
    const heard = await listen(first.config, "kept", { resourceVersion: metadata?.resourceVersion ?? "" });
    await core.createNamespacedConfigMap({ namespace: "kept", body: { metadata: { name: "b" } } });
    await heard.until(1);
    await core.deleteNamespacedConfigMap({ namespace: "kept", name: "a" });
    await first.server.stop();
    await heard.ended;
    expect(heard.events.slice(0, 1)).toEqual(["ADDED b"]);

    // The same kubeconfig, as a client would have it: authority, address and certificate are still good.
    const second = await start(Number(new URL(first.server.url).port));
    const again = await listen(first.config, "kept", { resourceVersion: metadata?.resourceVersion ?? "" });
    await first.config.makeApiClient(CoreV1Api).createNamespacedConfigMap({
      namespace: "kept",
      body: { metadata: { name: "c" } },
    });
    await again.until(3);
    expect(again.events).toEqual(["ADDED b", "DELETED a", "ADDED c"]);
    await second.server.stop();
    await again.ended;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

function namesIn(objects: readonly V1ConfigMap[]): string[] {
  return objects.map(({ metadata }) => metadata?.name ?? "").sort();
}
