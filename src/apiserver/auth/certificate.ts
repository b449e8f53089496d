import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { parseIp } from "../../model/values/ipAddress.ts";
import type { Random } from "../../ports/random.ts";
import { readElement, readElements } from "../certificates/derReader.ts";
import {
  bits,
  boolean,
  explicit,
  implicit,
  namedBits,
  octets,
  oid,
  sequence,
  set,
  time,
  unsignedInteger,
  utf8,
} from "./der.ts";

/**
 * Writes X.509 certificates: certificate authorities, servers and clients on the curve P-256, in the form that Go,
 * OpenSSL and Node all accept. Keys come from the system's random generator; serial numbers and validity are passed in.
 */
export interface CertificateRequest {
  readonly commonName: string;
  /** For a client: its groups. */
  readonly organizations?: readonly string[];
  readonly use: "authority" | "server" | "client";
  /** DNS names and IP addresses of a server. */
  readonly hosts?: readonly string[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly random: Random;
}

/** A certificate and its private key, both as PEM. */
export type KeyPair = { readonly certificate: string; readonly key: string };

/** The issuer's key pair. A CA certificate without an issuer is self-signed. */
export type Issuer = KeyPair & { readonly name: string };

const ecdsaWithSha256 = sequence(oid("1.2.840.10045.4.3.2"));
const attribute = { commonName: oid("2.5.4.3"), organization: oid("2.5.4.10") };
const extension = {
  subjectKey: oid("2.5.29.14"),
  keyUsage: oid("2.5.29.15"),
  alternativeNames: oid("2.5.29.17"),
  basicConstraints: oid("2.5.29.19"),
  authorityKey: oid("2.5.29.35"),
  extendedUsage: oid("2.5.29.37"),
};
/** Bits of the key usage extension, by the names of CertificateSigningRequests. */
const keyUsageBits: Readonly<Record<string, number>> = {
  signing: 0,
  "digital signature": 0,
  "content commitment": 1,
  "key encipherment": 2,
  "data encipherment": 3,
  "key agreement": 4,
  "cert sign": 5,
  "crl sign": 6,
  "encipher only": 7,
  "decipher only": 8,
};
/** Extended key usages, by the names of CertificateSigningRequests. */
const extendedUsages: Readonly<Record<string, Buffer>> = {
  any: oid("2.5.29.37.0"),
  "server auth": oid("1.3.6.1.5.5.7.3.1"),
  "client auth": oid("1.3.6.1.5.5.7.3.2"),
  "code signing": oid("1.3.6.1.5.5.7.3.3"),
  "email protection": oid("1.3.6.1.5.5.7.3.4"),
  "s/mime": oid("1.3.6.1.5.5.7.3.4"),
  "ipsec end system": oid("1.3.6.1.5.5.7.3.5"),
  "ipsec tunnel": oid("1.3.6.1.5.5.7.3.6"),
  "ipsec user": oid("1.3.6.1.5.5.7.3.7"),
  timestamping: oid("1.3.6.1.5.5.7.3.8"),
  "ocsp signing": oid("1.3.6.1.5.5.7.3.9"),
  "microsoft sgc": oid("1.3.6.1.4.1.311.10.3.3"),
  "netscape sgc": oid("2.16.840.1.113730.4.1"),
};
const usages = {
  authority: ["digital signature", "cert sign", "crl sign"],
  server: ["digital signature", "server auth"],
  client: ["digital signature", "client auth"],
} as const;

/** Creates a key and a certificate for it, signed by the issuer; a CA certificate without an issuer is self-signed. */
export function issueCertificate(request: CertificateRequest, issuer?: Issuer): KeyPair {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const leaf: Leaf = {
    subject: nameOf(request),
    publicKey,
    usages: usages[request.use],
    isAuthority: request.use === "authority",
    names: (request.hosts ?? []).map(alternativeName),
    notBeforeMs: request.notBeforeMs,
    notAfterMs: request.notAfterMs,
    random: request.random,
  };
  return { certificate: signLeaf(leaf, issuer, privateKey), key };
}

/** The content of a certificate. */
interface Leaf {
  /** The DER encoding of the subject. */
  readonly subject: Buffer;
  readonly publicKey: KeyObject;
  /** Names of usages in CertificateSigningRequests; unknown ones are left out. */
  readonly usages: readonly string[];
  readonly isAuthority?: boolean;
  /** DER encodings of the subject alternative names. */
  readonly names: readonly Buffer[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly random: Random;
}

/** Signs a certificate for a key of another party. Returns PEM. */
export function signCertificate(leaf: Omit<Leaf, "isAuthority">, issuer: Issuer): string {
  return signLeaf(leaf, issuer, issuer.key);
}

function signLeaf(leaf: Leaf, issuer: Issuer | undefined, ownKey: KeyObject | string): string {
  const body = sequence(
    explicit(0, unsignedInteger(Buffer.from([2]))),
    unsignedInteger(serialNumber(leaf.random)),
    ecdsaWithSha256,
    issuer === undefined ? leaf.subject : nameOf({ commonName: issuer.name }),
    sequence(time(leaf.notBeforeMs), time(leaf.notAfterMs)),
    leaf.subject,
    leaf.publicKey.export({ type: "spki", format: "der" }),
    explicit(3, sequence(...extensionsOf(leaf, issuer))),
  );
  const signature = sign("sha256", body, issuer === undefined ? ownKey : issuer.key);
  return pemOf(sequence(body, ecdsaWithSha256, bits(signature)));
}

function extensionsOf(leaf: Leaf, issuer: Issuer | undefined): Buffer[] {
  const critical = boolean(true);
  const ownKey = keyIdentifier(leaf.publicKey);
  const issuerKey = issuer === undefined ? ownKey : keyIdentifier(createPublicKey(issuer.certificate));
  const extensions: Buffer[] = [];
  const add = (id: Buffer, content: Buffer, flag?: Buffer): void => {
    extensions.push(flag === undefined ? sequence(id, octets(content)) : sequence(id, flag, octets(content)));
  };
  const keyUsages = leaf.usages.flatMap((usage) => keyUsageBits[usage] ?? []);
  const extended = leaf.usages.flatMap((usage) => extendedUsages[usage] ?? []);
  if (keyUsages.length > 0) add(extension.keyUsage, namedBits(...keyUsages), critical);
  if (extended.length > 0) add(extension.extendedUsage, sequence(...extended));
  add(extension.basicConstraints, leaf.isAuthority === true ? sequence(boolean(true)) : sequence(), critical);
  add(extension.subjectKey, octets(ownKey));
  add(extension.authorityKey, sequence(implicit(0, issuerKey)));
  if (leaf.names.length > 0) add(extension.alternativeNames, sequence(...leaf.names));
  return extensions;
}

/** One relative name per value: Go and Node both read several organizations that way. */
function nameOf(request: { commonName: string; organizations?: readonly string[] }): Buffer {
  const parts = (request.organizations ?? []).map((group) => set(sequence(attribute.organization, utf8(group))));
  parts.push(set(sequence(attribute.commonName, utf8(request.commonName))));
  return sequence(...parts);
}

function alternativeName(host: string): Buffer {
  const address = parseIp(host);
  if (address !== undefined) return implicit(7, Buffer.from(address.bytes));
  if (!/^[\x21-\x7e]+$/.test(host))
    throw new Error(`a host name in a certificate must be ASCII: ${JSON.stringify(host)}`);
  return implicit(2, Buffer.from(host, "ascii"));
}

/** SHA-1 of the public key's bits: readers find the issuer by it; it protects nothing. */
function keyIdentifier(publicKey: KeyObject): Buffer {
  const [, bitString] = readElements(readElement(publicKey.export({ type: "spki", format: "der" }), 0x30).content);
  return createHash("sha1")
    .update(bitString?.content.subarray(1) ?? Buffer.alloc(0))
    .digest();
}

/** 127 bits, never zero, never negative. */
function serialNumber(random: Random): Buffer {
  const bytes = Buffer.alloc(16);
  for (let offset = 0; offset < 16; offset += 4) bytes.writeUInt32BE(random.uint32() >>> 0, offset);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes;
}

function pemOf(certificate: Buffer): string {
  const lines = certificate.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}
