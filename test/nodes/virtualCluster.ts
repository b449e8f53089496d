/** Simulated nodes on an API in memory with a clock that jumps from timer to timer: hours pass in seconds. */
import { createApi } from "../../src/apiserver/createApi.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { ensureDefinitions, ensureStartObjects } from "../../src/control/assembly/ensureObjects.ts";
import type { Component } from "../../src/control/runtime/component.ts";
import { Controllers } from "../../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { fastDelays } from "../../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../../src/kubelet/run/nodesComponent.ts";
import type { NodesOptions } from "../../src/kubelet/run/nodesOptions.ts";
import { parsePool, profilesWith } from "../../src/model/profiles/profiles.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { Heap } from "../../src/snapshot/heap.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";
import { KeptLog } from "../../testing/control/keptLog.ts";

interface Timer {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | undefined;
}

/** Time as a heap of timers. What is ready runs before the next moment comes. */
export class VirtualClock implements Clock {
  private timeMs = Date.UTC(2026, 0, 1);
  private readonly timers = new Heap<Timer>((a, b) => a.atMs - b.atMs || a.order - b.order);
  private orders = 0;

  nowMs(): number {
    return this.timeMs;
  }

  monotonicMs(): number {
    return this.timeMs;
  }

  after(delayMs: number, run: () => void): () => void {
    const timer: Timer = { atMs: this.timeMs + Math.max(0, delayMs), order: this.orders++, run };
    this.timers.push(timer);
    return () => {
      timer.run = undefined;
    };
  }

  async advance(ms: number): Promise<void> {
    const untilMs = this.timeMs + ms;
    await settled();
    for (let next = this.timers.first; next !== undefined && next.atMs <= untilMs; next = this.timers.first) {
      this.timers.pop();
      if (next.run === undefined) continue;
      this.timeMs = Math.max(this.timeMs, next.atMs);
      next.run();
      // Timers of one moment run together.
      if (this.timers.first?.atMs !== next.atMs) await settled();
    }
    this.timeMs = untilMs;
    await settled();
  }
}

/** Two turns of the event loop: all calls of this API settle without waiting for anything outside. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

/** `components` run beside the nodes, in the same process, as in `muster up`. */
export async function virtualCluster(
  pools: readonly string[],
  options: Partial<NodesOptions> = {},
  components: readonly Component[] = [],
) {
  const clock = new VirtualClock();
  const { core } = await createApi({ clock, random: seededRandom(1) });
  const user = { username: "nodes", groups: ["system:masters"] };
  const kube = inProcessKube(core, { user, fieldManager: "nodes" });
  const log = new KeptLog();
  const metrics = new MemoryMetrics();
  const controllers = new Controllers(
    { kube, clock, random: seededRandom(2), log, metrics },
    { fieldManager: "nodes" },
  );
  nodesComponent({
    pools: pools.map((text) => parsePool(text, profilesWith())),
    delays: fastDelays,
    events: "warnings",
    stages: false,
    ...options,
  }).component.add(controllers);
  const defined = ensureDefinitions({ kube, clock }, components);
  await clock.advance(1000);
  await defined;
  await ensureStartObjects(kube, components);
  for (const part of components) part.add(controllers);
  const started = controllers.start();
  await clock.advance(1000);
  await started;
  return { clock, core, kube, log, metrics, controllers };
}
