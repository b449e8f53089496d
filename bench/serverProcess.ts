import { diskKeyFiles } from "../src/adapters/disk/diskKeyFiles.ts";
import { FileStore } from "../src/adapters/disk/fileStore.ts";
import { systemClock } from "../src/adapters/systemClock.ts";
import { systemRandom } from "../src/adapters/systemRandom.ts";
import type { Resource } from "../src/apiserver/resource.ts";
import { sentByUs } from "../src/apiserver/resource.ts";
import { type ApiServer, startApiServer } from "../src/apiserver/startApiServer.ts";
import { systemCall } from "../src/apiserver/systemCall.ts";
import { createObject } from "../src/apiserver/verbs/create.ts";
import { patchObject } from "../src/apiserver/verbs/patch.ts";
import { benchNode, benchPod } from "./workload.ts";

/**
 * The server of a benchmark, in a process of its own so that its CPU time can be separated from the client's. Started
 * by fork, it runs one command at a time.
 */
export type Command =
  | { do: "start"; dataDir?: string; tls: boolean }
  | {
      do: "fillPods";
      count: number;
      offset?: number;
      namespace?: string;
      owner?: { name: string; uid: string };
      /** So many pods are put on each node; without it they have none. */
      perNode?: number;
    }
  | { do: "fillNodes"; count: number }
  | { do: "churn"; count: number; pods: number; pauseEvery: number }
  | { do: "usage" }
  | { do: "stop" };

let server: ApiServer | undefined;

// The program that measures has ended, perhaps by a signal.
process.on("disconnect", () => process.exit());
process.on("message", (command: Command) => {
  execute(command).then(
    (answer) => process.send?.({ ok: true, answer }),
    (error: unknown) => process.send?.({ ok: false, error: error instanceof Error ? error.stack : String(error) }),
  );
});

async function execute(command: Command): Promise<unknown> {
  switch (command.do) {
    case "start":
      return start(command);
    case "fillPods":
      return fill("pods", command.namespace ?? "default", command.count, (at) => {
        const pod = benchPod(at + (command.offset ?? 0), command.namespace ?? "default");
        if (command.owner !== undefined) {
          const owner = { apiVersion: "v1", kind: "ConfigMap", ...command.owner };
          Object.assign(pod.metadata, { ownerReferences: [owner] });
        }
        if (command.perNode !== undefined) {
          Object.assign(pod.spec, { nodeName: benchNode(Math.floor(at / command.perNode)).metadata.name });
        }
        return pod;
      });
    case "fillNodes":
      return fill("nodes", "", command.count, benchNode);
    case "churn":
      return churn(command.count, command.pods, command.pauseEvery);
    case "usage":
      return usage();
    case "stop":
      await server?.stop();
      setImmediate(() => process.disconnect());
      return undefined;
  }
}

async function start({ dataDir, tls }: { dataDir?: string; tls: boolean }): Promise<unknown> {
  const startedNs = process.hrtime.bigint();
  server = await startApiServer({
    clock: systemClock(),
    random: systemRandom(),
    tls,
    listen: { port: 0 },
    tokenFile: 'bench,bench,bench,"system:masters"',
    ...(dataDir === undefined
      ? {}
      : { store: new FileStore({ directory: `${dataDir}/apiserver` }), keyFiles: diskKeyFiles(`${dataDir}/pki`) }),
  });
  const { url, pki } = server;
  const startMs = Number(process.hrtime.bigint() - startedNs) / 1e6;
  return {
    port: Number(new URL(url).port),
    startMs,
    /** From the start of the process, module loading included. */
    processMs: process.uptime() * 1000,
    rssBytes: process.memoryUsage().rss,
    kubeconfig: server.kubeconfig,
    tls: { ca: pki.authority, cert: pki.admin.certificate, key: pki.admin.key },
  };
}

async function fill(plural: string, namespace: string, count: number, make: (at: number) => unknown): Promise<unknown> {
  const { core } = running();
  const resource = core.registry.find("", "v1", plural) as Resource;
  const call = systemCall("bench");
  const startedMs = performanceMs();
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const at = next++;
      await createObject(core, { resource, namespace, name: "", subresource: "" }, sentByUs(make(at)), call);
    }
  };
  await Promise.all(Array.from({ length: 128 }, worker));
  return { ms: performanceMs() - startedMs };
}

/** Changes pods one after the other, as a busy cluster would, and says when each change was made. */
async function churn(count: number, pods: number, pauseEvery: number): Promise<unknown> {
  const { core } = running();
  const resource = core.registry.find("", "v1", "pods") as Resource;
  const call = { ...systemCall("bench"), force: false };
  const startedMs = performanceMs();
  for (let at = 0; at < count; at++) {
    const name = `pod-${at % pods}`;
    const patch = { metadata: { annotations: { "bench/at": `${Date.now()}`, "bench/n": String(at) } } };
    await patchObject(core, { resource, namespace: "default", name, subresource: "" }, "merge", sentByUs(patch), call);
    if (at % pauseEvery === pauseEvery - 1) await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return { ms: performanceMs() - startedMs };
}

function usage(): unknown {
  const { user, system } = process.cpuUsage();
  return {
    cpuMs: (user + system) / 1000,
    rssBytes: process.memoryUsage().rss,
    revision: running().core.store.revision,
  };
}

function running(): ApiServer {
  if (server === undefined) throw new Error("the server was not started");
  return server;
}

function performanceMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
