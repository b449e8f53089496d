import { isIPv6 } from "node:net";
import { join } from "node:path";
import { UserError } from "../../model/userError.ts";
import { fileGoodForMs, readCredentialFile } from "../kubeconfig/credentialFile.ts";
import { proxyFromEnv } from "../kubeconfig/proxyFromEnv.ts";
import type { KubeConnection } from "../kubeHttp/connection.ts";

export interface InClusterOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The folder where the service account token is mounted. */
  readonly folder?: string;
}

const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Whether this process runs in a pod. */
export function isInCluster(env: Readonly<Record<string, string | undefined>> = process.env): boolean {
  return Boolean(env["KUBERNETES_SERVICE_HOST"]) && Boolean(env["KUBERNETES_SERVICE_PORT"]);
}

/**
 * The connection of a pod to the API of its own cluster, as its service account. The token is rotated on disk long
 * before it expires, and read again every minute.
 */
export async function inClusterConnection(options: InClusterOptions = {}): Promise<KubeConnection> {
  const env = options.env ?? process.env;
  const folder = options.folder ?? serviceAccountFolder;
  if (!isInCluster(env)) {
    const message =
      "this process does not run in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set";
    throw new UserError("not-in-cluster", message, "pass --kubeconfig <file>, or run it in a pod");
  }
  const host = env["KUBERNETES_SERVICE_HOST"] ?? "";
  const token = async (): Promise<string> => (await readCredentialFile(join(folder, "token"))).trim();
  const authority = await readCredentialFile(join(folder, "ca.crt"));
  // Not every mount has a namespace file.
  const namespace = await readCredentialFile(join(folder, "namespace")).catch(() => "default");
  await token();
  const server = `https://${isIPv6(host) ? `[${host}]` : host}:${env["KUBERNETES_SERVICE_PORT"] ?? ""}`;
  const proxy = proxyFromEnv(server, env);
  return {
    server,
    ...(proxy === undefined ? {} : { proxy }),
    namespace: namespace.trim(),
    authority,
    credentials: async () => ({ authorization: `Bearer ${await token()}`, goodForMs: fileGoodForMs }),
  };
}
