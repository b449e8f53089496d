import type { EndpointSlice, Service } from "../../model/kubernetes.generated.ts";

/** On a Service: the `host:port` of a process on this machine that stands in for simulated pods. */
export const localAddressAnnotation = "muster.dev/local-address";

/** A Service of this name with its EndpointSlices; the Service is undefined when it does not exist. */
export interface ServiceState {
  readonly service: Service | undefined;
  readonly slices: readonly EndpointSlice[];
}

/**
 * `host:port` of an endpoint of a Service, as upstream's endpoint resolver: an ExternalName is that host, any other
 * Service one of its ready endpoints, which `pick` chooses by index. Throws an Error when there is none.
 */
export function serviceAddress(
  name: string,
  port: number,
  { service, slices }: ServiceState,
  pick: (count: number) => number,
): string {
  if (service === undefined) throw new Error(`service ${JSON.stringify(name)} not found`);
  const local = service.metadata.annotations?.[localAddressAnnotation];
  if (local !== undefined) return local;
  if (service.spec?.type === "ExternalName") return `${service.spec.externalName}:${port}`;
  const servicePort = service.spec?.ports?.find((candidate) => candidate.port === port);
  if (servicePort === undefined) throw new Error(`no service port ${port} found for service ${JSON.stringify(name)}`);
  const addresses = slices.flatMap(({ endpoints, ports, addressType }) => {
    const number = ports?.find((candidate) => (candidate.name ?? "") === (servicePort.name ?? ""))?.port;
    if (number === undefined || addressType === "FQDN") return [];
    return (endpoints ?? [])
      .filter(({ conditions }) => conditions?.ready !== false)
      .flatMap(({ addresses: [first] }) => (first === undefined ? [] : hostPort(first, number)));
  });
  const chosen = addresses.length === 0 ? undefined : addresses[pick(addresses.length)];
  if (chosen === undefined) throw new Error(`no endpoints available for service ${JSON.stringify(name)}`);
  return chosen;
}

function hostPort(address: string, port: number): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}
