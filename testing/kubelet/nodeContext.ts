/** A driver small enough to read, for tests: one node, its pods, a clock that jumps from one wake-up to the next. */

import type { Fault } from "../../src/kubelet/node/faults.ts";
import { nextForNode, nodeLifeDefaults } from "../../src/kubelet/node/nodeLife.ts";
import type { NodeEvent, NodeWrite } from "../../src/kubelet/node/nodeWrite.ts";
import { nodeObject, type SimNode, simNode } from "../../src/kubelet/node/simNode.ts";
import { ghostOf } from "../../src/kubelet/pods/podGhost.ts";
import type { Ghost, PodLifeOptions } from "../../src/kubelet/pods/podInput.ts";
import { nextForPod } from "../../src/kubelet/pods/podLife.ts";
import { fastDelays } from "../../src/kubelet/pods/podPlan.ts";
import type { PodMemory } from "../../src/kubelet/pods/podStatus.ts";
import type { Lease, Node, Pod, PodSpec } from "../../src/model/kubernetes.generated.ts";
import { copyJson } from "../../src/model/objects/json.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Profile } from "../../src/model/profiles/profile.ts";
import { findProfile, profilesWith } from "../../src/model/profiles/profiles.ts";
import { formatTime } from "../../src/model/values/time.ts";

export const startMs = 1_800_000_000_000;

export interface TestWorld {
  nowMs: number;
  readonly sim: SimNode;
  node: Node | undefined;
  lease: Lease | undefined;
  readonly pods: Map<string, Pod>;
  readonly phases: Map<string, string[]>;
  readonly events: NodeEvent[];
  faults: Fault[];
  refusals: number;
  writes: number;
  ghosts: Ghost[];
  add(pod: Pod): void;
  remove(name: string, graceSeconds: number): void;
  /** Lets time pass; every wake-up in between is kept. */
  run(forMs: number): void;
  pod(name: string): Pod;
}

export interface WorldOptions {
  readonly profile?: string | Profile;
  readonly options?: Partial<PodLifeOptions>;
  readonly faults?: Fault[];
  readonly holder?: string;
  /** Loses what it remembers about pods after every step. */
  readonly forgetful?: boolean;
}

