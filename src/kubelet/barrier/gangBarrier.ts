/**
 * Proves that a gang waits until all of it fits, by making it one GPU short and then adding the GPU:
 *
 *   node with 3 GPUs, gang of 4     no member may be bound, at any moment
 *   second node with 1 GPU          all four are bound
 *
 * The times at which members were scheduled prove nothing: a scheduler that binds one pod after the other is fast too.
 * Every write to the members is watched, so that a bind that is reverted is noticed as well.
 */

import type { CheckFinding, Evidence } from "../../decide/verify/check.ts";
import type { KubeObject, Unstored } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import type { Outcome } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { podGroupRef } from "../../model/scheduling/podGroup.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi, ObjectRef } from "../../ports/kubeApi.ts";
import {
  type Barrier,
  barrierGroup,
  barrierNamespace,
  barrierNode,
  barrierPod,
  gangSize,
  shortGpus,
} from "./barrierObjects.ts";

export interface ProofOptions {
  /** Identifies the run. */
  readonly id: string;
  /** For how long no member may be bound. */
  readonly holdMs?: number;
  /** How long all may take once they fit. */
  readonly bindMs?: number;
  /** A cancelled proof has no result; what it created is deleted all the same. */
  readonly cancel?: Cancel;
}

const namespaces = builtin.Namespace;
const nodes = builtin.Node;
const pods = builtin.Pod;
const pollMs = 250;
/** How long a scheduler may take to report the gang as unschedulable. */
const holdMsDefault = 4_000;
const bindMsDefault = 30_000;

export async function proveGangBarrier(
  ports: { readonly kube: KubeApi; readonly clock: Clock },
  options: ProofOptions,
): Promise<CheckFinding> {
  const served = await ports.kube.list(podGroupRef, { limit: 1 });
  if (!served.ok && served.reason === "NotFound") {
    return { status: "skipped", message: "not applicable: PodGroups are not served", evidence: [] };
  }
  if (!served.ok) return { status: "other", message: `PodGroups cannot be read: ${served.message}`, evidence: [] };
  const proof = new Proof(ports, options);
  try {
    return await proof.run();
  } finally {
    await proof.cleanUp();
  }
}

class Proof {
  private readonly kube: KubeApi;
  private readonly clock: Clock;
  private readonly options: ProofOptions;
  private readonly barrier: Barrier;
  private readonly made: { ref: ObjectRef; uid: string }[] = [];

  constructor({ kube, clock }: { kube: KubeApi; clock: Clock }, options: ProofOptions) {
    this.kube = kube;
    this.clock = clock;
    this.options = options;
    this.barrier = { id: options.id, nowMs: clock.nowMs() };
  }

  async run(): Promise<CheckFinding> {
    const { barrier } = this;
    const start = [
      await this.make(namespaces, barrierNamespace(barrier)),
      await this.make(nodes, barrierNode(barrier, 0, shortGpus)),
      await this.make(podGroupRef, barrierGroup(barrier)),
    ].find((outcome) => !outcome.ok);
    if (start !== undefined && !start.ok) return other(`the gang could not be created: ${start.message}`);
    const members = new Members(this.kube, this.namespace);
    try {
      for (let index = 0; index < gangSize; index++) {
        const pod = await this.make(pods, barrierPod(barrier, index));
        if (!pod.ok) return other(`a member could not be created: ${pod.message}`);
        if (index === 0) members.watch(pod.value.metadata.resourceVersion);
      }
      const held = await this.hold(members);
      if (held !== undefined) return held;
      const second = await this.make(nodes, barrierNode(barrier, 1, gangSize - shortGpus));
      if (!second.ok) return other(`the second node could not be created: ${second.message}`);
      return await this.waitForAll(members);
    } finally {
      members.stop();
    }
  }

