import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadKubeconfig } from "../../src/adapters/kubernetes/kubeconfig.ts";
import { kubeHttp } from "../../src/adapters/kubernetes/kubeHttp.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import type { Resource } from "../../src/apiserver/resource.ts";
import { sentByUs } from "../../src/apiserver/resource.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { systemCall } from "../../src/apiserver/systemCall.ts";
import { createObject } from "../../src/apiserver/verbs/create.ts";
import { deleteObject } from "../../src/apiserver/verbs/delete.ts";
import { patchObject } from "../../src/apiserver/verbs/patch.ts";
import { Controllers } from "../../src/control/runtime/controllers.ts";
import { labelGpuNodes } from "../../src/sim/example/labelGpuNodes.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";

/**
 * The crank against a real connection: TLS, a kubeconfig from a file, and a server that cuts watches, forgets the past
 * and refuses requests at random while nodes come, change and go. When the churn ends, no node may have been missed.
 */
const long = process.env["MUSTER_LONG"] === "1";
const churnMs = long ? 600_000 : 20_000;

let server: ApiServer;
let folder: string;

beforeAll(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom() });
  folder = await mkdtemp(join(tmpdir(), "muster-churn-"));
  await writeFile(join(folder, "kubeconfig"), server.kubeconfig, { mode: 0o600 });
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

/** What is logged as an error is a mistake of ours, and fails the test. */
const mistakes: unknown[] = [];
const quiet = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: (fields: object, message: string) => void mistakes.push({ message, ...fields }),
};
const uncounted = { count: () => {}, gauge: () => {}, observe: () => {} };
const call = { ...systemCall("churn"), force: false };

test(
  "a controller over HTTP misses no node while its watches are cut and its requests refused",
  async () => {
    const { core } = server;
    const clock = systemClock();
    const connection = await loadKubeconfig({ path: join(folder, "kubeconfig") });
    const kube = kubeHttp(connection, { clock, log: quiet }, { fieldManager: "labels" });
    const controllers = new Controllers(
      { kube, clock, random: systemRandom(), log: quiet, metrics: uncounted },
      { fieldManager: "labels" },
    );
    labelGpuNodes(controllers);
    await controllers.start();

    const seed = systemRandom().uint32();
    const done = await churn(seed, churnMs);
    server.faults.clear();
    await untilLabelled(`seed ${seed}`);
    await controllers.stop();
    kube.close();

    expect(mistakes).toEqual([]);
    // A run in which nothing happened would prove nothing.
    expect(done.created).toBeGreaterThan(50);
    expect(done.changed).toBeGreaterThan(100);
    expect(done.deleted).toBeGreaterThan(10);
    expect(done.cut).toBeGreaterThan(20);
    expect(done.forgotten).toBeGreaterThan(5);
    expect(core.store.collection("/nodes").size).toBeGreaterThan(20);
  },
  churnMs + 300_000,
);

function nodes(): Resource {
  return server.core.registry.find("", "v1", "nodes") as Resource;
}

async function churn(seed: number, forMs: number) {
  const { core } = server;
  const chance = seededRandom(seed);
  const below = (bound: number) => chance.uint32() % bound;
  const done = { created: 0, changed: 0, deleted: 0, cut: 0, forgotten: 0 };
  const untilMs = Date.now() + forMs;
  for (let made = 0; Date.now() < untilMs; ) {
    const names = [...core.store.collection("/nodes").all()].map((version) => version.name);
    const name = names[below(Math.max(1, names.length))];
    const target = { resource: nodes(), namespace: "", name: name ?? "", subresource: "" };
    const gpus = { capacity: { "nvidia.com/gpu": String(below(9)) } };
    switch (below(20)) {
      case 0:
        server.closeWatches("/nodes");
        done.cut++;
        break;
      case 1:
        // A watcher that is cut and whose revision is forgotten has to list again.
        server.compactNow();
        server.closeWatches("/nodes");
        done.forgotten++;
        break;
      case 2:
        // Mostly writes: a list that is refused again and again is asked for more and more seldom, by design.
        server.faults.arm({
          resource: "nodes",
          verb: below(8) === 0 ? "watch" : "patch",
          times: 1 + below(3),
          code: ([429, 500, 503, 504] as const)[below(4)] ?? 503,
        });
        break;
      case 3:
        server.faults.arm({ verb: "patch", resource: "nodes", times: 1, breakAfter: true });
        break;
      case 4:
      case 5:
        if (name === undefined || names.length < 30) break;
        await deleteObject(core, target, {}, call);
        done.deleted++;
        break;
      case 6:
      case 7:
      case 8:
        if (names.length >= 200) break;
        await createObject(
          core,
          { ...target, name: "" },
          sentByUs({ metadata: { name: `node-${made++}` }, status: gpus }),
          call,
        );
        done.created++;
        break;
      default:
        if (name === undefined) break;
        await patchObject(core, { ...target, subresource: "status" }, "merge", sentByUs({ status: gpus }), call);
        done.changed++;
    }
    await new Promise<void>((resolve) => setTimeout(resolve, below(8)));
  }
  return done;
}

/** Every node carries the label that its capacity asks for. Asks the store itself, which cannot be behind. */
async function untilLabelled(hint: string): Promise<void> {
  const { core } = server;
  const wrong = () =>
    [...core.store.collection("/nodes").all()]
      .map((version) => version.object())
      .filter(({ metadata, status }) => {
        const gpus = (status as { capacity?: Record<string, string> }).capacity?.["nvidia.com/gpu"];
        return metadata.labels?.["muster.dev/gpus"] !== gpus;
      })
      .map(({ metadata }) => metadata.name);
  for (const untilMs = Date.now() + 200_000; wrong().length > 0; ) {
    if (Date.now() > untilMs) expect({ hint, missed: wrong() }).toEqual({ hint, missed: [] });
    await new Promise<void>((resolve) => setTimeout(resolve, 20));
  }
}
