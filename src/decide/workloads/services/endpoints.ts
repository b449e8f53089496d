/** The Endpoints object of a Service: the older form with one list, which many clients still read. */

import type { EndpointAddress, EndpointSubset, Endpoints, Pod, Service } from "../../../model/kubernetes.generated.ts";
import { type Decision, Draft } from "../../../model/objects/draft.ts";
import { equalFields, type JsonObject } from "../../../model/objects/json.ts";
import { isLeaving } from "../../../model/objects/podFacts.ts";
import { canonicalJson } from "../../../model/objects/podTemplate.ts";
import type { Revision } from "../../../model/revision.ts";
import { addressTypes, backendOf, corePort, selectedPods } from "./serviceBackend.ts";

export interface EndpointsSnapshot {
  readonly revision: Revision;
  readonly service: Service;
  readonly pods: readonly Pod[];
  /** The Endpoints with the Service's name. */
  readonly endpoints: Endpoints | undefined;
}

/** More addresses than this are left out, with an annotation. */
const addressesMax = 1000;
const overCapacity = "endpoints.kubernetes.io/over-capacity";

export function decideEndpoints({ revision, service, pods, endpoints }: EndpointsSnapshot): Decision {
  const draft = new Draft();
  const { name, namespace, labels = {}, deletionTimestamp } = service.metadata;
  const selected = selectedPods(service, pods);
  if (deletionTimestamp !== undefined || selected === undefined) return draft.decision();
  const { subsets, isCut } = subsetsOf(service, selected);
  const wanted: Record<string, string> = { ...labels, "endpoints.kubernetes.io/managed-by": "endpoint-controller" };
  if (service.spec?.clusterIP === "None") wanted["service.kubernetes.io/headless"] = "";
  const annotations = isCut ? { [overCapacity]: "truncated" } : {};
  const why = `Service ${name} has pods behind ${subsets.length} sets of ports`;
  if (endpoints === undefined) {
    const metadata = { name, ...(namespace !== undefined && { namespace }), labels: wanted, annotations };
    draft.create(revision, { apiVersion: "v1", kind: "Endpoints", metadata, subsets }, why);
    return draft.decision();
  }
  const patch: JsonObject = {};
  const metadata: JsonObject = {};
  if (!equalFields(endpoints.subsets ?? [], subsets)) patch["subsets"] = subsets;
  const before = endpoints.metadata.labels ?? {};
  if (!equalFields(before, wanted)) {
    const gone = Object.keys(before).filter((key) => !(key in wanted));
    metadata["labels"] = { ...wanted, ...Object.fromEntries(gone.map((key) => [key, null])) };
  }
  if (endpoints.metadata.annotations?.[overCapacity] !== annotations[overCapacity]) {
    metadata["annotations"] = { [overCapacity]: isCut ? "truncated" : null };
  }
  if (Object.keys(metadata).length > 0) patch["metadata"] = metadata;
  if (Object.keys(patch).length > 0) draft.patch(endpoints, patch, why);
  return draft.decision();
}

function subsetsOf(service: Service, pods: readonly Pod[]): { subsets: EndpointSubset[]; isCut: boolean } {
  const [family = "IPv4"] = addressTypes(service);
  const subsets = new Map<string, EndpointSubset>();
  let count = 0;
  for (const pod of pods) {
    // Endpoints have no "terminating", so such a pod is left out, unless not-ready addresses are published.
    if (isLeaving(pod) && service.spec?.publishNotReadyAddresses !== true) continue;
    const backend = backendOf(service, pod, family, undefined);
    const ip = backend?.endpoint.addresses[0];
    if (backend === undefined || ip === undefined || ++count > addressesMax) continue;
    const { hostname, nodeName, targetRef, conditions } = backend.endpoint;
    const address: EndpointAddress = {
      ip,
      ...(hostname !== undefined && { hostname }),
      ...(nodeName !== undefined && { nodeName }),
      ...(targetRef && { targetRef }),
    };
    const ports = backend.ports.map(corePort);
    const key = canonicalJson(ports);
    const subset = subsets.get(key) ?? (ports.length > 0 ? { ports } : {});
    subsets.set(key, subset);
    const list = conditions?.ready === true ? "addresses" : "notReadyAddresses";
    subset[list] = [...(subset[list] ?? []), address];
  }
  const sorted = [...subsets.keys()].sort().flatMap((key) => subsets.get(key) ?? []);
  return { subsets: sorted, isCut: count > addressesMax };
}
