import type { PeerCertificate, TLSSocket } from "node:tls";
import type { ClientCertificate } from "./authenticate.ts";

/** The client certificate of each connection: Node parses it anew at every call. */
const seen = new WeakMap<TLSSocket, ClientCertificate | null>();

/** The client certificate of a connection, or undefined when the client sent none. */
export function clientCertificateOf(socket: TLSSocket): ClientCertificate | undefined {
  let known = seen.get(socket);
  if (known === undefined) {
    known = read(socket.getPeerCertificate(), socket.authorized) ?? null;
    seen.set(socket, known);
  }
  return known ?? undefined;
}

function read(peer: PeerCertificate | null, authorized: boolean): ClientCertificate | undefined {
  // Node returns an empty object when there is no certificate.
  if (peer === null || peer.raw === undefined) return undefined;
  const subject: Record<string, unknown> = { ...peer.subject };
  return {
    // Of several common names the last one is used, as Go does.
    commonName: values(subject["CN"]).at(-1) ?? "",
    organizations: values(subject["O"]),
    authorized,
    fingerprint: peer.fingerprint256,
  };
}

function values(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).filter((one) => typeof one === "string");
}
