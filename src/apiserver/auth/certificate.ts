import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { parseIp } from "../../model/values/ipAddress.ts";
import type { Random } from "../../ports/random.ts";
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
 * X.509 certificates by hand: an authority, servers and clients on the curve P-256, in the form that Go, OpenSSL and
 * Node all accept. Keys come from the system's own chance; serial numbers and validity are passed in.
 */
export interface CertificateRequest {
  readonly commonName: string;
  /** For a client: its groups. */
  readonly organizations?: readonly string[];
  readonly use: "authority" | "server" | "client";
  /** DNS names and IP addresses that a server answers to. */
  readonly hosts?: readonly string[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly random: Random;
}

/** A certificate and its private key, both as PEM. */
export type KeyPair = { readonly certificate: string; readonly key: string };

/** The signer: the authority's own key pair, or itself when it is made. */
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
const usage = { server: oid("1.3.6.1.5.5.7.3.1"), client: oid("1.3.6.1.5.5.7.3.2") };
const keyUsageBit = { digitalSignature: 0, keyCertSign: 5, crlSign: 6 };

/** Makes a key and a certificate for it, signed by the issuer; an authority without issuer signs itself. */
export function issueCertificate(request: CertificateRequest, issuer?: Issuer): KeyPair {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const subject = nameOf(request);
  const body = sequence(
    explicit(0, unsignedInteger(Buffer.from([2]))),
    unsignedInteger(serialNumber(request.random)),
    ecdsaWithSha256,
    issuer === undefined ? subject : nameOf({ commonName: issuer.name }),
    sequence(time(request.notBeforeMs), time(request.notAfterMs)),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    explicit(3, sequence(...extensionsOf(request, publicKey, issuer))),
  );
  const signature = sign("sha256", body, issuer === undefined ? privateKey : issuer.key);
  const whole = sequence(body, ecdsaWithSha256, bits(signature));
  return { certificate: pemOf(whole), key };
}

function extensionsOf(request: CertificateRequest, publicKey: KeyObject, issuer: Issuer | undefined): Buffer[] {
  const critical = boolean(true);
  const ownKey = keyIdentifier(publicKey);
  const issuerKey = issuer === undefined ? ownKey : keyIdentifier(createPublicKey(issuer.certificate));
  const extensions: Buffer[] = [];
  const add = (id: Buffer, content: Buffer, flag?: Buffer): void => {
    extensions.push(flag === undefined ? sequence(id, octets(content)) : sequence(id, flag, octets(content)));
  };
  if (request.use === "authority") {
    add(
      extension.keyUsage,
      namedBits(keyUsageBit.digitalSignature, keyUsageBit.keyCertSign, keyUsageBit.crlSign),
      critical,
    );
    add(extension.basicConstraints, sequence(boolean(true)), critical);
  } else {
    add(extension.keyUsage, namedBits(keyUsageBit.digitalSignature), critical);
    add(extension.extendedUsage, sequence(usage[request.use]));
    add(extension.basicConstraints, sequence(), critical);
  }
  add(extension.subjectKey, octets(ownKey));
  add(extension.authorityKey, sequence(implicit(0, issuerKey)));
  const hosts = request.hosts ?? [];
  if (hosts.length > 0) add(extension.alternativeNames, sequence(...hosts.map(alternativeName)));
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

/** SHA-1 of the public key's bits: an identifier that readers use to find the issuer, not a protection. */
function keyIdentifier(publicKey: KeyObject): Buffer {
  const point = publicKey.export({ type: "spki", format: "der" }).subarray(-65); // an uncompressed point of P-256
  return createHash("sha1").update(point).digest();
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
