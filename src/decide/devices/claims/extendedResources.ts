/**
 * Extended resources that are served by claims: a pod that requests `example.com/gpu: 2` gets a claim of its own, if a
 * DeviceClass has that extended resource name and the node has no device plugin for it.
 */
import type { Container, DeviceClass, DeviceRequest, Node, Pod } from "../../../model/kubernetes.generated.ts";
import { parseQuantity, unitsOf } from "../../../model/values/quantity.ts";
import { timeToMs } from "../../../model/values/time.ts";

export const extendedClaimAnnotation = "resource.kubernetes.io/extended-resource-claim";
const implicitPrefix = "deviceclass.resource.kubernetes.io/";

/** The class of each extended resource: the newest one, among equals the smaller name. */
export class ExtendedResources {
  private readonly byName = new Map<string, DeviceClass>();
  private readonly classes = new Map<string, DeviceClass>();

  constructor(classes: Iterable<DeviceClass> = []) {
    for (const each of classes) {
      this.classes.set(each.metadata.name, each);
      const name = each.spec.extendedResourceName;
      if (name === undefined) continue;
      const known = this.byName.get(name);
      if (known === undefined || wins(each, known)) this.byName.set(name, each);
    }
  }

  get names(): ReadonlySet<string> {
    return new Set([...this.byName.keys(), ...[...this.classes.keys()].map((name) => `${implicitPrefix}${name}`)]);
  }

  classFor(resource: string): DeviceClass | undefined {
    if (resource.startsWith(implicitPrefix)) return this.classes.get(resource.slice(implicitPrefix.length));
    return this.byName.get(resource);
  }
}

function wins(a: DeviceClass, b: DeviceClass): boolean {
  const [left, right] = [timeToMs(a.metadata.creationTimestamp) ?? 0, timeToMs(b.metadata.creationTimestamp) ?? 0];
  return left === right ? a.metadata.name < b.metadata.name : left > right;
}

export interface RequestMapping {
  readonly containerName: string;
  readonly resourceName: string;
  readonly requestName: string;
}

/** Extended resources of the pod that have a class, in order of name. */
export function mappedResources(pod: Pod, classFor: (resource: string) => DeviceClass | undefined): string[] {
  const names = new Set<string>();
  for (const container of containersOf(pod)) {
    for (const [name, amount] of Object.entries(container.resources?.requests ?? {})) {
      if (parseQuantity(amount).nano > 0n && classFor(name) !== undefined) names.add(name);
    }
  }
  return [...names].sort();
}

export type NodeSource = "claims" | "plugin" | "none";

/**
 * The source of the resource on a node: its device plugin, if the node has any of it; otherwise claims, if the resource
 * has a class.
 */
export function sourceOn(
  node: Node,
  resource: string,
  classFor: (resource: string) => DeviceClass | undefined,
): NodeSource {
  const allocatable = node.status?.allocatable?.[resource];
  if (allocatable !== undefined && parseQuantity(allocatable).nano > 0n) return "plugin";
  return classFor(resource) === undefined ? "none" : "claims";
}

/** The requests of the pod's claim, and which container uses which request. */
export function extendedRequests(
  pod: Pod,
  resources: readonly string[],
  classFor: (resource: string) => DeviceClass | undefined,
): { requests: DeviceRequest[]; mappings: RequestMapping[] } {
  const containers = containersOf(pod);
  const initCount = pod.spec?.initContainers?.length ?? 0;
  const isLongLived = (at: number): boolean => at >= initCount || containers[at]?.restartPolicy === "Always";
  const requests: DeviceRequest[] = [];
  const forLife: RequestMapping[] = [];
  const forStart: RequestMapping[] = [];
  for (const resource of [...resources].sort()) {
    const className = classFor(resource)?.metadata.name ?? "";
    const counts = containers.map((each) => amountOf(each, resource));
    const nameAt = (at: number): string => `container-${at}-request-${positionOf(containers[at], resource)}`;
    for (const [at, count] of counts.entries()) {
      if (count === 0 || !isLongLived(at)) continue;
      requests.push(requestOf(nameAt(at), className, count));
      forLife.push({ containerName: containers[at]?.name ?? "", resourceName: resource, requestName: nameAt(at) });
    }
    // Init containers may use the devices of later containers, and request only what is missing then.
    let most: { at: number; count: number } | undefined;
    const short: number[] = [];
    for (const [at, count] of counts.entries()) {
      if (count === 0 || isLongLived(at)) continue;
      let rest = count;
      for (let later = at + 1; later < containers.length && rest > 0; later++) {
        if (!isLongLived(later) || counts[later] === 0) continue;
        rest -= counts[later] as number;
        forStart.push({
          containerName: containers[at]?.name ?? "",
          resourceName: resource,
          requestName: nameAt(later),
        });
      }
      if (rest <= 0) continue;
      short.push(at);
      if (most === undefined || rest > most.count) most = { at, count: rest };
    }
    if (most === undefined) continue;
    const requestName = nameAt(most.at);
    requests.push(requestOf(requestName, className, most.count));
    for (const at of short)
      forStart.push({ containerName: containers[at]?.name ?? "", resourceName: resource, requestName });
  }
  requests.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { requests, mappings: [...forLife, ...forStart] };
}

function containersOf(pod: Pod): Container[] {
  return [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])];
}

function amountOf({ resources }: Container, resource: string): number {
  const text = resources?.requests?.[resource];
  return text === undefined ? 0 : Number(unitsOf(parseQuantity(text)));
}

function positionOf(container: Container | undefined, resource: string): number {
  return Object.keys(container?.resources?.requests ?? {})
    .sort()
    .indexOf(resource);
}

function requestOf(name: string, deviceClassName: string, count: number): DeviceRequest {
  return { name, exactly: { deviceClassName, allocationMode: "ExactCount", count } };
}
