/** An API server with simulated nodes on the clock of this machine, for clients that are programs of their own. */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { yieldingKube } from "../../src/adapters/kubernetes/yieldingKube.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { ensureDefinitions, ensureStartObjects } from "../../src/control/assembly/ensureObjects.ts";
import type { Component } from "../../src/control/runtime/component.ts";
import { Controllers } from "../../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { fastDelays } from "../../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../../src/kubelet/run/nodesComponent.ts";
import type { NodesOptions } from "../../src/kubelet/run/nodesOptions.ts";
import { parsePool, profilesWith } from "../../src/model/profiles/profiles.ts";
import { KeptLog } from "../../testing/control/keptLog.ts";

export const hasKubectl = spawnSync("kubectl", ["version", "--client"], { stdio: "ignore" }).status === 0;

export interface LiveCluster {
  readonly server: ApiServer;
  readonly admin: ReturnType<typeof inProcessKube>;
  readonly folder: string;
  readonly kubeconfig: string;
  readonly metrics: MemoryMetrics;
  readonly log: KeptLog;
  kubectl(args: readonly string[], options?: { input?: string; env?: Record<string, string> }): Promise<Said>;
  /** Polls until the condition holds. */
  until(isSo: () => boolean | Promise<boolean>): Promise<void>;
  stop(): Promise<void>;
}

export interface Said {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

export async function liveCluster(
  options: { pools?: string[]; nodes?: Partial<NodesOptions>; components?: readonly Component[] } = {},
): Promise<LiveCluster> {
  const clock = systemClock();
  const pools = (options.pools ?? ["h100=1"]).map((text) => parsePool(text, profilesWith()));
  const { component, agent } = nodesComponent({ pools, seed: "s", delays: fastDelays, ...options.nodes });
  const running = [component, ...(options.components ?? [])];
  const hooks = running.flatMap((each) => each.hooks ?? []);
  const server = await startApiServer({ clock, random: systemRandom(), agent, hooks });
  const admin = inProcessKube(server.core, {
    user: { username: "admin", groups: ["system:masters"] },
    fieldManager: "admin",
  });
  await ensureDefinitions({ kube: admin, clock }, running);
  await ensureStartObjects(admin, running);
  const kube = yieldingKube(
    inProcessKube(server.core, {
      user: { username: "nodes", groups: ["system:masters"] },
      fieldManager: "nodes",
    }),
  );
  const log = new KeptLog();
  const metrics = new MemoryMetrics();
  const controllers = new Controllers(
    { kube, clock, random: systemRandom(), log, metrics },
    { fieldManager: "nodes", graceMs: 100 },
  );
  for (const each of running) each.add(controllers);
  const folder = mkdtempSync(join(tmpdir(), "muster-nodes-"));
  const kubeconfig = join(folder, "kubeconfig");
  writeFileSync(kubeconfig, server.kubeconfig);
  await controllers.start();
  return {
    server,
    admin,
    folder,
    kubeconfig,
    metrics,
    log,
    kubectl: (args, { input = "", env = {} } = {}) =>
      run("kubectl", ["--kubeconfig", kubeconfig, ...args], { input, env }),
    until: async (isSo) => {
      const deadline = Date.now() + 20_000;
      while (!(await isSo())) {
        if (Date.now() > deadline) throw new Error("the condition never held");
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    stop: async () => {
      await controllers.stop();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Not spawnSync: the server runs in this very process and has to answer. */
export function run(
  program: string,
  args: readonly string[],
  { input = "", env = {} }: { input?: string; env?: Record<string, string> } = {},
): Promise<Said> {
  return new Promise((resolve) => {
    const child = execFile(
      program,
      [...args],
      { env: { ...process.env, ...env }, timeout: 60_000 },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
        resolve({ stdout, stderr, code });
      },
    );
    child.stdin?.end(input);
  });
}
