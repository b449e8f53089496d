import { claimsRef } from "../../decide/bind/claimStatus.ts";
import type { ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { Outcome } from "../../model/outcome.ts";
import type { KubeList, KubeReads } from "../../ports/kubeApi.ts";

/**
 * All claims, by a list that begins after the call. Calls that arrive while a list is in flight share the next one: a
 * hundred binds at once cost two lists, not a hundred.
 */
export class FreshClaims {
  private readonly kube: KubeReads;
  private current: Promise<unknown> | undefined;
  private next: Promise<Outcome<KubeList<ResourceClaim>>> | undefined;

  constructor(kube: KubeReads) {
    this.kube = kube;
  }

  list(): Promise<Outcome<KubeList<ResourceClaim>>> {
    this.next ??= this.afterCurrent();
    return this.next;
  }

  private async afterCurrent(): Promise<Outcome<KubeList<ResourceClaim>>> {
    await this.current;
    this.next = undefined;
    const list = this.kube.list<ResourceClaim>(claimsRef);
    this.current = list;
    return list;
  }
}
