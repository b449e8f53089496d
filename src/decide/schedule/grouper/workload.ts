import type { Pod } from "../../../model/kubernetes.generated.ts";
import { isObject, type JsonObject } from "../../../model/objects/json.ts";
import { splitApiVersion } from "../../../model/objects/object.ts";
import type { PodGroupSpec, SubGroup } from "../../../model/scheduling/podGroup.ts";

/** An owner of a pod; only its owner reference, if it cannot be read. */
export interface Workload {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: unknown;
  readonly status?: unknown;
}

/** The group of a pod, by the kind of its workload. */
export interface Grouping {
  /** By default `pg-<owner>-<uid>`. */
  readonly name?: string;
  readonly minMember?: number;
  readonly minSubGroup?: number;
  readonly subGroups?: readonly SubGroup[];
  /** The subgroup that this pod belongs to. */
  readonly subGroup?: string;
  readonly priorityClass: string;
  readonly topology?: PodGroupSpec["topologyConstraint"];
}

export interface GroupingInput {
  readonly pod: Pod;
  /** The owner that names the group. */
  readonly top: Workload;
  /** From the pod's own owner to the top one. */
  readonly chain: readonly Workload[];
  /** The group has subgroups already, or does not exist. */
  readonly maySubGroup: boolean;
  readonly gangScheduleKnative: boolean;
  /** Whether the job of this name, in the pod's namespace, has a launcher that is not terminating. */
  readonly hasLauncher: (job: string) => boolean;
}

export function kindName({ apiVersion, kind }: Workload): string {
  return `${splitApiVersion(apiVersion).group}/${kind}`;
}

export function field(value: unknown, ...path: readonly string[]): unknown {
  let at: unknown = value;
  for (const key of path) at = isObject(at) ? at[key] : undefined;
  return at;
}

export function numberAt(value: unknown, ...path: readonly string[]): number | undefined {
  const found = field(value, ...path);
  return typeof found === "number" && Number.isInteger(found) && found >= 0 ? found : undefined;
}

export function objectAt(value: unknown, ...path: readonly string[]): JsonObject {
  const found = field(value, ...path);
  return isObject(found) ? found : {};
}

export function listAt(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = field(value, ...path);
  return Array.isArray(found) ? found : [];
}

export function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^[0-9]{1,9}$/.test(text) ? Number(text) : undefined;
}
