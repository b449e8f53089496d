/** Devices for claims on one node: the search, and its result as an AllocationResult. */
import type {
  AllocationResult,
  DeviceAllocationConfiguration,
  DeviceRequestAllocationResult,
  Node,
  NodeSelector,
  NodeSelectorRequirement,
  ResourceClaim,
} from "../../../model/kubernetes.generated.ts";
import { formatQuantity } from "../../../model/values/quantity.ts";
import { seededUuid } from "../../../model/values/seeded.ts";
import type { AllocatedState } from "./allocatedState.ts";
import type { Taken } from "./attempt.ts";
import type { ClaimPlan, PlannedClaim } from "./claimPlan.ts";
import type { DeviceFeatures } from "./features.ts";
import { BadSelector, type NodePools, type Place, type SliceIndex } from "./pools.ts";
import { type SearchInput, search } from "./search.ts";

export type Allocation =
  /** One result for each claim of the plan, in its order. */
  | { readonly kind: "allocated"; readonly results: readonly AllocationResult[]; readonly visited: number }
  | { readonly kind: "doesNotFit"; readonly visited: number }
  /** `isNodeLocal`: other nodes may fit. Otherwise no node can: the claim or a class is invalid. */
  | { readonly kind: "failed"; readonly message: string; readonly isNodeLocal: boolean; readonly visited: number }
  | { readonly kind: "stopped"; readonly why: string; readonly visited: number };

export interface AllocateInput {
  readonly plan: ClaimPlan;
  readonly sliceIndex: SliceIndex;
  readonly node: Node;
  readonly state: AllocatedState;
  readonly features: DeviceFeatures;
  readonly stop?: () => string | undefined;
  readonly aids?: SearchInput["aids"];
}

export function allocate(input: AllocateInput): Allocation {
  const { plan, sliceIndex, node, aids, ...rest } = input;
  let pools: NodePools;
  try {
    pools = sliceIndex.poolsOf(node);
  } catch (error) {
    if (!(error instanceof BadSelector)) throw error;
    return { kind: "failed", message: error.message, isNodeLocal: false, visited: 0 };
  }
  if (plan.claims.length === 0) return { kind: "allocated", results: [], visited: 0 };
  const found = search({ plan, pools, ...rest, ...(aids !== undefined && { aids }) });
  switch (found.kind) {
    case "none":
      return { kind: "doesNotFit", visited: found.visited };
    case "failed":
    case "stopped":
      return found;
    case "found": {
      const results: AllocationResult[] = [];
      for (const [i, claim] of plan.claims.entries()) {
        const result = resultOf(claim, found.taken[i] ?? [], input);
        if (typeof result === "string") {
          return { kind: "failed", message: result, isNodeLocal: false, visited: found.visited };
        }
        results.push(result);
      }
      return { kind: "allocated", results, visited: found.visited };
    }
  }
}

function resultOf(
  planned: PlannedClaim,
  taken: readonly Taken[],
  { node, features }: Pick<AllocateInput, "node" | "features">,
): AllocationResult | string {
  const { claim } = planned;
  const isSharing = features.consumableCapacity;
  const nodeSelector = nodeSelectorOf(taken, node);
  if (typeof nodeSelector === "string") return nodeSelector;
  const config = configOf(planned, taken);
  return {
    devices: {
      ...(taken.length > 0 && { results: taken.map((each, i) => deviceResult(each, claim, i, isSharing)) }),
      ...(config.length > 0 && { config }),
    },
    ...(nodeSelector !== undefined && { nodeSelector }),
  };
}

