import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { UserError } from "../../model/userError.ts";
import type { KeyFiles } from "../../ports/keyFiles.ts";
import type { Random } from "../../ports/random.ts";
import { type Issuer, issueCertificate, type KeyPair } from "./certificate.ts";

/**
 * The keys of one cluster: an authority, the server's certificate, the administrator's, and the key that signs
 * service-account tokens. Made at the first start, found again at the next, renewed before they run out.
 */
export interface Pki {
  /** The authority's certificate, which clients must trust. */
  readonly authority: string;
  readonly server: KeyPair;
  /** `kubernetes-admin` in `system:masters`: may do everything. */
  readonly admin: KeyPair;
  /** Signs and verifies service-account tokens. */
  readonly tokenKey: { readonly privateKey: KeyObject; readonly publicKey: KeyObject };
  /** Makes a client certificate that is not kept: a user and its groups. */
  issueClient(user: string, groups: readonly string[], nowMs: number): KeyPair;
}

export interface PkiOptions {
  readonly files: KeyFiles;
  readonly random: Random;
  /**
   * The time by which clients will judge the certificates: of the real world, even when the cluster's own clock is
   * played.
   */
  readonly nowMs: number;
  /** Names and addresses by which this server is reached, besides the usual ones. */
  readonly hosts?: readonly string[];
}

/** What every server answers to: this machine, and the Service `kubernetes` as pods see it. */
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
/** Certificates with less time left than this are replaced at start. */
const renewMs = 30 * dayMs;
/** Clients whose clock is behind by no more than this still accept a fresh certificate. */
const skewMs = 3600 * 1000;
const authorityName = "muster-ca";

/** Opens the keys of a cluster, making what is missing, running out, or does not name every host. */
export async function openPki(options: PkiOptions): Promise<Pki> {
  const { files, random, nowMs } = options;
  // The zone of a link-local address means something on one machine only; certificates have no place for it.
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
  };
}

/**
 * An authority of its own and one server's certificate by it, for a server that is not the API: both are kept like a
 * cluster's keys.
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

/** Keys that live as long as the process: for tests, and for servers without a data directory. */
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
  // The key is written first. So a key alone is a first start that was cut short, and no client has trusted it yet; a
  // certificate alone, or one that cannot be read, was trusted by clients: replacing it silently would lock them out.
  if (certificate !== undefined) {
    const parsed = key === undefined ? undefined : parsePair({ certificate, key });
    if (key === undefined || parsed === undefined) {
      throw new UserError(
        "keys-damaged",
        "the certificate authority is damaged: ca.crt and ca.key do not belong together",
        "restore both files, or remove the folder with the keys to make a new authority; kubeconfigs made before are then void",
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

/** The certificate, if both parts can be read and belong together. */
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
