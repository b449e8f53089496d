import { isObject } from "../../../model/objects/json.ts";
import { kaiSchedulerName, labelKeys } from "../../../model/scheduling/keys.ts";
import type { KaiConfigSpec } from "../../../model/scheduling/schedulingShard.ts";

/** The settings of the pod grouper in the installation's Config. */
export interface GrouperSettings {
  /** Only pods with these labels are grouped, in namespaces with these labels. */
  readonly podLabels: Readonly<Record<string, string>>;
  readonly namespaceLabels: Readonly<Record<string, string>>;
  /** `namespace/name` of the ConfigMap with the usual priority classes of kinds. */
  readonly priorities: string | undefined;
  /** Pods of a Knative revision start together. */
  readonly gangScheduleKnative: boolean;
}

const defaultGrouperSettings: GrouperSettings = {
  podLabels: {},
  namespaceLabels: {},
  priorities: undefined,
  gangScheduleKnative: true,
};

export interface ReadGrouperSettings {
  readonly settings: GrouperSettings;
  /** Settings that are not supported. */
  readonly problems: readonly string[];
}

/** The scheduler's name and the label keys are fixed; a Config that asks for others gets a problem. */
const fixed: readonly (readonly ["schedulerName" | "queueLabelKey" | "nodePoolLabelKey", string])[] = [
  ["schedulerName", kaiSchedulerName],
  ["queueLabelKey", labelKeys.queue],
  ["nodePoolLabelKey", labelKeys.nodePool],
];

export function readGrouperSettings(spec: KaiConfigSpec | undefined): ReadGrouperSettings {
  const problems: string[] = [];
  const { global = {}, podGrouper } = spec ?? {};
  for (const [field, value] of fixed) {
    const asked = global[field];
    if (asked !== undefined && asked !== value)
      problems.push(`spec.global.${field}: ${JSON.stringify(asked)} is not supported, ${value} is used`);
  }
  const { defaultPrioritiesConfigMapName: name, defaultPrioritiesConfigMapNamespace: namespace } =
    podGrouper?.args ?? {};
  const hasPriorities = name !== undefined && name !== "" && namespace !== undefined && namespace !== "";
  return {
    settings: {
      podLabels: global.podLabelSelector ?? {},
      namespaceLabels: global.namespaceLabelSelector ?? {},
      priorities: hasPriorities ? `${namespace}/${name}` : undefined,
      gangScheduleKnative: podGrouper?.args?.gangScheduleKnative ?? defaultGrouperSettings.gangScheduleKnative,
    },
    problems,
  };
}

export function hasLabels(
  labels: Readonly<Record<string, string>> | undefined,
  wanted: Readonly<Record<string, string>>,
): boolean {
  return Object.entries(wanted).every(([key, value]) => labels?.[key] === value);
}

/** The usual priority class of workloads, by `Kind.group`, and by `Kind` for any group. */
export type KindPriorities = ReadonlyMap<string, string>;

export const noKindPriorities: KindPriorities = new Map();

/** Reads the key `types`: a list of kinds with their classes. Invalid entries are ignored. */
export function readKindPriorities(text: string | undefined): KindPriorities {
  let list: unknown;
  try {
    list = JSON.parse(text ?? "[]");
  } catch {
    return noKindPriorities;
  }
  const classes = new Map<string, string>();
  for (const each of Array.isArray(list) ? list : []) {
    if (!isObject(each)) continue;
    const { typeName, group, priorityName } = each;
    if (typeof typeName !== "string" || typeof priorityName !== "string") continue;
    classes.set(typeof group === "string" && group !== "" ? `${typeName}.${group}` : typeName, priorityName);
  }
  return classes;
}

export function kindPriority(classes: KindPriorities, group: string, kind: string): string | undefined {
  return classes.get(`${kind}.${group}`) ?? classes.get(kind);
}
