import type { Workload } from "../../decide/schedule/grouper/workload.ts";
import { type KubeObject, type OwnerReference, splitApiVersion } from "../../model/objects/object.ts";
import { type Outcome, type Refusal, succeeded } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeReads } from "../../ports/kubeApi.ts";

/** No workload is nested deeper than this. */
const chainMax = 16;

/** Plurals that do not follow from their kinds. */
const plurals: Readonly<Record<string, string>> = { NetworkPolicy: "networkpolicies", PodCliqueSet: "podcliquesets" };

export interface OwnerChain {
  /** From the pod's own owner to the top one. */
  readonly owners: readonly Workload[];
  /** Why the pod is about to go with an owner of it: the garbage collector takes seconds for a large workload. */
  readonly going?: string;
  /** Another object has the owner's name: by a deletion and a re-creation, or because the reference is wrong. */
  readonly isReplaced?: boolean;
}

/**
 * The owners of a pod as the API has them now. What may not be read, or is of a kind that is not served, ends the chain
 * with what is known of it: it exists for all we know. An owner that is gone, or that another one has taken the name
 * of, is no such thing.
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
      if (isGone(found, owner.name)) return succeeded({ owners: chain, going: `${what} is gone` });
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

/** The object is not there. A path that the server does not know is answered by the same reason, without a name. */
function isGone({ reason, status }: Refusal, name: string): boolean {
  return reason === "NotFound" && status?.details?.name === name;
}

function pluralOf(kind: string): string {
  const lower = kind.toLowerCase();
  if (/(s|x|ch|sh)$/.test(lower)) return `${lower}es`;
  return /[^aeiou]y$/.test(lower) ? `${lower.slice(0, -1)}ies` : `${lower}s`;
}
