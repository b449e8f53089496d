/**
 * The PodGroup of a pod, for claims: a pod uses the group's claim where its own entry equals the group's, and such a
 * claim is reserved for the group, so that any number of pods needs one reservation. Disabled by default, as in
 * Kubernetes.
 */
import type {
  Pod,
  PodGroup,
  PodResourceClaim,
  ResourceClaimConsumerReference,
} from "../../../model/kubernetes.generated.ts";
import { builtin } from "../../../model/resources.generated.ts";

export const podGroupKind = builtin.PodGroup;

/**
 * The group of a pod: "none" without one or where group claims are disabled; "missing" for one that does not exist
 * yet; or the group.
 */
export type PodsGroup = PodGroup | "none" | "missing";

/** `get` is undefined where group claims are disabled. */
export function groupOfPod(
  pod: Pod,
  get: ((namespace: string, name: string) => PodGroup | undefined) | undefined,
): PodsGroup {
  const name = pod.spec?.schedulingGroup?.podGroupName;
  if (get === undefined || !name) return "none";
  return get(pod.metadata.namespace ?? "", name) ?? "missing";
}

/** The group, if it has the same entry. */
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

/** The reference to a group in a reservation. */
export interface GroupName {
  readonly metadata: { readonly name: string; readonly uid: string };
}

export function groupReference({ metadata }: GroupName): ResourceClaimConsumerReference {
  return { apiGroup: podGroupKind.group, resource: podGroupKind.plural, name: metadata.name, uid: metadata.uid };
}

export function isGroupReference({ apiGroup, resource }: ResourceClaimConsumerReference): boolean {
  return apiGroup === podGroupKind.group && resource === podGroupKind.plural;
}

/** The name of the group's claim for an entry, once the group's status has it. */
export function groupClaimName(group: PodGroup, entry: string): string | undefined {
  return group.status?.resourceClaimStatuses?.find(({ name }) => name === entry)?.resourceClaimName;
}
