import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { UserError } from "../../model/userError.ts";
import type { KeyFiles } from "../../ports/keyFiles.ts";
import type { Random } from "../../ports/random.ts";
import type { SigningRequest } from "../certificates/signingRequest.ts";
import { type Issuer, issueCertificate, type KeyPair, signCertificate } from "./certificate.ts";

/**
 * The keys of one cluster: a certificate authority, the certificates of server and administrator, and the key that
 * signs service account tokens. Created at the first start, read at later starts, and renewed before they expire.
 */
export interface Pki {
  /** The CA certificate, which clients must trust. */
  readonly authority: string;
  readonly server: KeyPair;
  /** `kubernetes-admin` in `system:masters`: may do everything. */
  readonly admin: KeyPair;
  /** Signs and verifies service-account tokens. */
  readonly tokenKey: { readonly privateKey: KeyObject; readonly publicKey: KeyObject };
  /** Issues a client certificate that is not stored: a user and its groups. */
  issueClient(user: string, groups: readonly string[], nowMs: number): KeyPair;
  readonly signRequest: CertificateSigner;
}

/** Signs a CertificateSigningRequest. Returns the certificate as PEM. */
export type CertificateSigner = (
  request: SigningRequest,
  options: { readonly usages: readonly string[]; readonly expirationSeconds?: number; readonly nowMs: number },
) => string;

export interface PkiOptions {
  readonly files: KeyFiles;
  readonly random: Random;
  /** The time by which clients verify certificates: real time, even when the cluster runs on a simulated clock. */
  readonly nowMs: number;
  /** Names and addresses of this server, besides the usual ones. */
  readonly hosts?: readonly string[];
}

/** Names and addresses of every server: this machine, and the Service `kubernetes` as pods see it. */
export const usualHosts: readonly string[] = [
  "localhost",
  "127.0.0.1",
  "::1",
  "kubernetes",
  "kubernetes.default",
  "kubernetes.default.svc",
  "kubernetes.default.svc.cluster.local",
  "10.96.0.1",
];

const dayMs = 24 * 3600 * 1000;
const authorityMs = 3650 * dayMs;
const leafMs = 365 * dayMs;
/** Certificates that expire within this time are replaced at start. */
const renewMs = 30 * dayMs;
/** Clients whose clock is behind by no more than this accept a new certificate. */
const skewMs = 3600 * 1000;
/** Certificates of CertificateSigningRequests are valid from this long before now. */
const backdateMs = 5 * 60 * 1000;
const requestMsMin = 600 * 1000;
/** The lifetime of a longer certificate includes the time before now. */
const shortMs = 8 * 3600 * 1000;
const authorityName = "muster-ca";

/** Reads the keys of a cluster, and creates those that are missing, expire soon, or lack a host. */
export async function openPki(options: PkiOptions): Promise<Pki> {
  const { files, random, nowMs } = options;
  // The zone of a link-local address is valid on one machine only; certificates cannot have it.
  const hosts = [...new Set([...usualHosts, ...(options.hosts ?? []).map((host) => host.replace(/%.*$/, ""))])];
  const authority = await openAuthority(files, random, nowMs);
  const validity = { notBeforeMs: nowMs - skewMs, notAfterMs: nowMs + leafMs, random };

  const server = await openLeaf(files, "apiserver", authority, nowMs, hosts, () =>
    issueCertificate({ commonName: "kube-apiserver", use: "server", hosts, ...validity }, authority),
  );
  const admin = await openLeaf(files, "admin", authority, nowMs, [], () =>
    issueCertificate(
      { commonName: "kubernetes-admin", organizations: ["system:masters"], use: "client", ...validity },
      authority,
    ),
  );
  const privateKey = await openTokenKey(files);

  return {
    authority: authority.certificate,
    server,
    admin,
    tokenKey: { privateKey, publicKey: createPublicKey(privateKey) },
    issueClient: (commonName, organizations, atMs) =>
      issueCertificate(
        {
          commonName,
          organizations,
          use: "client",
          notBeforeMs: atMs - skewMs,
          notAfterMs: atMs + leafMs,
          random,
        },
        authority,
      ),
    signRequest(request, options) {
      const expirationMs = (options.expirationSeconds ?? leafMs / 1000) * 1000;
      const lifetimeMs = Math.min(leafMs, Math.max(requestMsMin, expirationMs));
      const endMs = options.nowMs + lifetimeMs - (lifetimeMs < shortMs ? 0 : backdateMs);
      return signCertificate(
        {
          subject: request.subject,
          publicKey: request.publicKey,
          usages: options.usages,
          names: Object.values(request.names).flat(),
          notBeforeMs: options.nowMs - backdateMs,
          notAfterMs: Math.min(endMs, Date.parse(new X509Certificate(authority.certificate).validTo)),
          random,
        },
        authority,
      );
    },
  };
}

