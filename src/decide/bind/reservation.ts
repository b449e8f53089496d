/**
 * The reservation pod: a pod that holds one whole GPU of a node, so that several pods can share it. It is created
 * without a node and then bound: a create cannot carry a precondition, and one that lands late, when its GPU was
 * allocated to another pod, has to be harmless.
 *
 *   binder                                scheduler
 *   t0  creates R for node n, no answer
 *   t1  gives up: its request ends  --->  the GPU goes to another pod
 *   t2  R exists after all, without a node: no request names it any more, and it is deleted
 *
 * The binder binds R only after it has read the BindRequest again at a revision that has R; a request that ends after
 * that counts R. R lives as long as it has holders: a pod that relies on R is first recorded on it, and then every
 * delete that was decided before conflicts.
 *
 *   binder                               clean-up
 *                                        t0  reads R at revision 7: no holders
 *   t1  records its pod's UID on R --->  R is at revision 8
 *   t2  labels and binds its pod
 *                                        t3  deletes R if it is still at revision 7: refused, however late it lands
 */
import type { NewObject } from "../../model/intent.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { isObject, type JsonObject } from "../../model/objects/json.ts";
import { builtin } from "../../model/resources.generated.ts";
import {
  annotationKeys,
  labelKeys,
  reservationAppLabel,
  reservationNamespace,
  reservationSchedulerName,
} from "../../model/scheduling/keys.ts";
import { sha256Hex } from "../../model/values/sha256.ts";

/** On a reservation pod: the pods that rely on it, as JSON from UID to `namespace/name`. */
export const holdersAnnotation = "muster.dev/holders";
/** On a pod that shares GPUs: the device of each of its groups, as JSON. */
export const devicesAnnotation = "muster.dev/gpu-devices";

export const podsRef = builtin.Pod;
const gpu = "nvidia.com/gpu";

export const pullPolicies = ["Always", "IfNotPresent", "Never"] as const;
export type PullPolicy = (typeof pullPolicies)[number];

export interface ReservationOptions {
  readonly image: string;
  readonly pullPolicy: PullPolicy;
  readonly serviceAccountName: string;
  readonly runtimeClassName?: string;
  /** Processor and memory for the pod, besides its GPU. */
  readonly podResources?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly podSecurityContext?: JsonObject;
  readonly containerSecurityContext?: JsonObject;
  /** The timeout for the node to report the device. */
  readonly allocationTimeoutMs: number;
}

/** KAI's name for its image, where `kai-config` gives only a repository or a tag. */
export const kaiReservationImage = "resource-reservation";

/** The argument with which Muster's image runs the program of a reservation pod. KAI's image ignores it. */
const program = "reservation-agent";

export const reservationDefaults: ReservationOptions = {
  // A name that no registry serves, so that no foreign image is pulled where none was configured. Simulated nodes pull
  // no images.
  image: "muster.invalid/muster:not-set",
  pullPolicy: "IfNotPresent",
  serviceAccountName: "kai-resource-reservation",
  allocationTimeoutMs: 40_000,
};

/** One name per node and group, so that two concurrent creates make one pod. Other binders derive the same name. */
export function reservationName(node: string, group: string): string {
  return `gpu-reservation-${sha256Hex(`${node}/${group}`, 8)}`;
}

