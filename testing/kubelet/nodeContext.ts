/**
 * A minimal driver of a simulated node for tests: one node, its pods, and a clock that jumps from one wake-up to the
 * next.
 */

import type { Fault } from "../../src/kubelet/node/faults.ts";
import { nextForNode, nodeLifeDefaults } from "../../src/kubelet/node/nodeLife.ts";
import type { NodeEvent, NodeWrite } from "../../src/kubelet/node/nodeWrite.ts";
import { nodeObject, type SimNode, simNode } from "../../src/kubelet/node/simNode.ts";
import { orphanedPodOf } from "../../src/kubelet/pods/orphanedPod.ts";
import type { OrphanedPod, PodLifeOptions } from "../../src/kubelet/pods/podInput.ts";
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

export interface TestNode {
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
  orphans: OrphanedPod[];
  add(pod: Pod): void;
  remove(name: string, graceSeconds: number): void;
  /** Advances the clock and handles every wake-up in between. */
  run(forMs: number): void;
  pod(name: string): Pod;
}

export interface TestNodeOptions {
  readonly profile?: string | Profile;
  readonly options?: Partial<PodLifeOptions>;
  readonly faults?: Fault[];
  readonly holder?: string;
  /** Drops the pod memories after every step. */
  readonly forgetful?: boolean;
}

export function testNode(given: TestNodeOptions = {}): TestNode {
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
  const testbed: TestNode = {
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
    orphans: [],
    add(pod) {
      const phase = pod.status?.phase ?? "Pending";
      testbed.pods.set(pod.metadata.name, stored(pod) as Pod);
      testbed.phases.set(pod.metadata.name, [phase]);
    },
    remove(name, graceSeconds) {
      const pod = testbed.pod(name);
      const hasEnded = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
      if ((graceSeconds === 0 || hasEnded) && (pod.metadata.finalizers ?? []).length === 0) {
        testbed.pods.delete(name);
        const orphan = orphanedPodOf({ pod, sim, faults: testbed.faults, options, nowMs: testbed.nowMs });
        if (orphan !== undefined) testbed.orphans.push(orphan);
        return;
      }
      const next = copyJson(pod);
      next.metadata.deletionTimestamp = formatTime(testbed.nowMs + graceSeconds * 1000);
      next.metadata.deletionGracePeriodSeconds = graceSeconds;
      next.metadata.resourceVersion = String(++revision);
      testbed.pods.set(name, next);
    },
    run(forMs) {
      const untilMs = testbed.nowMs + forMs;
      for (let turns = 0; ; turns++) {
        if (turns > 200_000) throw new Error("the simulated node does not become idle");
        const wakes = turn();
        const next = Math.min(...wakes, untilMs);
        if (next >= untilMs && !wakes.some((at) => at <= testbed.nowMs)) {
          testbed.nowMs = untilMs;
          for (let more = 0; more < 1000 && turn().some((at) => at <= untilMs); more++);
          return;
        }
        testbed.nowMs = Math.max(testbed.nowMs, next);
      }
    },
    pod(name) {
      const pod = testbed.pods.get(name);
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
    if (write.kind !== "event") testbed.writes++;
    const { plural, name } = write.kind === "event" ? { plural: "", name: "" } : write.ref;
    switch (write.kind) {
      case "event":
        testbed.events.push(write);
        return;
      case "create":
        if (plural === "leases") testbed.lease = stored(write.object) as Lease;
        return;
      case "update": {
        const current =
          plural === "leases" ? testbed.lease : plural === "nodes" ? testbed.node : testbed.pods.get(name);
        const version = write.object.metadata.resourceVersion;
        if (current?.metadata.resourceVersion !== version) throw new Error(`conflict on ${plural} ${name}`);
        const object = stored(write.object);
        if (plural === "leases") testbed.lease = object as Lease;
        else if (plural === "nodes") testbed.node = object as Node;
        else {
          const pod = object as Pod;
          testbed.pods.set(name, pod);
          const phases = testbed.phases.get(name) ?? [];
          if (phases.at(-1) !== pod.status?.phase) phases.push(pod.status?.phase ?? "");
          testbed.phases.set(name, phases);
        }
        return;
      }
      case "patch": {
        const body = write.patch.body as {
          metadata?: { labels?: Record<string, string> };
          spec?: { unschedulable?: boolean | null };
        };
        if (plural !== "nodes" || testbed.node === undefined) throw new Error(`no patch for ${plural}`);
        const node = copyJson(testbed.node);
        node.metadata.labels = { ...node.metadata.labels, ...body.metadata?.labels };
        if (body.spec?.unschedulable === true) node.spec = { ...node.spec, unschedulable: true };
        if (body.spec?.unschedulable === null) delete node.spec?.unschedulable;
        testbed.node = stored(node) as Node;
        return;
      }
      case "delete":
        if (plural === "nodes") testbed.node = undefined;
        else if (plural === "pods") testbed.remove(name, write.graceSeconds);
        return;
      case "evict":
        testbed.remove(name, testbed.pod(name).spec?.terminationGracePeriodSeconds ?? 30);
        return;
    }
  }

  function turn(): number[] {
    const { nowMs } = testbed;
    if (testbed.node === undefined) return [];
    const pods = () => testbed.pods.values();
    const wakes: number[] = [];
    const nodeNext = nextForNode({
      node: testbed.node,
      sim,
      lease: testbed.lease,
      faults: testbed.faults,
      pods,
      options: lifeOptions,
      nowMs,
    });
    for (const write of nodeNext.writes) apply(write);
    if (nodeNext.wakeAtMs !== undefined) wakes.push(nodeNext.wakeAtMs);
    if (nodeNext.writes.some(({ kind }) => kind !== "event")) wakes.push(nowMs);
    if (!nodeNext.held) return wakes;
    for (const name of [...testbed.pods.keys()]) {
      const pod = testbed.pods.get(name);
      if (pod === undefined || testbed.node === undefined) continue;
      const memory = memories.get(pod.metadata.uid) ?? {};
      const { orphans, faults, node } = testbed;
      const next = nextForPod({ pod, node, sim, state: nodeNext.state, faults, pods, orphans, memory, options, nowMs });
      if (given.forgetful !== true) memories.set(pod.metadata.uid, next.memory);
      testbed.refusals += next.refusals;
      for (const write of next.writes) apply(write);
      if (next.wakeAtMs !== undefined) wakes.push(next.wakeAtMs);
      if (next.writes.some(({ kind }) => kind !== "event")) wakes.push(nowMs);
    }
    return wakes;
  }
  return testbed;
}

export interface TestPodOptions {
  readonly name?: string;
  readonly gpus?: number;
  readonly spec?: Partial<PodSpec>;
  readonly annotations?: Record<string, string>;
  readonly labels?: Record<string, string>;
  readonly owner?: string;
}

export function testPod(wish: TestPodOptions = {}): Pod {
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
