/** The usage of one object in the quota of its namespace. */
import type { PersistentVolumeClaim, Pod, ResourceClaim, Service } from "../../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../../model/objects/object.ts";
import { parseQuantity, type Quantity, quantityOf } from "../../../model/values/quantity.ts";
import { podQosOf } from "../../kinds/pods/podQos.ts";
import { podLimits, podRequests } from "../../kinds/pods/podResources.ts";

/** Amounts by the resource names of quotas, and the facts that scopes select by. */
export interface QuotaShare {
  readonly amounts: ReadonlyMap<string, Quantity>;
  readonly scopes: ScopeFacts | undefined;
}

/** What scopes select by: facts of a pod, or the classes of a volume claim. */
export type ScopeFacts = PodScopeFacts | { readonly volumeClasses: readonly string[] };

export interface PodScopeFacts {
  readonly isTerminating: boolean;
  readonly isBestEffort: boolean;
  readonly priorityClass: string;
  readonly crossesNamespaces: boolean;
}

const one = quantityOf(1);
/** Requests of these have a short name as well: `cpu` is `requests.cpu`. */
const shortNames = new Set(["cpu", "memory", "ephemeral-storage"]);
/** The most devices that a request with allocationMode All can get. */
const allDevices = 32;

/** `storageKey` is group and plural. */
export function quotaShare(storageKey: string, object: KubeObject): QuotaShare {
  const slash = storageKey.indexOf("/");
  const group = storageKey.slice(0, slash);
  const plural = storageKey.slice(slash + 1);
  const amounts = new Map<string, Quantity>();
  amounts.set(`count/${group === "" ? plural : `${plural}.${group}`}`, one);
  switch (storageKey) {
    case "/pods":
      return podShare(object, amounts);
    case "/services":
      serviceShare(object, amounts);
      break;
    case "/persistentvolumeclaims":
      claimShare(object, amounts);
      return { amounts, scopes: { volumeClasses: volumeClassesOf(object) } };
    case "resource.k8s.io/resourceclaims":
      deviceShare(object as ResourceClaim, amounts);
      break;
    case "/configmaps":
    case "/secrets":
    case "/replicationcontrollers":
    case "/resourcequotas":
      amounts.set(plural, one);
      break;
  }
  return { amounts, scopes: undefined };
}

function podShare(pod: Pod, amounts: Map<string, Quantity>): QuotaShare {
  const { spec, status } = pod;
  if (spec === undefined) return { amounts, scopes: undefined };
  const scopes: PodScopeFacts = {
    isTerminating: spec.activeDeadlineSeconds !== undefined && spec.activeDeadlineSeconds >= 0,
    isBestEffort: podQosOf(spec) === "BestEffort",
    priorityClass: spec.priorityClassName ?? "",
    crossesNamespaces: crossesNamespaces(spec),
  };
  // A finished pod counts as an object and uses no resources.
  if (status?.phase === "Succeeded" || status?.phase === "Failed") return { amounts, scopes };
  amounts.set("pods", one);
  for (const [name, text] of Object.entries(podRequests(spec))) {
    const amount = parseQuantity(text);
    amounts.set(`requests.${name}`, amount);
    if (shortNames.has(name) || name.startsWith("hugepages-")) amounts.set(name, amount);
  }
  for (const [name, text] of Object.entries(podLimits(spec))) amounts.set(`limits.${name}`, parseQuantity(text));
  return { amounts, scopes };
}

function crossesNamespaces({ affinity }: NonNullable<Pod["spec"]>): boolean {
  for (const kind of [affinity?.podAffinity, affinity?.podAntiAffinity]) {
    const terms = [
      ...(kind?.requiredDuringSchedulingIgnoredDuringExecution ?? []),
      ...(kind?.preferredDuringSchedulingIgnoredDuringExecution ?? []).map(({ podAffinityTerm }) => podAffinityTerm),
    ];
    if (terms.some((term) => (term.namespaces?.length ?? 0) > 0 || term.namespaceSelector !== undefined)) return true;
  }
  return false;
}

function serviceShare({ spec }: Service, amounts: Map<string, Quantity>): void {
  amounts.set("services", one);
  const ports = spec?.ports ?? [];
  const isBalancer = spec?.type === "LoadBalancer";
  if (isBalancer) amounts.set("services.loadbalancers", one);
  if (spec?.type === "NodePort") amounts.set("services.nodeports", quantityOf(ports.length));
  else if (isBalancer) {
    const allocates = spec?.allocateLoadBalancerNodePorts !== false;
    const count = allocates ? ports.length : ports.filter(({ nodePort }) => (nodePort ?? 0) > 0).length;
    amounts.set("services.nodeports", quantityOf(count));
  }
}

/** The requested class, the current class of the volume, and the class that it is being changed to. */
function volumeClassesOf({ spec, status }: PersistentVolumeClaim): string[] {
  const target = status?.modifyVolumeStatus?.targetVolumeAttributesClassName;
  const all = [spec?.volumeAttributesClassName, status?.currentVolumeAttributesClassName, target];
  return all.filter((name): name is string => name !== undefined && name !== "");
}

function claimShare({ spec }: PersistentVolumeClaim, amounts: Map<string, Quantity>): void {
  amounts.set("persistentvolumeclaims", one);
  const text = spec?.resources?.requests?.["storage"];
  const storage = text === undefined ? undefined : parseQuantity(text);
  if (storage !== undefined) amounts.set("requests.storage", storage);
  const { storageClassName } = spec ?? {};
  if (!storageClassName) return;
  const prefix = `${storageClassName}.storageclass.storage.k8s.io/`;
  amounts.set(`${prefix}persistentvolumeclaims`, one);
  if (storage !== undefined) amounts.set(`${prefix}requests.storage`, storage);
}

/** The most devices that a claim can get: of alternatives, the one with the most devices of each class. */
function deviceShare({ spec }: ResourceClaim, amounts: Map<string, Quantity>): void {
  const counts = new Map<string, number>();
  for (const request of spec?.devices?.requests ?? []) {
    const most = new Map<string, number>();
    for (const option of request.exactly === undefined ? (request.firstAvailable ?? []) : [request.exactly]) {
      const count = option.allocationMode === "All" ? allDevices : (option.count ?? 1);
      most.set(option.deviceClassName, Math.max(count, most.get(option.deviceClassName) ?? 0));
    }
    for (const [name, count] of most) counts.set(name, (counts.get(name) ?? 0) + count);
  }
  for (const [name, count] of counts) {
    amounts.set(`${name}.deviceclass.resource.k8s.io/devices`, quantityOf(count));
  }
}
