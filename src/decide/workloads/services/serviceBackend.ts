/** The backends of a Service: an endpoint and its ports for each pod that it selects. */
import type {
  CoreEndpointPort,
  DiscoveryEndpointPort,
  Endpoint,
  Node,
  Pod,
  Service,
  ServicePort,
} from "../../../model/kubernetes.generated.ts";
import { matchesLabels, selectorRequirements } from "../../../model/objects/labelSelector.ts";
import { byName, isFinished, isLeaving, isReady } from "../../../model/objects/podFacts.ts";

export type AddressType = "IPv4" | "IPv6";

export interface Backend {
  readonly pod: Pod;
  readonly endpoint: Endpoint;
  readonly ports: readonly DiscoveryEndpointPort[];
}

/** Undefined: the Service has no selector or is an ExternalName, so its endpoints are managed elsewhere. */
export function selectedPods({ spec, metadata }: Service, pods: readonly Pod[]): Pod[] | undefined {
  const selector = spec?.selector;
  if (spec?.type === "ExternalName" || selector === undefined || Object.keys(selector).length === 0) return undefined;
  const requirements = selectorRequirements({ matchLabels: selector });
  return pods
    .filter((pod) => pod.metadata.namespace === metadata.namespace && matchesLabels(requirements, pod.metadata.labels))
    .filter((pod) => !isFinished(pod) && (pod.status?.podIP ?? "") !== "")
    .sort(byName);
}

export function addressTypes({ spec }: Service): AddressType[] {
  const families = spec?.ipFamilies ?? ["IPv4"];
  return families.flatMap((family) => (family === "IPv4" || family === "IPv6" ? [family] : []));
}

/** The endpoint of the pod; undefined if it has no address of the family. */
export function backendOf(
  service: Service,
  pod: Pod,
  family: AddressType,
  node: Node | undefined,
): Backend | undefined {
  const addresses = [pod.status?.podIP ?? "", ...(pod.status?.podIPs ?? []).map(({ ip }) => ip)];
  const address = addresses.find((ip) => ip !== "" && ip.includes(":") === (family === "IPv6"));
  if (address === undefined) return undefined;
  const serving = isReady(pod);
  const terminating = isLeaving(pod);
  const isPublished = service.spec?.publishNotReadyAddresses === true;
  const { namespace, name, uid } = pod.metadata;
  const zone = node?.metadata.labels?.["topology.kubernetes.io/zone"];
  const endpoint: Endpoint = {
    addresses: [address],
    conditions: { ready: isPublished || (serving && !terminating), serving, terminating },
    targetRef: { kind: "Pod", ...(namespace !== undefined && { namespace }), name, uid },
  };
  if (pod.spec?.nodeName !== undefined) endpoint.nodeName = pod.spec.nodeName;
  if (zone !== undefined) endpoint.zone = zone;
  const { hostname, subdomain } = pod.spec ?? {};
  if (hostname !== undefined && subdomain === service.metadata.name) endpoint.hostname = hostname;
  return { pod, endpoint, ports: portsOf(service, pod) };
}

/** A named port has the number of the pod's own container, so pods of one Service may differ. */
function portsOf(service: Service, pod: Pod): DiscoveryEndpointPort[] {
  const ports: DiscoveryEndpointPort[] = [];
  for (const port of service.spec?.ports ?? []) {
    const number = portNumber(port, pod);
    if (number === undefined) continue;
    const { name = "", protocol = "TCP", appProtocol } = port;
    ports.push({ name, port: number, protocol, ...(appProtocol !== undefined && { appProtocol }) });
  }
  return ports;
}

function portNumber({ targetPort, port, protocol = "TCP" }: ServicePort, { spec }: Pod): number | undefined {
  if (targetPort === undefined || targetPort === 0 || targetPort === "") return port;
  if (typeof targetPort === "number") return targetPort;
  const sidecars = (spec?.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === "Always");
  for (const container of [...(spec?.containers ?? []), ...sidecars]) {
    const found = container.ports?.find((each) => each.name === targetPort && (each.protocol ?? "TCP") === protocol);
    if (found !== undefined) return found.containerPort;
  }
  return undefined;
}

export function corePort({ name = "", port = 0, protocol, appProtocol }: DiscoveryEndpointPort): CoreEndpointPort {
  return {
    ...(name !== "" && { name }),
    port,
    ...(protocol !== undefined && { protocol }),
    ...(appProtocol !== undefined && { appProtocol }),
  };
}
