/**
 * The settings of the gang operator: the fields of Grove's OperatorConfiguration that Muster uses, their defaults and
 * validation, and Muster's own (`gangTermination`).
 */
import { duplicate, type FieldError, invalid, notSupported, required } from "../objects/fieldError.ts";
import { isObject } from "../objects/json.ts";
import { unknownFields } from "./configurationFields.ts";

/**
 * What happens to a clique or group that has lost every scheduled replica. `Suppress`: it is not a breach; only an
 * Event reports it. `Terminate`: it is a breach if the minimum was ever scheduled.
 */
export type FullLossPolicy = "Suppress" | "Terminate";

export type SchedulerName = "default-scheduler" | "kai-scheduler";
export const schedulerNames: readonly SchedulerName[] = ["default-scheduler", "kai-scheduler"];

/** How a pod waits until the cliques that it starts after are ready. */
export type StartOrder =
  /**
   * The init container of this image, as in Grove. With `simulatedNodes` the annotation is set as well, for a cluster
   * with real and simulated nodes.
   */
  | {
      readonly by: "container";
      readonly image: string;
      readonly pullPolicy?: string;
      readonly simulatedNodes?: boolean;
    }
  /** The simulated node waits for an annotation that the operator changes; no image is pulled. */
  | { readonly by: "simulated-node" };

export interface GangSettings {
  readonly fullLossPolicy: FullLossPolicy;
  readonly profiles: readonly SchedulerName[];
  readonly defaultProfile: SchedulerName;
  readonly topologyAware: boolean;
  readonly startOrder: StartOrder;
  readonly authorizer: { readonly enabled: boolean; readonly exemptUsers: readonly string[] };
  readonly concurrency: {
    readonly podCliqueSet: number;
    readonly podClique: number;
    readonly podCliqueScalingGroup: number;
    readonly podGang: number;
  };
}

export const defaultGangSettings: GangSettings = {
  fullLossPolicy: "Suppress",
  profiles: schedulerNames,
  defaultProfile: "default-scheduler",
  topologyAware: true,
  startOrder: { by: "simulated-node" },
  authorizer: { enabled: false, exemptUsers: [] },
  concurrency: { podCliqueSet: 10, podClique: 10, podCliqueScalingGroup: 5, podGang: 5 },
};

/** The name of the init container's image on simulated nodes, which pull no image. */
export const simulatedInitImage = "muster.dev/grove-initc:simulated";

/** The annotation of a simulated node for how long the init container runs. */
export const startWaitAnnotation = "sim.muster.dev/run-duration.grove-initc";
export const startWaitPending = "87600h";
export const startWaitDone = "0s";

/** Whether the operator ends the wait by an annotation. */
export function marksSimulated({ startOrder }: GangSettings): boolean {
  return startOrder.by === "simulated-node" || startOrder.simulatedNodes === true;
}

export const configurationApiVersion = "operator.config.grove.io/v1alpha1";

/**
 * Reads an OperatorConfiguration. Fields about servers, certificates and logs are accepted and have no effect in this
 * process. A misspelt field is refused.
 */