/**
 * A separate certificate authority and one server certificate, for a server other than the API server. Both are stored
 * as a cluster's keys are.
 */
export async function openServingPair(
  options: Omit<PkiOptions, "hosts"> & { readonly commonName: string; readonly hosts: readonly string[] },
): Promise<{ readonly authority: string; readonly server: KeyPair }> {
  const { files, random, nowMs, commonName, hosts } = options;
  const authority = await openAuthority(files, random, nowMs);
  const validity = { notBeforeMs: nowMs - skewMs, notAfterMs: nowMs + leafMs, random };
  const server = await openLeaf(files, "tls", authority, nowMs, hosts, () =>
    issueCertificate({ commonName, use: "server", hosts, ...validity }, authority),
  );
  return { authority: authority.certificate, server };
}

/** Keys in memory: for tests, and for servers without a data folder. */
export function memoryKeyFiles(): KeyFiles {
  const texts = new Map<string, string>();
  return {
    read: async (name) => texts.get(name),
    write: async (name, text) => {
      texts.set(name, text);
    },
  };
}

async function openAuthority(files: KeyFiles, random: Random, nowMs: number): Promise<Issuer> {
  const [certificate, key] = await Promise.all([files.read("ca.crt"), files.read("ca.key")]);
  // The key is written first. So a key alone is a first start that was interrupted, and no client has trusted it yet; a
  // certificate alone, or one that cannot be read, was trusted by clients: replacing it silently would lock them out.
  if (certificate !== undefined) {
    const parsed = key === undefined ? undefined : parsePair({ certificate, key });
    if (key === undefined || parsed === undefined) {
      throw new UserError(
        "keys-damaged",
        "the certificate authority is damaged: ca.crt and ca.key do not match",
        "restore both files, or remove the folder with the keys to create a new certificate authority; existing kubeconfigs are then invalid",
      );
    }
    if (Date.parse(parsed.validTo) - nowMs >= renewMs) return { certificate, key, name: authorityName };
  }
  const made = issueCertificate({
    commonName: authorityName,
    use: "authority",
    notBeforeMs: nowMs - skewMs,
    notAfterMs: nowMs + authorityMs,
    random,
  });
  await files.write("ca.key", made.key);
  await files.write("ca.crt", made.certificate);
  return { ...made, name: authorityName };
}

async function openLeaf(
  files: KeyFiles,
  name: string,
  authority: Issuer,
  nowMs: number,
  hosts: readonly string[],
  make: () => KeyPair,
): Promise<KeyPair> {
  const [certificate, key] = await Promise.all([files.read(`${name}.crt`), files.read(`${name}.key`)]);
  if (certificate !== undefined && key !== undefined) {
    const found = { certificate, key };
    if (isUsable(found, authority, nowMs, hosts)) return found;
  }
  const made = make();
  await files.write(`${name}.key`, made.key);
  await files.write(`${name}.crt`, made.certificate);
  return made;
}

function isUsable(pair: KeyPair, authority: Issuer, nowMs: number, hosts: readonly string[]): boolean {
  const parsed = parsePair(pair);
  if (parsed === undefined || !parsed.verify(createPublicKey(authority.certificate))) return false;
  if (Date.parse(parsed.validTo) - nowMs < renewMs || Date.parse(parsed.validFrom) > nowMs) return false;
  return hosts.every((host) => (isIP(host) === 0 ? parsed.checkHost(host) : parsed.checkIP(host)) !== undefined);
}

/** The certificate, if certificate and key can be read and match. */
function parsePair({ certificate, key }: KeyPair): X509Certificate | undefined {
  try {
    const parsed = new X509Certificate(certificate);
    return parsed.checkPrivateKey(createPrivateKey(key)) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

async function openTokenKey(files: KeyFiles): Promise<KeyObject> {
  const found = await files.read("sa.key");
  if (found !== undefined) return createPrivateKey(found);
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  await files.write("sa.key", privateKey.export({ type: "pkcs8", format: "pem" }).toString());
  return privateKey;
}