function deviceResult(
  { option, device, consumed }: Taken,
  claim: ResourceClaim,
  position: number,
  isSharing: boolean,
): DeviceRequestAllocationResult {
  const { it } = device;
  const { bindingConditions, bindingFailureConditions } = it.device;
  const result: DeviceRequestAllocationResult = {
    request: option.label,
    driver: it.driver,
    pool: it.pool,
    device: it.device.name,
  };
  if (option.isAdmin) result.adminAccess = true;
  if (option.tolerations !== undefined && option.tolerations.length > 0) {
    result.tolerations = option.tolerations.map((each) => ({ ...each }));
  }
  if (bindingConditions !== undefined) result.bindingConditions = [...bindingConditions];
  if (bindingFailureConditions !== undefined) result.bindingFailureConditions = [...bindingFailureConditions];
  if (it.isShareable && isSharing) {
    // Random ids would differ when a decision is taken again; this one is derived from the version of the claim and the
    // index of the result.
    const { uid, resourceVersion } = claim.metadata;
    result.shareID = seededUuid(uid, resourceVersion, it.key, position);
    if (consumed !== undefined && consumed.size > 0) {
      result.consumedCapacity = Object.fromEntries([...consumed].map(([name, each]) => [name, formatQuantity(each)]));
    }
  }
  return result;
}

/** The configuration of the used classes, then that of the claim for the chosen requests. */
function configOf({ claim, requests }: PlannedClaim, taken: readonly Taken[]): DeviceAllocationConfiguration[] {
  const chosen = requests.map(({ name, options }) => {
    const option = taken.find((each) => each.option.request === name)?.option ?? options[0];
    return { name, label: option?.label ?? name, deviceClass: option?.deviceClass };
  });
  const configs: DeviceAllocationConfiguration[] = [];
  const byClass = new Map<string, string[]>();
  for (const { label, deviceClass } of chosen) {
    if (deviceClass === undefined) continue;
    const known = byClass.get(deviceClass.metadata.name);
    if (known !== undefined) {
      known.push(label);
      continue;
    }
    const labels = [label];
    byClass.set(deviceClass.metadata.name, labels);
    for (const { opaque } of deviceClass.spec.config ?? []) {
      configs.push({ source: "FromClass", requests: labels, ...(opaque !== undefined && { opaque }) });
    }
  }
  for (const { requests: names = [], opaque } of claim.spec.devices?.config ?? []) {
    const isMeant =
      names.length === 0 || chosen.some(({ name, label }) => names.includes(name) || names.includes(label));
    if (isMeant) configs.push({ source: "FromClaim", requests: [...names], ...(opaque !== undefined && { opaque }) });
  }
  return configs.map(({ requests: names = [], ...rest }) => {
    const coversAll = chosen.every(({ name, label }) => names.includes(name) || names.includes(label));
    return names.length === 0 || coversAll ? rest : { ...rest, requests: names };
  });
}

/** The node selector of the allocation: one node, the nodes that reach all devices, or every node. */
function nodeSelectorOf(taken: readonly Taken[], node: Node): NodeSelector | undefined | string {
  const expressions: NodeSelectorRequirement[] = [];
  const fields: NodeSelectorRequirement[] = [];
  for (const { device } of taken) {
    const { it } = device;
    const { spec } = it.slice;
    const place: Place = spec.perDeviceNodeSelection === true ? it.device : spec;
    if (place.nodeName || it.device.bindsToNode === true) {
      const name = { key: "metadata.name", operator: "In", values: [node.metadata.name] };
      return { nodeSelectorTerms: [{ matchFields: [name] }] };
    }
    const { nodeSelector } = place;
    if (nodeSelector === undefined) continue;
    const [term, ...more] = nodeSelector.nodeSelectorTerms;
    if (term === undefined || more.length > 0) {
      return `device ${it.key}: a node selector with ${nodeSelector.nodeSelectorTerms.length} terms is not supported`;
    }
    for (const each of term.matchExpressions ?? []) addOnce(expressions, each);
    for (const each of term.matchFields ?? []) addOnce(fields, each);
  }
  if (expressions.length === 0 && fields.length === 0) return undefined;
  return {
    nodeSelectorTerms: [
      {
        ...(expressions.length > 0 && { matchExpressions: expressions }),
        ...(fields.length > 0 && { matchFields: fields }),
      },
    ],
  };
}

function addOnce(list: NodeSelectorRequirement[], each: NodeSelectorRequirement): void {
  const values = [...(each.values ?? [])].sort().join("\u0000");
  const isKnown = list.some(
    (other) =>
      other.key === each.key &&
      other.operator === each.operator &&
      [...(other.values ?? [])].sort().join("\u0000") === values,
  );
  if (!isKnown) list.push(each);
}
