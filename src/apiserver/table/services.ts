/** Tables of Services, Endpoints, EndpointSlices, Ingresses and NetworkPolicies. */

import type {
  EndpointSlice,
  Endpoints,
  Ingress,
  IngressClass,
  IPAddress,
  NetworkPolicy,
  Service,
  ServiceCIDR,
} from "../../model/kubernetes.generated.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { firstOf, labelsText, none, selectorTextOrNone, unknown, unset } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf, wideColumn } from "./tableKind.ts";

export const serviceTable = tableOf<Service>(
  [
    nameColumn,
    column("Type", "Type of the service."),
    column("Cluster-IP", "Cluster IP of the service."),
    column("External-IP", "External addresses."),
    column("Port(s)", "Ports, with node ports after a colon."),
    ageColumn,
    wideColumn("Selector", "Selector of the service."),
  ],
  (service, nowMs) => {
    const { metadata, spec } = service;
    return [
      metadata.name,
      spec?.type ?? "",
      spec?.clusterIPs?.[0] || spec?.clusterIP || none,
      externalIp(service),
      ports(service) || none,
      humanAge(metadata.creationTimestamp, nowMs),
      labelsText(spec?.selector),
    ];
  },
);

function externalIp({ spec, status }: Service): string {
  const declared = spec?.externalIPs ?? [];
  switch (spec?.type) {
    case "ClusterIP":
    case "NodePort":
      return declared.join(",") || none;
    case "LoadBalancer": {
      const balanced = balancerAddresses(status?.loadBalancer?.ingress);
      return [...balanced, ...declared].join(",") || "<pending>";
    }
    case "ExternalName":
      return spec.externalName ?? "";
    default:
      return unknown;
  }
}

/** Each address once, in order. */
function balancerAddresses(ingress: readonly { ip?: string; hostname?: string }[] | undefined): string[] {
  const addresses = new Set<string>();
  for (const { ip, hostname } of ingress ?? []) {
    const address = ip || hostname;
    if (address) addresses.add(address);
  }
  return [...addresses].sort();
}

function ports({ spec }: Service): string {
  return (spec?.ports ?? [])
    .map(({ port, nodePort, protocol }) => {
      const number = nodePort !== undefined && nodePort > 0 ? `${port}:${nodePort}` : String(port);
      return `${number}/${protocol ?? "TCP"}`;
    })
    .join(",");
}

const addressesMax = 3;

export const endpointsTable = tableOf<Endpoints>(
  [nameColumn, column("Endpoints", "The first endpoints of the service."), ageColumn],
  ({ metadata, subsets }, nowMs) => {
    const addresses: string[] = [];
    for (const subset of subsets ?? []) {
      const ready = subset.addresses ?? [];
      if (subset.ports === undefined || subset.ports.length === 0) {
        for (const { ip } of ready) addresses.push(ip);
        continue;
      }
      for (const { port } of subset.ports) {
        for (const { ip } of ready) addresses.push(ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`);
      }
    }
    // Empty, not `<none>`, where addresses exist but none is ready.
    const shown = subsets === undefined || subsets.length === 0 ? none : firstOf(addresses, addressesMax, ",");
    return [metadata.name, shown, humanAge(metadata.creationTimestamp, nowMs)];
  },
);

export const endpointSliceTable = tableOf<EndpointSlice>(
  [
    nameColumn,
    column("AddressType", "Type of the addresses."),
    column("Ports", "The first ports."),
    column("Endpoints", "The first addresses."),
    ageColumn,
  ],
  ({ metadata, addressType, ports, endpoints }, nowMs) => [
    metadata.name,
    addressType,
    firstOf(
      (ports ?? []).map(({ port, name }) => (port !== undefined ? String(port) : (name ?? "*"))),
      addressesMax,
      ",",
    ) || unset,
    firstOf(
      (endpoints ?? []).flatMap(({ addresses }) => addresses),
      addressesMax,
      ",",
    ) || unset,
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const ingressTable = tableOf<Ingress>(
  [
    nameColumn,
    column("Class", "The ingress class."),
    column("Hosts", "Hosts of the rules."),
    column("Address", "Addresses of the load balancer."),
    column("Ports", "80, and 443 with TLS."),
    ageColumn,
  ],
  ({ metadata, spec, status }, nowMs) => {
    const hosts = (spec?.rules ?? []).flatMap(({ host }) => (host ? [host] : []));
    return [
      metadata.name,
      spec?.ingressClassName ?? none,
      firstOf(hosts, 3, ",") || "*",
      balancerAddresses(status?.loadBalancer?.ingress).join(","),
      spec?.tls !== undefined && spec.tls.length > 0 ? "80, 443" : "80",
      humanAge(metadata.creationTimestamp, nowMs),
    ];
  },
);

export const ingressClassTable = tableOf<IngressClass>(
  [
    nameColumn,
    column("Controller", "The controller of the class."),
    column("Parameters", "The parameters of the class."),
    ageColumn,
  ],
  ({ metadata, spec }, nowMs) => {
    const parameters = spec?.parameters;
    const group = parameters?.apiGroup ? `.${parameters.apiGroup}` : "";
    return [
      metadata.name,
      spec?.controller ?? "",
      parameters === undefined ? none : `${parameters.kind}${group}/${parameters.name}`,
      humanAge(metadata.creationTimestamp, nowMs),
    ];
  },
);

export const networkPolicyTable = tableOf<NetworkPolicy>(
  [nameColumn, column("Pod-Selector", "Selector of the pods."), ageColumn],
  ({ metadata, spec }, nowMs) => [
    metadata.name,
    selectorTextOrNone(spec?.podSelector),
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const serviceCidrTable = tableOf<ServiceCIDR>(
  [nameColumn, column("CIDRs", "The ranges of addresses."), ageColumn],
  ({ metadata, spec }, nowMs) => [
    metadata.name,
    (spec?.cidrs ?? []).join(","),
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const ipAddressTable = tableOf<IPAddress>(
  [nameColumn, column("ParentRef", "The object that has the address."), ageColumn],
  ({ metadata, spec }, nowMs) => {
    const { group, resource, namespace, name } = spec.parentRef;
    const kind = group ? `${resource}.${group}` : resource;
    const parent = [kind.toLowerCase(), namespace ?? "", name].filter((word) => word !== "").join("/");
    return [metadata.name, parent, humanAge(metadata.creationTimestamp, nowMs)];
  },
);
