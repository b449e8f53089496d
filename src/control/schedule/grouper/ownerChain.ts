import type { Workload } from "../../../decide/schedule/grouper/workload.ts";
import { type KubeObject, type OwnerReference, splitApiVersion } from "../../../model/objects/object.ts";
import { type Outcome, type Refusal, succeeded } from "../../../model/outcome.ts";
import type { Cancel } from "../../../ports/cancel.ts";
import type { KubeReads } from "../../../ports/kubeApi.ts";

/** No workload is nested deeper than this. */
const chainMax = 16;

/** Plurals that do not follow from their kinds. */
const plurals: Readonly<Record<string, string>> = { NetworkPolicy: "networkpolicies", PodCliqueSet: "podcliquesets" };

export interface OwnerChain {
  /** From the pod's own owner to the top one. */
  readonly owners: readonly Workload[];
  /** Why the garbage collector will delete the pod with an owner; that takes seconds for a large workload. */
  readonly going?: string;
  /** Another object has the owner's name: the owner was created again, or the reference is wrong. */
  readonly isReplaced?: boolean;
}

/**
 * The owners of a pod as the API has them now. An owner that may not be read, or whose kind is not served, ends the
 * chain with its owner reference, and counts as existing. An owner that was deleted or replaced does not.
 */
export async function ownerChain(kube: KubeReads, pod: KubeObject, cancel: Cancel): Promise<Outcome<OwnerChain>> {
  const chain: Workload[] = [];
  let owners: readonly OwnerReference[] = pod.metadata.ownerReferences ?? [];
  const namespace = pod.metadata.namespace ?? "";
  while (owners.length > 0 && chain.length < chainMax) {
    const owner = owners.find(({ controller }) => controller === true) ?? (owners[0] as OwnerReference);
    const { group, version } = splitApiVersion(owner.apiVersion);
    const ref = { group, version, plural: plurals[owner.kind] ?? pluralOf(owner.kind), namespace, name: owner.name };
    const found = await kube.get(ref, { cancel });
    const what = `${owner.kind} ${owner.name}`;
    if (!found.ok) {
      if (isGone(found, owner.name)) return succeeded({ owners: chain, going: `${what} was deleted` });
      if (found.reason !== "NotFound" && found.reason !== "Forbidden") return found;
      const { apiVersion, kind, name, uid } = owner;
      return succeeded({ owners: [...chain, { apiVersion, kind, metadata: { name, uid, namespace } }] });
    }
    if (found.value.metadata.uid !== owner.uid) {
      const going = `${what} is not the pod's owner: it has another UID than the owner reference`;
      return succeeded({ owners: chain, going, isReplaced: true });
    }
    if (found.value.metadata.deletionTimestamp !== undefined) {
      return succeeded({ owners: chain, going: `${what} is being deleted` });
    }
    chain.push(found.value);
    owners = found.value.metadata.ownerReferences ?? [];
  }
  return succeeded({ owners: chain });
}

/** The object does not exist. For a path that the server does not serve the reason is the same, without a name. */
function isGone({ reason, status }: Refusal, name: string): boolean {
  return reason === "NotFound" && status?.details?.name === name;
}

function pluralOf(kind: string): string {
  const lower = kind.toLowerCase();
  if (/(s|x|ch|sh)$/.test(lower)) return `${lower}es`;
  return /[^aeiou]y$/.test(lower) ? `${lower.slice(0, -1)}ies` : `${lower}s`;
}
