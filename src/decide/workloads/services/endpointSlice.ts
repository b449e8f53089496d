/**
 * The decision of the EndpointSlice controller: the endpoints of a Service in slices of at most a hundred. An endpoint
 * stays in its slice, so that a change of one pod writes one slice.
 */

import type {
  DiscoveryEndpointPort,
  Endpoint,
  EndpointSlice,
  Node,
  Pod,
  Service,
} from "../../../model/kubernetes.generated.ts";
import { TakenNames } from "../../../model/objects/derivedName.ts";
import { type Decision, Draft } from "../../../model/objects/draft.ts";
import { equalFields, type JsonObject } from "../../../model/objects/json.ts";
import { isOwnedBy, ownerReference } from "../../../model/objects/ownership.ts";
import { byAge } from "../../../model/objects/podFacts.ts";
import { canonicalJson } from "../../../model/objects/podTemplate.ts";
import type { Revision } from "../../../model/revision.ts";
import { type AddressType, addressTypes, backendOf, selectedPods } from "./serviceBackend.ts";

export interface EndpointSliceSnapshot {
  readonly revision: Revision;
  readonly service: Service;
  /** All pods of the namespace, or at least those that the Service selects. */
  readonly pods: readonly Pod[];
  readonly nodes: readonly Node[];
  /** All EndpointSlices of the namespace. */
  readonly slices: readonly EndpointSlice[];
}

export const endpointsMax = 100;
const serviceLabel = "kubernetes.io/service-name";
const managedByLabel = "endpointslice.kubernetes.io/managed-by";
const manager = "endpointslice-controller.k8s.io";
const headlessLabel = "service.kubernetes.io/headless";

export function decideEndpointSlices(snapshot: EndpointSliceSnapshot): Decision {
  const draft = new Draft();
  const { service } = snapshot;
  if (service.metadata.deletionTimestamp !== undefined) return draft.decision();
  const pods = selectedPods(service, snapshot.pods);
  const owned = snapshot.slices.filter((slice) => isOurs(service, slice)).sort(byAge);
  // Slices of a Service that has lost its selector stay: a user may now keep them by hand.
  if (pods === undefined) return draft.decision();
  const nodes = new Map(snapshot.nodes.map((node) => [node.metadata.name, node]));
  const families = addressTypes(service);
  for (const slice of owned) {
    if (!families.some((family) => family === slice.addressType)) {
      draft.remove(slice, `Service ${service.metadata.name} has no ${slice.addressType} addresses any more`);
    }
  }
  for (const family of families) {
    const groups = new Map<string, Group>();
    for (const pod of pods) {
      const backend = backendOf(service, pod, family, nodes.get(pod.spec?.nodeName ?? ""));
      if (backend === undefined) continue;
      const key = canonicalJson(backend.ports);
      const group = groups.get(key) ?? { ports: backend.ports, endpoints: new Map<string, Endpoint>() };
      groups.set(key, group);
      group.endpoints.set(pod.metadata.uid, backend.endpoint);
    }
    new SliceAllocator(draft, snapshot, family, owned).assign(groups);
  }
  return draft.decision();
}

function isOurs(service: Service, slice: EndpointSlice): boolean {
  const labels = slice.metadata.labels ?? {};
  return (
    slice.metadata.namespace === service.metadata.namespace &&
    labels[serviceLabel] === service.metadata.name &&
    labels[managedByLabel] === manager &&
    isOwnedBy(slice, service)
  );
}

interface Group {
  readonly ports: readonly DiscoveryEndpointPort[];
  /** By the pod's UID. */
  readonly endpoints: Map<string, Endpoint>;
}

class SliceAllocator {
  readonly draft: Draft;
  readonly snapshot: EndpointSliceSnapshot;
  readonly family: AddressType;
  readonly owned: readonly EndpointSlice[];
  readonly taken: TakenNames;

  constructor(draft: Draft, snapshot: EndpointSliceSnapshot, family: AddressType, owned: readonly EndpointSlice[]) {
    this.draft = draft;
    this.snapshot = snapshot;
    this.family = family;
    this.owned = owned.filter(
      (slice) => slice.addressType === family && slice.metadata.deletionTimestamp === undefined,
    );
    const planned = new Set(draft.intents.map(({ target }) => target.name));
    this.taken = new TakenNames(snapshot.service.metadata.namespace, snapshot.slices, (name) => planned.has(name));
  }

