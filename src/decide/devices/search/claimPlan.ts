/** The requests of claims, prepared once for all nodes: classes looked up, selectors compiled, amounts parsed. */
import type {
  DeviceClass,
  DeviceRequest,
  DeviceSubRequest,
  DeviceToleration,
  ExactDeviceRequest,
  ResourceClaim,
} from "../../../model/kubernetes.generated.ts";
import { parseQuantity, type Quantity } from "../../../model/values/quantity.ts";
import { type Constraint, constraintOf } from "./constraints.ts";
import type { DeviceFeatures } from "./features.ts";
import type { DeviceSelector, SelectorCache } from "./selectors.ts";

/** One way to satisfy a request: the request itself, or one of its alternatives. */
export interface PlannedOption {
  /** Position among all options of all claims. */
  readonly index: number;
  /** `request`, or `request/alternative`. */
  readonly label: string;
  readonly request: string;
  readonly deviceClass: DeviceClass;
  readonly selectors: readonly DeviceSelector[];
  readonly isAll: boolean;
  readonly count: number;
  readonly isAdmin: boolean;
  readonly tolerations: readonly DeviceToleration[] | undefined;
  readonly capacity: ReadonlyMap<string, Quantity> | undefined;
}

export interface PlannedRequest {
  readonly name: string;
  /** Whether the options are alternatives in order of preference. */
  readonly isList: boolean;
  readonly options: readonly PlannedOption[];
}

export interface PlannedClaim {
  readonly claim: ResourceClaim;
  readonly requests: readonly PlannedRequest[];
  readonly hasConstraints: boolean;
  /** Constraints have state, so each search gets its own. */
  readonly makeConstraints: () => Constraint[];
}

export interface ClaimPlan {
  readonly claims: readonly PlannedClaim[];
  readonly options: readonly PlannedOption[];
}

export type PlanResult =
  | { readonly ok: true; readonly plan: ClaimPlan }
  | { readonly ok: false; readonly message: string };

export interface PlanInput {
  readonly claims: readonly ResourceClaim[];
  readonly classOf: (name: string) => DeviceClass | undefined;
  readonly selectors: SelectorCache;
  readonly features: DeviceFeatures;
}

/** A claim that no node can serve. */
class Unservable {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}

export function planClaims(input: PlanInput): PlanResult {
  try {
    const options: PlannedOption[] = [];
    const claims = input.claims.map((claim) => planClaim(claim, input, options));
    return { ok: true, plan: { claims, options } };
  } catch (error) {
    if (error instanceof Unservable) return { ok: false, message: error.message };
    throw error;
  }
}

function planClaim(claim: ResourceClaim, input: PlanInput, options: PlannedOption[]): PlannedClaim {
  const devices = claim.spec.devices ?? {};
  const requests = (devices.requests ?? []).map((request) => planRequest(claim, request, input, options));
  const specs = devices.constraints ?? [];
  for (const [i, spec] of specs.entries()) {
    if (spec.matchAttribute === undefined && spec.distinctAttribute === undefined) {
      throw new Unservable(`claim ${nameOf(claim)}, constraint #${i}: empty constraint (unsupported constraint type?)`);
    }
  }
  const makeConstraints = (): Constraint[] =>
    specs.flatMap((spec) => {
      const constraint = constraintOf(spec);
      return constraint === undefined ? [] : [constraint];
    });
  return { claim, requests, hasConstraints: specs.length > 0, makeConstraints };
}

function planRequest(
  claim: ResourceClaim,
  request: DeviceRequest,
  input: PlanInput,
  options: PlannedOption[],
): PlannedRequest {
  const { features } = input;
  const { name, exactly, firstAvailable = [] } = request;
  const where = `claim ${nameOf(claim)}, request ${name}`;
  const isList = firstAvailable.length > 0;
  if (isList && !features.prioritizedList) {
    throw new Unservable(`${where}: has subrequests, but the DRAPrioritizedList feature is disabled`);
  }
  for (const each of exactly === undefined ? firstAvailable : [exactly, ...firstAvailable]) {
    if (each.capacity?.requests !== undefined && !features.consumableCapacity) {
      throw new Unservable(`${where}: has capacity requests, but the DRAConsumableCapacity feature is disabled`);
    }
  }
  if (isList) {
    const planned = firstAvailable.map((each) =>
      planOption(claim, { request: name, label: `${name}/${each.name}` }, each, input, options),
    );
    return { name, isList, options: planned };
  }
  if (exactly === undefined) throw new Unservable(`${where}: unsupported request type`);
  return { name, isList, options: [planOption(claim, { request: name, label: name }, exactly, input, options)] };
}

function planOption(
  claim: ResourceClaim,
  { request, label }: { request: string; label: string },
  spec: ExactDeviceRequest | DeviceSubRequest,
  { classOf, selectors, features }: PlanInput,
  options: PlannedOption[],
): PlannedOption {
  const where = `claim ${nameOf(claim)}, request ${label}`;
  for (const [i, { cel }] of (spec.selectors ?? []).entries()) {
    if (cel === undefined) {
      throw new Unservable(`${where}, selector #${i}: CEL expression empty (unsupported selector type?)`);
    }
  }
  const adminAccess = "adminAccess" in spec ? spec.adminAccess : undefined;
  if (adminAccess !== undefined && !features.adminAccess) {
    throw new Unservable(`${where}: admin access is requested, but the feature is disabled`);
  }
  if (spec.deviceClassName === "") throw new Unservable(`${where}: missing device class name`);
  const deviceClass = classOf(spec.deviceClassName);
  if (deviceClass === undefined) {
    throw new Unservable(`${where}: could not retrieve device class ${spec.deviceClassName}`);
  }
  const mode = spec.allocationMode ?? "ExactCount";
  if (mode !== "ExactCount" && mode !== "All") throw new Unservable(`${where}: unsupported count mode ${mode}`);
  const expressions = [...(deviceClass.spec.selectors ?? []), ...(spec.selectors ?? [])];
  const requests = Object.entries(spec.capacity?.requests ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  const option: PlannedOption = {
    index: options.length,
    label,
    request,
    deviceClass,
    selectors: expressions.flatMap(({ cel }) => (cel === undefined ? [] : [selectors.get(cel.expression)])),
    isAll: mode === "All",
    count: spec.count ?? 1,
    isAdmin: adminAccess === true,
    tolerations: spec.tolerations,
    capacity:
      requests.length === 0 ? undefined : new Map(requests.map(([name, amount]) => [name, parseQuantity(amount)])),
  };
  options.push(option);
  return option;
}

function nameOf({ metadata }: ResourceClaim): string {
  return metadata.name;
}
