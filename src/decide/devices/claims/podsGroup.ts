/**
 * The PodGroup of a pod, and what it means for claims: a pod uses the group's claim where its own entry says the same
 * as the group's, and such a claim is reserved for the group as a whole, so that any number of pods needs one
 * reservation. Off unless asked for, as in Kubernetes.
 */
import type {
  Pod,
  PodGroup,
  PodResourceClaim,
  ResourceClaimConsumerReference,
} from "../../../model/kubernetes.generated.ts";
import { builtin } from "../../../model/resources.generated.ts";

export const podGroupKind = builtin.PodGroup;

/** The group of a pod: none, or group claims are off; one that is named and not there yet; or itself. */
export type PodsGroup = PodGroup | "none" | "missing";

/** `get` is undefined where group claims are off. */
export function groupOfPod(
  pod: Pod,
  get: ((namespace: string, name: string) => PodGroup | undefined) | undefined,
): PodsGroup {
  const name = pod.spec?.schedulingGroup?.podGroupName;
  if (get === undefined || !name) return "none";
  return get(pod.metadata.namespace ?? "", name) ?? "missing";
}

/** The group, where the entry is its own too. */
export function groupOfEntry(group: PodsGroup, entry: PodResourceClaim): PodGroup | undefined {
  if (typeof group === "string") return undefined;
  const isSame = group.spec.resourceClaims?.some(
    ({ name, resourceClaimName, resourceClaimTemplateName }) =>
      name === entry.name &&
      resourceClaimName === entry.resourceClaimName &&
      resourceClaimTemplateName === entry.resourceClaimTemplateName,
  );
  return isSame === true ? group : undefined;
}

/** What a reservation says of a group. */
export interface GroupName {
  readonly metadata: { readonly name: string; readonly uid: string };
}

export function groupReference({ metadata }: GroupName): ResourceClaimConsumerReference {
  return { apiGroup: podGroupKind.group, resource: podGroupKind.plural, name: metadata.name, uid: metadata.uid };
}

export function isGroupReference({ apiGroup, resource }: ResourceClaimConsumerReference): boolean {
  return apiGroup === podGroupKind.group && resource === podGroupKind.plural;
}

/** The group's claim for an entry, once its status says so. */
export function groupClaimName(group: PodGroup, entry: string): string | undefined {
  return group.status?.resourceClaimStatuses?.find(({ name }) => name === entry)?.resourceClaimName;
}