  assign(groups: ReadonlyMap<string, Group>): void {
    const used = new Set<EndpointSlice>();
    for (const key of [...groups.keys()].sort()) {
      const group = groups.get(key);
      if (group !== undefined) this.fill(group, used);
    }
    const { name } = this.snapshot.service.metadata;
    const empty = this.owned.filter((slice) => !used.has(slice));
    // A Service without pods keeps one empty slice: it means "no endpoints", where no slice means "not reconciled yet".
    const [placeholder, ...surplus] = used.size === 0 && groups.size === 0 ? empty : [undefined, ...empty];
    if (groups.size === 0) {
      if (placeholder === undefined) this.create([], []);
      else this.write(placeholder, []);
    }
    for (const slice of surplus) {
      if (slice !== undefined) this.draft.remove(slice, `Service ${name} needs one slice fewer`);
    }
  }

  fill(group: Group, used: Set<EndpointSlice>): void {
    const waiting = new Map(group.endpoints);
    const kept = new Map<EndpointSlice, Endpoint[]>();
    for (const slice of this.owned) {
      if (used.has(slice) || !equalFields(slice.ports ?? [], group.ports)) continue;
      const endpoints: Endpoint[] = [];
      for (const { targetRef } of slice.endpoints ?? []) {
        const endpoint = waiting.get(targetRef?.uid ?? "");
        if (endpoint === undefined || endpoints.length >= endpointsMax) continue;
        endpoints.push(endpoint);
        waiting.delete(targetRef?.uid ?? "");
      }
      if (endpoints.length > 0) kept.set(slice, endpoints);
    }
    const rest = [...waiting.values()];
    // New endpoints are first added to slices that have to be written anyway.
    const isChanged = ([slice, endpoints]: [EndpointSlice, Endpoint[]]) =>
      !equalFields(slice.endpoints ?? [], endpoints);
    const ordered = [...kept].sort((a, b) => Number(isChanged(b)) - Number(isChanged(a)));
    for (const [, endpoints] of ordered) endpoints.push(...rest.splice(0, endpointsMax - endpoints.length));
    for (const [slice, endpoints] of kept) {
      used.add(slice);
      this.write(slice, endpoints);
    }
    while (rest.length > 0) this.create(rest.splice(0, endpointsMax), group.ports);
  }

  labels(): Record<string, string> {
    const { metadata, spec } = this.snapshot.service;
    const labels: Record<string, string> = {};
    for (const [key, value] of Object.entries(metadata.labels ?? {})) {
      if (key !== serviceLabel && key !== managedByLabel && key !== headlessLabel) labels[key] = value;
    }
    if (spec?.clusterIP === "None") labels[headlessLabel] = "";
    return { ...labels, [serviceLabel]: metadata.name, [managedByLabel]: manager };
  }

  write(slice: EndpointSlice, endpoints: readonly Endpoint[]): void {
    const labels = this.labels();
    const patch: JsonObject = {};
    if (!equalFields(slice.endpoints ?? [], endpoints)) patch["endpoints"] = [...endpoints];
    if (!equalFields(slice.metadata.labels ?? {}, labels)) {
      const gone = Object.keys(slice.metadata.labels ?? {}).filter((key) => !(key in labels));
      patch["metadata"] = { labels: { ...labels, ...Object.fromEntries(gone.map((key) => [key, null])) } };
    }
    if (Object.keys(patch).length === 0) return;
    const { name } = this.snapshot.service.metadata;
    this.draft.patch(slice, patch, `Service ${name} has ${endpoints.length} endpoints in this slice`);
  }

  create(endpoints: readonly Endpoint[], ports: readonly DiscoveryEndpointPort[]): void {
    const { service, revision } = this.snapshot;
    const { name, namespace, uid } = service.metadata;
    const sliceName = this.taken.take({ base: `${name}-`, uid: `${uid}/${this.family}` });
    const object = {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: {
        name: sliceName,
        ...(namespace !== undefined && { namespace }),
        labels: this.labels(),
        ownerReferences: [ownerReference(service)],
      },
      addressType: this.family,
      endpoints: [...endpoints],
      ports: [...ports],
    };
    this.draft.create(revision, object, `Service ${name} has ${endpoints.length} more endpoints`);
  }
}
