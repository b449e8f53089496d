/** A cluster of its own in a process of its own, as `muster up` makes it, which can be killed and started again. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { loadKubeconfig } from "../../src/adapters/kubernetes/kubeconfig.ts";
import { kubeHttp } from "../../src/adapters/kubernetes/kubeHttp.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { KeptLog } from "../../testing/control/keptLog.ts";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, "dist/bundle/program/main.js");
export const podsRef = builtin.Pod;

export class UpCluster {
  readonly folder = mkdtempSync(join(tmpdir(), "muster-up-"));
  private child: ChildProcess | undefined;
  private kube: ReturnType<typeof kubeHttp> | undefined;

  async start(...flags: string[]): Promise<this> {
    const all = ["up", "--port", "0", "--data-dir", this.folder, "--log-level", "error", ...flags];
    this.child = spawn(process.execPath, [program, ...all, "-o", "json"], { stdio: ["ignore", "pipe", "inherit"] });
    await once(createInterface({ input: this.child.stdout as NodeJS.ReadableStream }), "line");
    const connection = await loadKubeconfig({ path: join(this.folder, "kubeconfig") });
    this.kube = kubeHttp(connection, { clock: systemClock(), log: new KeptLog() }, { fieldManager: "test" });
    return this;
  }

  get api() {
    if (this.kube === undefined) throw new Error("it was not started");
    return this.kube;
  }

  async create(ref: Resource, object: object): Promise<void> {
    const made = await this.api.create(ref, object as KubeObject);
    if (!made.ok) throw new Error(made.message);
  }

  share(name: string, fraction: string, requests: object = {}): Promise<void> {
    return this.create(podsRef, sharedPod(name, fraction, requests));
  }

  async pod(name: string): Promise<Pod | undefined> {
    const found = await this.api.get({ ...podsRef, namespace: "default", name });
    return found.ok ? (found.value as unknown as Pod) : undefined;
  }

  async list<T>(ref: Resource, namespace: string): Promise<T[]> {
    const found = await this.api.list(ref, { namespace });
    if (!found.ok) throw new Error(found.message);
    return found.value.items as unknown as T[];
  }

  /** Asks `muster why` until the answer has this reason. */
  async why(name: string, reason: string): Promise<{ message: string; cure: string; kind: string; text: string }> {
    for (;;) {
      const asked = ["why", name, "--data-dir", this.folder];
      const { stdout } = spawnSync(process.execPath, [program, ...asked, "-o", "json"], { encoding: "utf8" });
      const answer =
        stdout === "" ? undefined : (JSON.parse(stdout) as { answers: Record<string, string>[] }).answers[0];
      if (answer?.["reason"] === reason) {
        const { stdout: text } = spawnSync(process.execPath, [program, ...asked], { encoding: "utf8" });
        const { message = "", cure = "", kind = "" } = answer;
        return { message, cure, kind, text };
      }
    }
  }

  async until(holds: () => Promise<boolean>): Promise<void> {
    while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  /** Kills the process, as in a power loss. */
  async kill(): Promise<void> {
    this.kube?.close();
    const { child } = this;
    if (child === undefined || child.exitCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export function sharedPod(name: string, fraction: string, requests: object = {}): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "default",
      labels: { "kai.scheduler/queue": "default-queue" },
      annotations: { "gpu-fraction": fraction },
    },
    spec: { schedulerName: "kai-scheduler", containers: [{ name: "main", image: "i", resources: { requests } }] },
  };
}
