import { Buffer } from "node:buffer";
import type { KeyPair } from "../../apiserver/auth/certificate.ts";
import { openServingPair } from "../../apiserver/auth/pki.ts";
import { Writer } from "../../control/runtime/writer.ts";
import { expectedOf, type NewObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { firstRevision } from "../../model/revision.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Random } from "../../ports/random.ts";

export interface WebhookKeys {
  /** PEM of the CA that clients must trust. */
  readonly authority: string;
  readonly server: KeyPair;
}

const secrets = builtin.Secret;
const attemptsMax = 10;

/**
 * The keys of the webhook server, in a Secret that all processes of an installation share: the first process creates
 * them, and the first one that finds them near expiry renews them. Each change is one write with the resourceVersion
 * that was read, so all processes end with the same keys.
 */
export async function openKeysInSecret(
  { kube, random, nowMs }: { readonly kube: KubeApi; readonly random: Random; readonly nowMs: number },
  place: { readonly namespace: string; readonly name: string; readonly hosts: readonly string[] },
): Promise<Outcome<WebhookKeys>> {
  const { namespace, name, hosts } = place;
  const ref = { ...secrets, namespace, name };
  for (let attempt = 1; ; attempt++) {
    const found = await kube.get(ref);
    if (!found.ok && found.reason !== "NotFound") return found;
    const texts = textsOf(found.ok ? found.value : undefined);
    let isChanged = false;
    const files = {
      read: async (file: string) => texts.get(file),
      write: async (file: string, text: string) => {
        isChanged = true;
        texts.set(file, text);
      },
    };
    const keys = await openServingPair({ files, random, nowMs, commonName: name, hosts });
    if (!isChanged) return { ok: true, value: keys };
    const data = Object.fromEntries([...texts].map(([file, text]) => [file, Buffer.from(text).toString("base64")]));
    const why = "the webhooks of this installation are served by these keys";
    const written = await new Writer(kube).apply<KubeObject>(
      found.ok
        ? { type: "update", target: ref, expected: expectedOf(found.value), object: { ...found.value, data }, why }
        : {
            type: "create",
            target: ref,
            absentAtRevision: firstRevision,
            object: newSecret(namespace, name, data),
            why,
          },
    );
    if (written.ok) return { ok: true, value: keys };
    const isRace = written.reason === "Conflict" || written.reason === "AlreadyExists";
    if (!isRace || attempt === attemptsMax) return written;
  }
}

function textsOf(secret: KubeObject | undefined): Map<string, string> {
  const data = (secret?.["data"] ?? {}) as Record<string, string>;
  return new Map(Object.entries(data).map(([file, text]) => [file, Buffer.from(text, "base64").toString("utf8")]));
}

function newSecret(namespace: string, name: string, data: Record<string, string>): NewObject {
  const labels = { "app.kubernetes.io/managed-by": "muster" };
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { namespace, name, labels },
    type: "kubernetes.io/tls",
    data,
  };
}