export function readGangConfiguration(
  document: unknown,
): { readonly settings: GangSettings } | { readonly errors: readonly FieldError[] } {
  const errors: FieldError[] = [];
  if (!isObject(document)) return { errors: [invalid("", document, "must be an OperatorConfiguration")] };
  if (document["apiVersion"] !== configurationApiVersion) {
    errors.push(notSupported("apiVersion", document["apiVersion"], [configurationApiVersion]));
  }
  if (document["kind"] !== "OperatorConfiguration") {
    errors.push(notSupported("kind", document["kind"], ["OperatorConfiguration"]));
  }
  errors.push(...unknownFields(document));
  const part = (name: string): Record<string, unknown> => {
    const value = document[name];
    return isObject(value) ? value : {};
  };
  const settings: GangSettings = {
    ...defaultGangSettings,
    topologyAware: part("topologyAwareScheduling")["enabled"] === true,
    fullLossPolicy: readPolicy(part("gangTermination"), errors),
    ...readProfiles(part("scheduler"), errors),
    ...readStartOrder(part("initContainer")),
    authorizer: {
      enabled: part("authorizer")["enabled"] === true,
      exemptUsers: (part("authorizer")["exemptServiceAccountUserNames"] as string[] | undefined) ?? [],
    },
    concurrency: readConcurrency(part("controllers"), errors),
  };
  checkLease(part("leaderElection"), errors);
  if (part("network")["autoMNNVLEnabled"] === true) {
    errors.push(invalid("network.autoMNNVLEnabled", true, "this operator does not create ComputeDomains"));
  }
  const level = document["logLevel"];
  if (level !== undefined && !["debug", "info", "error"].includes(String(level))) {
    errors.push(notSupported("logLevel", level, ["debug", "error", "info"]));
  }
  const format = document["logFormat"];
  if (format !== undefined && !["json", "text"].includes(String(format))) {
    errors.push(notSupported("logFormat", format, ["json", "text"]));
  }
  return errors.length > 0 ? { errors } : { settings };
}

function readPolicy(from: Record<string, unknown>, errors: FieldError[]): FullLossPolicy {
  const policy = from["fullLossPolicy"] ?? "Suppress";
  if (policy === "Suppress" || policy === "Terminate") return policy;
  errors.push(notSupported("gangTermination.fullLossPolicy", policy, ["Suppress", "Terminate"]));
  return "Suppress";
}

function readProfiles(
  from: Record<string, unknown>,
  errors: FieldError[],
): Pick<GangSettings, "profiles" | "defaultProfile"> {
  const given = Array.isArray(from["profiles"]) ? from["profiles"] : [{ name: "default-scheduler" }];
  const profiles = new Set<SchedulerName>();
  for (const [at, profile] of given.entries()) {
    const field = `scheduler.profiles[${at}].name`;
    const name = isObject(profile) ? profile["name"] : undefined;
    if (name === undefined || name === "") errors.push(required(field));
    else if (!schedulerNames.includes(name as SchedulerName)) errors.push(notSupported(field, name, schedulerNames));
    else if (profiles.has(name as SchedulerName)) errors.push(duplicate(field, name));
    else profiles.add(name as SchedulerName);
  }
  profiles.add("default-scheduler");
  const chosen = (from["defaultProfileName"] ?? "default-scheduler") as SchedulerName;
  if (!profiles.has(chosen)) {
    errors.push(invalid("scheduler.defaultProfileName", chosen, "must be one of the enabled profiles"));
  }
  return { profiles: [...profiles], defaultProfile: chosen };
}

function readStartOrder(from: Record<string, unknown>): Pick<GangSettings, "startOrder"> {
  const image = from["image"];
  return { startOrder: typeof image === "string" ? { by: "container", image } : { by: "simulated-node" } };
}

function readConcurrency(from: Record<string, unknown>, errors: FieldError[]): GangSettings["concurrency"] {
  const read = (name: keyof GangSettings["concurrency"]): number => {
    const controller = from[name];
    const syncs = isObject(controller) ? controller["concurrentSyncs"] : undefined;
    if (syncs === undefined) return defaultGangSettings.concurrency[name];
    if (Number.isInteger(syncs) && Number(syncs) > 0) return Number(syncs);
    errors.push(invalid(`controllers.${name}.concurrentSyncs`, syncs, "must be greater than 0"));
    return defaultGangSettings.concurrency[name];
  };
  return {
    podCliqueSet: read("podCliqueSet"),
    podClique: read("podClique"),
    podCliqueScalingGroup: read("podCliqueScalingGroup"),
    podGang: read("podGang"),
  };
}

function checkLease(from: Record<string, unknown>, errors: FieldError[]): void {
  if (from["enabled"] !== true) return;
  if (from["resourceLock"] === "") errors.push(required("leaderElection.resourceLock"));
  if (from["resourceName"] === "") errors.push(required("leaderElection.resourceName"));
}
