import { stringify } from "yaml";
import type { KeyPair } from "./certificate.ts";

export interface KubeconfigOptions {
  /** `https://127.0.0.1:6443`. */
  readonly server: string;
  /** The CA certificate as PEM; it is embedded in the file. */
  readonly authority: string;
  readonly user: string;
  readonly credential: KeyPair | { readonly token: string };
  readonly namespace?: string;
  /** Name of cluster and context; default `muster`. */
  readonly context?: string;
}

/** The text of a kubeconfig that needs no other file. */
export function kubeconfigText(options: KubeconfigOptions): string {
  const context = options.context ?? "muster";
  const { credential } = options;
  const user =
    "token" in credential
      ? { token: credential.token }
      : { "client-certificate-data": base64(credential.certificate), "client-key-data": base64(credential.key) };
  const userName = `${context}-${options.user}`;
  return stringify(
    {
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        { name: context, cluster: { server: options.server, "certificate-authority-data": base64(options.authority) } },
      ],
      users: [{ name: userName, user }],
      contexts: [
        { name: context, context: { cluster: context, user: userName, namespace: options.namespace ?? "default" } },
      ],
      "current-context": context,
    },
    { lineWidth: 0 },
  );
}

function base64(text: string): string {
  return Buffer.from(text, "utf8").toString("base64");
}