  /** One GPU is missing: a member that is bound now belongs to an incomplete gang. */
  private async hold(members: Members): Promise<CheckFinding | undefined> {
    const untilMs = this.clock.nowMs() + (this.options.holdMs ?? holdMsDefault);
    for (;;) {
      const bound = members.bound();
      if (bound.length > 0) {
        const message = `with ${shortGpus} GPUs for ${gangSize} members ${bound.length} were bound`;
        return { status: "failed", message, evidence: bound };
      }
      if (this.isCancelled()) return other("interrupted");
      if (this.clock.nowMs() >= untilMs) break;
      await this.pause();
    }
    // The watch may have been interrupted, so a consistent read decides.
    const read = await this.kube.list(pods, { namespace: this.namespace });
    if (!read.ok) return other(`members could not be read: ${read.message}`);
    for (const pod of read.value.items) members.see(pod);
    const bound = members.bound();
    if (bound.length === 0) return undefined;
    return { status: "failed", message: `with one GPU short ${bound.length} members were bound`, evidence: bound };
  }

  private async waitForAll(members: Members): Promise<CheckFinding> {
    const untilMs = this.clock.nowMs() + (this.options.bindMs ?? bindMsDefault);
    for (;;) {
      const read = await this.kube.list(pods, { namespace: this.namespace });
      if (read.ok) for (const pod of read.value.items) members.see(pod);
      const bound = members.bound();
      if (bound.length === gangSize) {
        const message = `none of ${gangSize} members was bound while one GPU was short; all were bound when it was added`;
        return { status: "passed", message, evidence: [] };
      }
      if (this.isCancelled()) return other("interrupted");
      if (this.clock.nowMs() >= untilMs) {
        const message = `all ${gangSize} members fit and ${bound.length} are bound`;
        const missing = { object: `podgroups/${this.namespace}/barrier`, problem: message };
        return { status: "failed", message, evidence: [missing, ...bound] };
      }
      await this.pause();
    }
  }

  /**
   * Deletes only the objects of this run, by UID, newest first. An object that cannot be deleted can be found by the
   * namespace of the run.
   */
  async cleanUp(): Promise<void> {
    for (const { ref, uid } of this.made.reverse()) {
      await this.kube.delete(ref, { preconditions: { uid }, gracePeriodSeconds: 0 });
    }
  }

  private isCancelled(): boolean {
    return this.options.cancel?.cancelled === true;
  }

  private get namespace(): string {
    return `muster-barrier-${this.barrier.id}`;
  }

  private async make<T extends KubeObject>(kind: Resource<T>, object: Unstored<T>): Promise<Outcome<T>> {
    const outcome = await this.kube.create(kind, object);
    if (outcome.ok) {
      const { namespace = "", name, uid } = outcome.value.metadata;
      this.made.push({ ref: { ...kind, namespace, name }, uid });
    }
    return outcome;
  }

  private pause(): Promise<void> {
    return new Promise((resolve) => void this.clock.after(pollMs, resolve));
  }
}

/** Every member that was ever observed with a node. */
class Members {
  private readonly kube: KubeApi;
  private readonly namespace: string;
  private readonly seen = new Map<string, Evidence>();
  private watching: { stop(): void } | undefined;

  constructor(kube: KubeApi, namespace: string) {
    this.kube = kube;
    this.namespace = namespace;
  }

  watch(resourceVersion: string): void {
    this.watching = this.kube.watch(
      pods,
      { namespace: this.namespace, resourceVersion },
      {
        event: (event) => {
          if (event.type !== "BOOKMARK") this.see(event.object);
        },
        ended: () => {},
      },
    );
  }

  see(pod: KubeObject): void {
    const node = (pod["spec"] as { nodeName?: string } | undefined)?.nodeName ?? "";
    const { name, uid, resourceVersion } = pod.metadata;
    if (node === "" || this.seen.has(uid)) return;
    const problem = `on ${node} at revision ${resourceVersion}`;
    this.seen.set(uid, { object: `pods/${this.namespace}/${name}`, problem });
  }

  bound(): Evidence[] {
    return [...this.seen.values()];
  }

  stop(): void {
    this.watching?.stop();
  }
}

function other(message: string): CheckFinding {
  return { status: "other", message, evidence: [] };
}
