import type { KubeObject } from "../../model/object.ts";
import { formatMicroTime } from "../../model/time.ts";
import type { ObjectRef } from "../../ports/kubeApi.ts";
import type { ActorPorts } from "../actor.ts";

/** How long a lease holds without being renewed, and how often it is renewed. */
export const leaseMs = 3_000;
const renewMs = 800;
/** The holder gives up earlier than others take over: the difference is what clocks and networks may cost. */
const margin = 800;

/** Who leads, by a Lease object. What others wrote is judged by how long it has not changed, on our own clock. */
export class SimpleLease {
  /** How often the lease has changed hands, as far as we took it: 0 when we never led. */
  epoch = 0;
  /** The revision at which we last became the leader: what the leader before us did is older. */
  sinceRevision = 0;
  private readonly ports: ActorPorts;
  private readonly ref: ObjectRef;
  private readonly identity: string;
  private readonly gained: () => void;
  private validUntilMs = 0;
  private leading = false;
  private observed: { version: string; sinceMs: number } | undefined;

  constructor(ports: ActorPorts, name: string, gained: () => void) {
    this.ports = ports;
    this.ref = { group: "coordination.k8s.io", version: "v1", plural: "leases", namespace: "default", name };
    this.identity = `${ports.name}_${ports.random.uint32().toString(16)}`;
    this.gained = gained;
  }

  /** Asked before every write. A leader that cannot be sure any more does not lead. */
  get isLeading(): boolean {
    return this.leading && this.ports.clock.nowMs() < this.validUntilMs;
  }

  /** Whether we led when we last looked, however long ago that was. */
  get ledOnce(): boolean {
    return this.epoch > 0;
  }

  async run(): Promise<void> {
    while (!this.ports.cancel.cancelled) {
      await this.round();
      await this.ports.sleep(renewMs);
    }
  }

  private async round(): Promise<void> {
    const { kube, clock } = this.ports;
    const found = await kube.get(this.ref);
    if (!found.ok) {
      if (found.reason === "NotFound") await this.take(undefined);
      return;
    }
    const lease = found.value;
    const spec = (lease["spec"] ?? {}) as { holderIdentity?: string; leaseTransitions?: number };
    if (spec.holderIdentity === this.identity) {
      await this.take(lease);
      return;
    }
    this.leading = false;
    const version = lease.metadata.resourceVersion;
    if (this.observed?.version !== version) this.observed = { version, sinceMs: clock.nowMs() };
    else if (clock.nowMs() >= this.observed.sinceMs + leaseMs) await this.take(lease);
  }

  /** Takes or renews. The time that counts is the one before we asked. */
  private async take(lease: KubeObject | undefined): Promise<void> {
    const { kube, clock } = this.ports;
    const askedMs = clock.nowMs();
    const spec = (lease?.["spec"] ?? {}) as { holderIdentity?: string; leaseTransitions?: number };
    const mine = spec.holderIdentity === this.identity;
    const next = {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: lease?.metadata ?? { name: this.ref.name, namespace: this.ref.namespace },
      spec: {
        holderIdentity: this.identity,
        leaseDurationSeconds: leaseMs / 1000,
        renewTime: formatMicroTime(askedMs),
        leaseTransitions: (spec.leaseTransitions ?? 0) + (mine ? 0 : 1),
      },
    } as unknown as KubeObject;
    const outcome = lease === undefined ? await kube.create(this.ref, next) : await kube.update(this.ref, next);
    if (!outcome.ok) return;
    this.validUntilMs = askedMs + leaseMs - margin;
    if (mine && this.leading) return;
    this.leading = true;
    this.epoch = (outcome.value["spec"] as { leaseTransitions: number }).leaseTransitions;
    this.sinceRevision = Number(outcome.value.metadata.resourceVersion);
    this.gained();
  }
}
