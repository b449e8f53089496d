import { decideEndpointSlices } from "../../decide/workloads/services/endpointSlice.ts";
import { decideEndpoints } from "../../decide/workloads/services/endpoints.ts";
import { keyOf } from "../../model/intent.ts";
import type { Node, Pod, Service } from "../../model/kubernetes.generated.ts";
import type { Decision } from "../../model/objects/draft.ts";
import { type LabelRequirements, selectorRequirements } from "../../model/objects/labelSelector.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { ObjectIndex } from "../../snapshot/objectIndex.ts";
import type { CacheEvent } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { forMapped, forObject, forOwner, kindSource, type Source } from "../runtime/sources.ts";
import { endpointSliceKind, endpointsKind, serviceKind } from "./kinds.ts";
import { addOwnerController } from "./ownerReconciler.ts";
import { calmSource } from "./podOwner.ts";
import { SelectorIndex } from "./selectorIndex.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

const zoneLabel = "topology.kubernetes.io/zone";
const serviceLabel = "kubernetes.io/service-name";

/** Keeps the EndpointSlices, and the Endpoints as well, of each Service. */
export function addServiceEndpoints(
  controllers: Controllers,
  caches: WorkloadCaches,
  podsByNode: ObjectIndex<Pod>,
): void {
  const { inFlight, pods, nodes, services, slices, endpoints } = caches;
  const behind = new SelectorIndex({
    selectors: services.cache,
    requirementsOf: podSelector,
    objects: pods.cache,
    keepsMembers: true,
  });
  const slicesByService = slices.cache.index(({ metadata }) => {
    const service = metadata.labels?.[serviceLabel];
    return service === undefined ? [] : [keyOf(metadata.namespace, service)];
  });
  const podsOf = (service: KubeObject): Pod[] => behind.selectedBy(service);

  const decideSlices = (service: Service): Decision => {
    const { namespace, name } = service.metadata;
    const selected = podsOf(service);
    const names = new Set(selected.map(({ spec }) => spec?.nodeName ?? ""));
    return decideEndpointSlices({
      revision: caches.revisionOf([endpointSliceKind]),
      service,
      pods: selected,
      nodes: [...names].flatMap((node): Node | Node[] => nodes.get(undefined, node) ?? []),
      slices: slicesByService.get(keyOf(namespace, name)),
    });
  };

  const decideOld = (service: Service): Decision => {
    const { namespace, name } = service.metadata;
    return decideEndpoints({
      revision: caches.revisionOf([endpointsKind]),
      service,
      pods: podsOf(service),
      endpoints: endpoints.get(namespace, name),
    });
  };

  const ofPods: Source = calmSource(
    pods.cache,
    forMapped((pod) => behind.selectorsOf(pod)),
    (key) => behind.count(key),
  );
  const ofZones: Source = kindSource(
    nodes.cache,
    ({ object }) => new Set(podsByNode.get(object.metadata.name).flatMap((pod) => behind.selectorsOf(pod))),
    isZoneChanged,
  );
  addOwnerController(controllers, inFlight, {
    name: "endpointslice-controller",
    kind: serviceKind,
    sources: [
      kindSource(services.cache, forObject()),
      ofPods,
      ofZones,
      kindSource(slices.cache, forOwner({ group: "", kind: "Service" })),
    ],
    decide: decideSlices,
  });
  addOwnerController(controllers, inFlight, {
    name: "endpoints-controller",
    kind: serviceKind,
    sources: [
      kindSource(services.cache, forObject()),
      ofPods,
      kindSource(endpoints.cache, ({ key }) => (services.cache.get(key) === undefined ? [] : [key])),
    ],
    decide: decideOld,
  });
}

function podSelector(service: Service): LabelRequirements | undefined {
  const { selector } = service.spec ?? {};
  if (selector === undefined || Object.keys(selector).length === 0) return undefined;
  return selectorRequirements({ matchLabels: selector });
}

function isZoneChanged(event: CacheEvent<Node>): boolean {
  const zoneOf = ({ metadata }: KubeObject): string | undefined => metadata.labels?.[zoneLabel];
  return event.type === "updated" && zoneOf(event.before) !== zoneOf(event.object);
}
