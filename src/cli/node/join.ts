import { Buffer } from "node:buffer";
import { randomInt } from "node:crypto";
import { isIP } from "node:net";
import type { Node, Secret } from "../../model/kubernetes.generated.ts";
import { builtin } from "../../model/resources.generated.ts";
import { UsageError, UserError } from "../../model/userError.ts";
import { durationMs } from "../../model/values/duration.ts";
import { formatTime } from "../../model/values/time.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { mustSucceed } from "../cluster/mustSucceed.ts";
import { type JoinSettings, joinFiles, joinScript, kubeletFlags, podNetworkLabel } from "./joinFiles.ts";
import { type ChosenCluster, type NodeFlags, withChosenCluster } from "./withChosenCluster.ts";

export interface JoinFlags extends NodeFlags {
  readonly name?: string;
  readonly ttl: string;
  /** The address of the API server for the new machine. */
  readonly server?: string;
  readonly podCidr?: string;
  /** False: a network plugin of the cluster configures the pods' network. */
  readonly network?: boolean;
}

const tokenNamespace = "kube-system";
const secretPrefix = "bootstrap-token-";
/** On the Secret of a token: the pod network of the node that joins by it. */
const networkAnnotation = "muster.dev/pod-network";
const clusterDns = "10.96.0.10";
const nodeName = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Makes a bootstrap token and prints the script that joins a machine. */
export async function runJoin(flags: JoinFlags): Promise<void> {
  const { name } = flags;
  if (name !== undefined && !nodeName.test(name)) {
    const cure = "pass a lower-case host name, such as gpu-1";
    throw new UsageError("node-name-malformed", `${JSON.stringify(name)} cannot be the name of a node`, cure);
  }
  const ttlMs = lifetimeOf(flags.ttl);
  await withChosenCluster(flags, async (cluster) => {
    const { kube, clock, connection } = cluster;
    const server = flags.server === undefined ? await serverOf(cluster) : checkedServer(flags.server);
    const authority = connection.authority ?? "";
    if (authority === "") {
      const cure = "use a kubeconfig with certificate-authority or certificate-authority-data";
      throw new UserError("authority-missing", "the kubeconfig has no CA certificate that a node could trust", cure);
    }
    const [id, secret] = [randomText(6), randomText(16)];
    const expires = formatTime(clock.nowMs() + ttlMs);
    const podCidr = flags.network === false ? undefined : (flags.podCidr ?? (await freeNetwork(kube)));
    if (podCidr !== undefined) checkNetwork(podCidr);
    const about = name === undefined ? "a node" : `node ${name}`;
    mustSucceed(
      await kube.create(builtin.Secret, {
        apiVersion: "v1",
        kind: "Secret",
        metadata: {
          name: `${secretPrefix}${id}`,
          namespace: tokenNamespace,
          ...(podCidr !== undefined && { annotations: { [networkAnnotation]: podCidr } }),
        },
        type: "bootstrap.kubernetes.io/token",
        data: encoded({
          "token-id": id,
          "token-secret": secret,
          expiration: expires,
          "usage-bootstrap-authentication": "true",
          description: `made by muster node join for ${about}`,
        }),
      }),
      "the bootstrap token could not be created",
    );
    print(flags, { server, authority, token: `${id}.${secret}`, expires, name, podCidr, clusterDns });
  });
}

function print(flags: JoinFlags, settings: JoinSettings): void {
  if (flags.output === "json") {
    const { authority: _, ...shown } = settings;
    const more = { files: joinFiles(settings), kubeletFlags: kubeletFlags(settings), script: joinScript(settings) };
    process.stdout.write(`${JSON.stringify({ ...shown, ...more })}\n`);
    return;
  }
  if (process.stdout.isTTY) {
    process.stderr.write("Run this script as root on the new machine, for example:\n");
    process.stderr.write("  muster node join | ssh root@gpu-1 sh\n\n");
  }
  process.stdout.write(joinScript(settings));
}

function lifetimeOf(text: string): number {
  const ms = durationMs(text);
  if (ms !== undefined && ms >= 60_000) return ms;
  const cure = "pass at least a minute, such as --ttl 24h";
  throw new UsageError("ttl-malformed", `--ttl ${JSON.stringify(text)} is no lifetime of a token`, cure);
}

/** That of the kubeconfig, or for a loopback address the one that the cluster advertises. */
async function serverOf({ kube, connection }: ChosenCluster): Promise<string> {
  const url = new URL(connection.server);
  if (!isLoopback(url.hostname)) return connection.server;
  const ref = { ...builtin.EndpointSlice, namespace: "default", name: "kubernetes" };
  const slice = mustSucceed(await kube.get(ref), "the endpoints of the Service kubernetes could not be read");
  const address = slice.endpoints?.[0]?.addresses[0] ?? "";
  if (isIP(address) === 0 || isLoopback(address)) {
    throw new UserError(
      "server-local",
      `the API server listens on ${url.host} only, which no other machine reaches`,
      "start it with `muster up --host 0.0.0.0` (or an address of this machine), or pass --server https://HOST:PORT",
    );
  }
  const port = slice.ports?.[0]?.port ?? Number(url.port);
  return `https://${address.includes(":") ? `[${address}]` : address}:${port}`;
}

function checkedServer(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "https:" && url.pathname === "/") return url.origin;
  const cure = "pass an address such as --server https://192.0.2.10:6443";
  throw new UsageError("server-malformed", `--server ${JSON.stringify(text)} is no https address`, cure);
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || host === "::1" || host.startsWith("127.");
}

/** A network of 254 pods that no node has and that no token was made for. */
async function freeNetwork(kube: KubeApi): Promise<string> {
  const nodes = mustSucceed(await kube.list(builtin.Node), "nodes could not be listed").items;
  const place = { namespace: tokenNamespace };
  const secrets = mustSucceed(await kube.list(builtin.Secret, place), "bootstrap tokens could not be listed").items;
  const taken = takenNetworks(nodes, secrets);
  for (let third = 1; third < 255; third++) if (!taken.has(`10.244.${third}.0/24`)) return `10.244.${third}.0/24`;
  const cure = "pass --pod-cidr with a network of your own, or --no-network with a network plugin in the cluster";
  throw new UserError(
    "pod-network-full",
    "every /24 of 10.244.0.0/16 is assigned to a node or to a bootstrap token",
    cure,
  );
}

export function takenNetworks(nodes: readonly Node[], secrets: readonly Secret[]): Set<string> {
  return new Set([
    ...nodes.flatMap(({ spec, metadata }) => [
      ...(spec?.podCIDRs ?? []),
      ...(spec?.podCIDR === undefined ? [] : [spec.podCIDR]),
      (metadata.labels?.[podNetworkLabel] ?? "").replace(/-(\d+)$/, "/$1"),
    ]),
    ...secrets.map(({ metadata }) => metadata.annotations?.[networkAnnotation] ?? ""),
  ]);
}

function checkNetwork(text: string): void {
  const [address = "", bits = ""] = text.split("/");
  if (isIP(address) === 4 && /^(?:[89]|1\d|2[0-8])$/.test(bits)) return;
  const cure = "pass an IPv4 network such as --pod-cidr 10.244.7.0/24";
  throw new UsageError(
    "pod-network-malformed",
    `--pod-cidr ${JSON.stringify(text)} is not an IPv4 network with a prefix length from 8 to 28`,
    cure,
  );
}

function encoded(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString("base64")]));
}

const letters = "abcdefghijklmnopqrstuvwxyz0123456789";

function randomText(length: number): string {
  return Array.from({ length }, () => letters[randomInt(letters.length)]).join("");
}