export function testWorld(given: WorldOptions = {}): TestWorld {
  const profile =
    typeof given.profile === "object" ? given.profile : findProfile(profilesWith(), given.profile ?? "h100");
  const sim = simNode({ clusterSeed: "seed", pool: "pool", profile, index: 0 });
  const options: PodLifeOptions = {
    clusterSeed: "seed",
    delays: fastDelays,
    gates: "wait",
    events: "all",
    ...given.options,
  };
  const lifeOptions = { ...nodeLifeDefaults, holder: given.holder ?? "us", clusterSeed: "seed" };
  let revision = 1;
  const memories = new Map<string, PodMemory>();
  const created = nodeObject(sim, { ordinal: 0, nowMs: startMs });
  const world: TestWorld = {
    nowMs: startMs,
    sim,
    node: stored(created) as Node,
    lease: undefined,
    pods: new Map(),
    phases: new Map(),
    events: [],
    faults: given.faults ?? [],
    refusals: 0,
    writes: 0,
    ghosts: [],
    add(pod) {
      const phase = pod.status?.phase ?? "Pending";
      world.pods.set(pod.metadata.name, stored(pod) as Pod);
      world.phases.set(pod.metadata.name, [phase]);
    },
    remove(name, graceSeconds) {
      const pod = world.pod(name);
      const hasEnded = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
      if ((graceSeconds === 0 || hasEnded) && (pod.metadata.finalizers ?? []).length === 0) {
        world.pods.delete(name);
        const ghost = ghostOf({ pod, sim, faults: world.faults, options, nowMs: world.nowMs });
        if (ghost !== undefined) world.ghosts.push(ghost);
        return;
      }
      const next = copyJson(pod);
      next.metadata.deletionTimestamp = formatTime(world.nowMs + graceSeconds * 1000);
      next.metadata.deletionGracePeriodSeconds = graceSeconds;
      next.metadata.resourceVersion = String(++revision);
      world.pods.set(name, next);
    },
    run(forMs) {
      const untilMs = world.nowMs + forMs;
      for (let turns = 0; ; turns++) {
        if (turns > 200_000) throw new Error("the world does not come to rest");
        const wakes = turn();
        const next = Math.min(...wakes, untilMs);
        if (next >= untilMs && !wakes.some((at) => at <= world.nowMs)) {
          world.nowMs = untilMs;
          for (let more = 0; more < 1000 && turn().some((at) => at <= untilMs); more++);
          return;
        }
        world.nowMs = Math.max(world.nowMs, next);
      }
    },
    pod(name) {
      const pod = world.pods.get(name);
      if (pod === undefined) throw new Error(`no pod ${name}`);
      return pod;
    },
  };

  function stored(object: unknown): KubeObject {
    const copy = copyJson(object) as KubeObject;
    copy.metadata.uid ??= `uid-${copy.metadata.name}`;
    copy.metadata.resourceVersion = String(++revision);
    copy.metadata.creationTimestamp ??= formatTime(startMs);
    // As an API server does: a time that was never set is null.
    const { conditions = [] } = (copy["status"] ?? {}) as { conditions?: { lastProbeTime?: string | null }[] };
    for (const condition of conditions) condition.lastProbeTime ??= null;
    return copy;
  }

  function apply(write: NodeWrite): void {
    if (write.kind !== "event") world.writes++;
    const { plural, name } = write.kind === "event" ? { plural: "", name: "" } : write.ref;
    switch (write.kind) {
      case "event":
        world.events.push(write);
        return;
      case "create":
        if (plural === "leases") world.lease = stored(write.object) as Lease;
        return;
      case "update": {
        const current = plural === "leases" ? world.lease : plural === "nodes" ? world.node : world.pods.get(name);
        const version = write.object.metadata.resourceVersion;
        if (current?.metadata.resourceVersion !== version) throw new Error(`conflict on ${plural} ${name}`);
        const object = stored(write.object);
        if (plural === "leases") world.lease = object as Lease;
        else if (plural === "nodes") world.node = object as Node;
        else {
          const pod = object as Pod;
          world.pods.set(name, pod);
          const phases = world.phases.get(name) ?? [];
          if (phases.at(-1) !== pod.status?.phase) phases.push(pod.status?.phase ?? "");
          world.phases.set(name, phases);
        }
        return;
      }
      case "patch": {
        const body = write.patch.body as {
          metadata?: { labels?: Record<string, string> };
          spec?: { unschedulable?: boolean | null };
        };
        if (plural !== "nodes" || world.node === undefined) throw new Error(`no patch for ${plural}`);
        const node = copyJson(world.node);
        node.metadata.labels = { ...node.metadata.labels, ...body.metadata?.labels };
        if (body.spec?.unschedulable === true) node.spec = { ...node.spec, unschedulable: true };
        if (body.spec?.unschedulable === null) delete node.spec?.unschedulable;
        world.node = stored(node) as Node;
        return;
      }
      case "delete":
        if (plural === "nodes") world.node = undefined;
        else if (plural === "pods") world.remove(name, write.graceSeconds);
        return;
      case "evict":
        world.remove(name, world.pod(name).spec?.terminationGracePeriodSeconds ?? 30);
        return;
    }
  }

  function turn(): number[] {
    const { nowMs } = world;
    if (world.node === undefined) return [];
    const pods = () => world.pods.values();
    const wakes: number[] = [];
    const nodeNext = nextForNode({
      node: world.node,
      sim,
      lease: world.lease,
      faults: world.faults,
      pods,
      options: lifeOptions,
      nowMs,
    });
    for (const write of nodeNext.writes) apply(write);
    if (nodeNext.wakeAtMs !== undefined) wakes.push(nodeNext.wakeAtMs);
    if (nodeNext.writes.some(({ kind }) => kind !== "event")) wakes.push(nowMs);
    if (!nodeNext.held) return wakes;
    for (const name of [...world.pods.keys()]) {
      const pod = world.pods.get(name);
      if (pod === undefined || world.node === undefined) continue;
      const memory = memories.get(pod.metadata.uid) ?? {};
      const { ghosts, faults, node } = world;
      const next = nextForPod({ pod, node, sim, state: nodeNext.state, faults, pods, ghosts, memory, options, nowMs });
      if (given.forgetful !== true) memories.set(pod.metadata.uid, next.memory);
      world.refusals += next.refusals;
      for (const write of next.writes) apply(write);
      if (next.wakeAtMs !== undefined) wakes.push(next.wakeAtMs);
      if (next.writes.some(({ kind }) => kind !== "event")) wakes.push(nowMs);
    }
    return wakes;
  }
  return world;
}

export interface PodWish {
  readonly name?: string;
  readonly gpus?: number;
  readonly spec?: Partial<PodSpec>;
  readonly annotations?: Record<string, string>;
  readonly labels?: Record<string, string>;
  readonly owner?: string;
}

export function testPod(wish: PodWish = {}): Pod {
  const { name = "p", gpus = 0, owner } = wish;
  const amounts = gpus > 0 ? { "nvidia.com/gpu": String(gpus) } : {};
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "default",
      uid: `uid-${name}`,
      resourceVersion: "1",
      creationTimestamp: formatTime(startMs),
      ...(wish.annotations ? { annotations: wish.annotations } : {}),
      ...(wish.labels ? { labels: wish.labels } : {}),
      ...(owner
        ? { ownerReferences: [{ apiVersion: "v1", kind: owner, name: "o", uid: "uid-o", controller: true }] }
        : {}),
    },
    spec: {
      nodeName: "pool-0",
      restartPolicy: owner === "Job" ? "Never" : "Always",
      terminationGracePeriodSeconds: 30,
      containers: [{ name: "main", image: "registry/app:1", resources: { limits: amounts, requests: amounts } }],
      ...wish.spec,
    },
    status: { phase: "Pending", qosClass: "BestEffort" },
  };
}
