import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import {
  bits,
  explicit,
  implicit,
  octets,
  oid,
  sequence,
  set,
  unsignedInteger,
  utf8,
} from "../../src/apiserver/auth/der.ts";

export interface SigningRequestSubject {
  readonly commonName: string;
  readonly organizations?: readonly string[];
  readonly dnsNames?: readonly string[];
}

/** A PKCS#10 request with a new P-256 key: the request as base64 of its PEM, and the private key as PEM. */
export function createSigningRequest(subject: SigningRequestSubject): { request: string; key: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { request: Buffer.from(pemOf(subject, privateKey, publicKey)).toString("base64"), key };
}

function pemOf(subject: SigningRequestSubject, privateKey: KeyObject, publicKey: KeyObject): string {
  const { commonName, organizations = [], dnsNames = [] } = subject;
  const name = sequence(
    ...organizations.map((group) => set(sequence(oid("2.5.4.10"), utf8(group)))),
    set(sequence(oid("2.5.4.3"), utf8(commonName))),
  );
  const names = sequence(...dnsNames.map((dns) => implicit(2, Buffer.from(dns))));
  const extensions = sequence(sequence(oid("2.5.29.17"), octets(names)));
  const attribute = sequence(oid("1.2.840.113549.1.9.14"), set(extensions));
  const info = sequence(
    unsignedInteger(Buffer.from([0])),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    dnsNames.length === 0 ? explicit(0) : explicit(0, attribute),
  );
  const der = sequence(info, sequence(oid("1.2.840.10045.4.3.2")), bits(sign("sha256", info, privateKey)));
  return `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString("base64")}\n-----END CERTIFICATE REQUEST-----\n`;
}
