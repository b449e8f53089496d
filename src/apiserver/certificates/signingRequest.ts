import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { oid } from "../auth/der.ts";
import { type DerElement, readElement, readElements } from "./derReader.ts";

/** A PKCS#10 certificate signing request. */
export interface SigningRequest {
  /** The DER encoding of the subject. */
  readonly subject: Buffer;
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly publicKey: KeyObject;
  /** DER encodings of the subject alternative names, by type. Other types are left out. */
  readonly names: Readonly<Record<AlternativeName, readonly Buffer[]>>;
}

export type AlternativeName = "email" | "dns" | "uri" | "ip";

const sequenceTag = 0x30;
const setTag = 0x31;
const bitsTag = 0x03;
const oidTag = 0x06;
const octetsTag = 0x04;
const attributesTag = 0xa0;
const nameTags: Readonly<Record<number, AlternativeName>> = { 129: "email", 130: "dns", 134: "uri", 135: "ip" };

const commonName = oid("2.5.4.3");
const organization = oid("2.5.4.10");
const extensionRequest = oid("1.2.840.113549.1.9.14");
const alternativeNames = oid("2.5.29.17");

/** Hash functions by the OID of the signature algorithm; null where the algorithm has its own. */
const hashes: readonly (readonly [algorithm: Buffer, hash: string | null])[] = [
  [oid("1.2.840.10045.4.3.2"), "sha256"],
  [oid("1.2.840.10045.4.3.3"), "sha384"],
  [oid("1.2.840.10045.4.3.4"), "sha512"],
  [oid("1.2.840.113549.1.1.11"), "sha256"],
  [oid("1.2.840.113549.1.1.12"), "sha384"],
  [oid("1.2.840.113549.1.1.13"), "sha512"],
  [oid("1.3.101.112"), null],
];

/** Parses a PEM block and verifies its signature by the request's own key. Throws an Error that says what is wrong. */
export function parseSigningRequest(pem: string): SigningRequest {
  const block = /-----BEGIN ([A-Z ]+)-----([A-Za-z0-9+/=\s]*)-----END \1-----/.exec(pem);
  if (block?.[1] !== "CERTIFICATE REQUEST") throw new Error("PEM block type must be CERTIFICATE REQUEST");
  const request = readElement(Buffer.from(block[2] ?? "", "base64"), sequenceTag);
  const [info, algorithm, signature] = readElements(request.content);
  if (info?.tag !== sequenceTag || algorithm?.tag !== sequenceTag || signature?.tag !== bitsTag) {
    throw new Error("the certificate request is malformed");
  }
  const [, subject, key, attributes] = readElements(info.content);
  if (subject?.tag !== sequenceTag || key?.tag !== sequenceTag) throw new Error("the certificate request is malformed");
  const publicKey = createPublicKey({ key: key.bytes, format: "der", type: "spki" });
  verifySignature(info, algorithm, signature, publicKey);
  return {
    subject: subject.bytes,
    commonName: valuesOf(subject, commonName).at(-1) ?? "",
    organizations: valuesOf(subject, organization),
    publicKey,
    names: namesOf(attributes?.tag === attributesTag ? attributes : undefined),
  };
}

function verifySignature(info: DerElement, algorithm: DerElement, signature: DerElement, publicKey: KeyObject): void {
  const [id] = readElements(algorithm.content);
  const hash = hashes.find(([known]) => id !== undefined && known.equals(id.bytes));
  if (hash === undefined) throw new Error("the signature algorithm of the certificate request is not supported");
  if (!verify(hash[1], info.bytes, publicKey, signature.content.subarray(1))) {
    throw new Error("unable to verify certificate request signature");
  }
}

/** The values of an attribute of a name. */
function valuesOf(name: DerElement, attribute: Buffer): string[] {
  const values: string[] = [];
  for (const set of readElements(name.content)) {
    for (const pair of readElements(set.content)) {
      const [id, value] = readElements(pair.content);
      if (id !== undefined && value !== undefined && attribute.equals(id.bytes)) values.push(value.content.toString());
    }
  }
  return values;
}

function namesOf(attributes: DerElement | undefined): SigningRequest["names"] {
  const names: Record<AlternativeName, Buffer[]> = { email: [], dns: [], uri: [], ip: [] };
  for (const attribute of attributes === undefined ? [] : readElements(attributes.content)) {
    const [id, values] = readElements(attribute.content);
    if (id?.tag !== oidTag || values?.tag !== setTag || !extensionRequest.equals(id.bytes)) continue;
    for (const extension of readElements(readElement(values.content, sequenceTag).content)) {
      const [kind, ...rest] = readElements(extension.content);
      const value = rest.at(-1);
      if (kind === undefined || value?.tag !== octetsTag || !alternativeNames.equals(kind.bytes)) continue;
      for (const name of readElements(readElement(value.content, sequenceTag).content)) {
        const type = nameTags[name.tag];
        if (type !== undefined) names[type].push(name.bytes);
      }
    }
  }
  return names;
}
