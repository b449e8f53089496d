import type { PeerCertificate, TLSSocket } from "node:tls";
import type { ClientCertificate } from "./authenticate.ts";

/** What a connection showed at its handshake; asking again at every request would parse the certificate every time. */
const seen = new WeakMap<TLSSocket, ClientCertificate | null>();

/** The certificate of a connection's other end, or undefined when it showed none. */
export function clientCertificateOf(socket: TLSSocket): ClientCertificate | undefined {
  let known = seen.get(socket);
  if (known === undefined) {
    known = read(socket.getPeerCertificate(), socket.authorized) ?? null;
    seen.set(socket, known);
  }
  return known ?? undefined;
}

function read(peer: PeerCertificate | null, authorized: boolean): ClientCertificate | undefined {
  // Node answers with an empty object when there is no certificate.
  if (peer === null || peer.raw === undefined) return undefined;
  const subject: Record<string, unknown> = { ...peer.subject };
  return {
    // Of several common names the last counts, as it does for Go.
    commonName: values(subject["CN"]).at(-1) ?? "",
    organizations: values(subject["O"]),
    authorized,
    fingerprint: peer.fingerprint256,
  };
}

function values(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).filter((one) => typeof one === "string");
}