/** The pod to create, with its first holder. */
export function newReservation(about: {
  readonly node: string;
  readonly group: string;
  readonly users: readonly Pod[];
  readonly pinnedDevice?: string | undefined;
  readonly options: ReservationOptions;
}): NewObject {
  const { node, group, users, pinnedDevice, options } = about;
  const [first] = users;
  const { podSecurityContext, containerSecurityContext, runtimeClassName } = options;
  const amounts = (of: "requests" | "limits"): Record<string, string> => {
    const { [gpu]: _, ...others } = options.podResources?.[of] ?? {};
    return { ...others, [gpu]: "1" };
  };
  const holders: Record<string, string> = {};
  for (const { metadata } of users) holders[metadata.uid] = `${metadata.namespace ?? ""}/${metadata.name}`;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: reservationName(node, group),
      namespace: reservationNamespace,
      labels: { [labelKeys.app]: reservationAppLabel, [labelKeys.gpuGroup]: group },
      annotations: {
        "karpenter.sh/do-not-disrupt": "true",
        [annotationKeys.reservesOn]: node,
        [holdersAnnotation]: JSON.stringify(holders),
        ...(pinnedDevice === undefined ? {} : { [annotationKeys.pinDevice]: pinnedDevice }),
      },
    },
    spec: {
      schedulerName: reservationSchedulerName,
      serviceAccountName: options.serviceAccountName,
      ...(first?.spec?.tolerations === undefined ? {} : { tolerations: first.spec.tolerations }),
      ...(runtimeClassName === undefined ? {} : { runtimeClassName }),
      ...(podSecurityContext === undefined ? {} : { securityContext: podSecurityContext }),
      containers: [
        {
          name: "resource-reservation",
          image: options.image,
          imagePullPolicy: options.pullPolicy,
          args: [program],
          terminationMessagePolicy: "FallbackToLogsOnError",
          env: [
            { name: "POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
            { name: "POD_NAMESPACE", valueFrom: { fieldRef: { fieldPath: "metadata.namespace" } } },
          ],
          resources: { requests: amounts("requests"), limits: amounts("limits") },
          ...(containerSecurityContext === undefined ? {} : { securityContext: containerSecurityContext }),
        },
      ],
    },
  };
}

/** The pods that rely on it: UID to `namespace/name`. An invalid annotation means no holders. */
export function holdersOf(reservation: Pod): ReadonlyMap<string, string> {
  const text = reservation.metadata.annotations?.[holdersAnnotation];
  return new Map(Object.entries(textsIn(text)));
}

/** The patch that makes these the holders. */
export function holdersPatch(holders: ReadonlyMap<string, string>): JsonObject {
  const sorted = Object.fromEntries([...holders].sort(([a], [b]) => (a < b ? -1 : 1)));
  return { metadata: { annotations: { [holdersAnnotation]: JSON.stringify(sorted) } } };
}

/** Its device, once the node has reported it. */
export function deviceOf(reservation: Pod): string | undefined {
  const device = reservation.metadata.annotations?.[annotationKeys.reservedGpu];
  return device === "" ? undefined : device;
}

/** The device that it requests, because it replaces a lost reservation. */
export function deviceAskedBy(reservation: Pod): string | undefined {
  return reservation.metadata.annotations?.[annotationKeys.pinDevice];
}

/** The devices of the groups of a pod that shares GPUs, as its binder wrote them. */
export function devicesOf(pod: Pod): Readonly<Record<string, string>> {
  return textsIn(pod.metadata.annotations?.[devicesAnnotation]);
}

export function isBound({ spec }: Pod): boolean {
  return spec?.nodeName !== undefined;
}

/** Succeeded or Failed. */
export function hasEnded(pod: Pod): boolean {
  const phase = pod.status?.phase;
  return phase === "Succeeded" || phase === "Failed";
}

/** The reason and message of a container that does not run, or has terminated before. */
export function containerProblem(reservation: Pod): string | undefined {
  for (const { state, lastState } of reservation.status?.containerStatuses ?? []) {
    const ended = state?.terminated ?? lastState?.terminated;
    const waits = state?.waiting;
    const isStarting = waits?.reason === undefined || waits.reason === "ContainerCreating";
    const found = isStarting ? ended : { ...waits, message: ended?.message ?? waits.message };
    if (found === undefined) continue;
    const message = (found.message ?? "").replace(/\s+/g, " ").trim();
    return [found.reason ?? "Error", ...(message === "" ? [] : [message.slice(0, messageMax)])].join(": ");
  }
  return undefined;
}

/** Messages of conditions are for people and are shortened. */
const messageMax = 300;

function textsIn(text: string | undefined): Record<string, string> {
  if (text === undefined) return {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (!isObject(parsed)) return {};
    return Object.fromEntries(Object.entries(parsed).filter(([, value]) => typeof value === "string")) as Record<
      string,
      string
    >;
  } catch {
    return {};
  }
}
