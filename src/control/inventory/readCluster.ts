/**
 * Reads nodes, pods and claims at one revision: pods first, because their list takes longest, then the others at the
 * revision of that list. If a list is refused or fails between two pages, the whole read fails.
 */
import { type InventorySnapshot, inventorySnapshot } from "../../decide/inventory/inventorySnapshot.ts";
import type { Read } from "../../decide/inventory/planAvailability.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeApi, ListOptions } from "../../ports/kubeApi.ts";

const pods = builtin.Pod;
const nodes = builtin.Node;
const claims = builtin.ResourceClaim;
const slices = builtin.ResourceSlice;
const pageSize = 500;
/** Succeeded and Failed pods hold no resources, and there can be many. */
const livePods = "status.phase!=Succeeded,status.phase!=Failed";

interface Listed<T extends KubeObject> {
  readonly items: readonly T[];
  readonly revision: string;
}

/** `denied`: listing claims or slices is forbidden. */
type ListRead<T extends KubeObject> =
  | { readonly ok: true; readonly value: Listed<T> }
  | { readonly ok: false; readonly why: string; readonly denied: boolean };

export async function readCluster(kube: KubeApi, cancel?: Cancel): Promise<Read<InventorySnapshot>> {
  const stop = cancel === undefined ? {} : { cancel };
  const podList = await listAll(kube, pods, { ...stop, fieldSelector: livePods });
  if (!podList.ok) return podList;
  const { revision } = podList.value;
  const [nodeList, claimList, sliceList] = await Promise.all([
    listAt(kube, nodes, revision, stop),
    listAt(kube, claims, revision, stop),
    listAt(kube, slices, revision, stop),
  ]);
  // If listing claims is forbidden, the read fails only when a pod has a claim.
  const isClaimed = podList.value.items.some(hasClaims);
  for (const list of [nodeList, claimList, sliceList]) {
    if (list.ok || (list.denied === true && !isClaimed)) continue;
    const cure =
      list.denied === true ? " (pods of this cluster use claims: grant the role of deploy/inventory.yaml)" : "";
    return { ok: false, why: `${list.why}${cure}` };
  }
  const snapshot = inventorySnapshot({
    nodes: nodeList.ok ? nodeList.value.items : [],
    pods: podList.value.items,
    claims: claimList.ok ? claimList.value.items : [],
    slices: sliceList.ok ? sliceList.value.items : [],
    revision,
  });
  return { ok: true, value: snapshot };
}

function hasClaims({ spec, status }: Pod): boolean {
  return (spec?.resourceClaims?.length ?? 0) > 0 || status?.extendedResourceClaimStatus !== undefined;
}

/** Lists at an exact revision; if that is compacted, at the newest. */
async function listAt<T extends KubeObject>(
  kube: KubeApi,
  kind: Resource<T>,
  revision: string,
  options: ListOptions,
): Promise<ListRead<T>> {
  const exact: ListOptions = { ...options, resourceVersion: revision, resourceVersionMatch: "Exact" };
  const exactList = await listAll(kube, kind, exact);
  return exactList.ok ? exactList : listAll(kube, kind, options);
}

async function listAll<T extends KubeObject>(
  kube: KubeApi,
  kind: Resource<T>,
  options: ListOptions,
): Promise<ListRead<T>> {
  const items: T[] = [];
  let page: ListOptions = { ...options, limit: pageSize };
  for (;;) {
    const outcome = await kube.list(kind, page);
    if (!outcome.ok) {
      // A cluster that does not serve resource.k8s.io has no claims.
      if (outcome.reason === "NotFound" && kind.group !== "") return { ok: true, value: { items: [], revision: "" } };
      const denied = outcome.reason === "Forbidden" && kind.group === claims.group;
      return { ok: false, why: `${kind.plural} could not be listed: ${outcome.reason}: ${outcome.message}`, denied };
    }
    items.push(...outcome.value.items);
    const { continueToken, revision } = outcome.value;
    if (continueToken === undefined || continueToken === "") return { ok: true, value: { items, revision } };
    const { resourceVersion: _, resourceVersionMatch: __, ...next } = page;
    page = { ...next, continueToken };
  }
}
