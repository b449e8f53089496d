import { expectedOf, type NewObject } from "../../model/intent.ts";
import { equalFields } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import type { Outcome } from "../../model/outcome.ts";
import { firstRevision } from "../../model/revision.ts";
import type { KubeApi, ObjectRef } from "../../ports/kubeApi.ts";
import { Writer } from "../runtime/writer.ts";

const attemptsMax = 5;

/**
 * Creates or updates the webhook configurations of the cluster. Several processes of one installation may do so at
 * once: their desired objects are equal, and an up-to-date object is not written.
 */
export async function ensureWebhooks(kube: KubeApi, wanted: readonly NewObject[]): Promise<Outcome<undefined>> {
  for (const each of wanted) {
    const outcome = await ensure(kube, each);
    if (!outcome.ok) return outcome;
  }
  return { ok: true, value: undefined };
}

async function ensure(kube: KubeApi, wanted: NewObject): Promise<Outcome<unknown>> {
  const kind = resourceOf(wanted);
  const ref: ObjectRef = { ...kind, namespace: "", name: wanted.metadata.name };
  for (let attempt = 1; ; attempt++) {
    const found = await kube.get(ref);
    if (!found.ok && found.reason !== "NotFound") return found;
    if (found.ok && equalFields(found.value["webhooks"], wanted["webhooks"])) return found;
    const why = "this process serves the webhooks";
    const written = found.ok
      ? await replaceWebhooks(kube, ref, found.value, wanted["webhooks"])
      : await new Writer(kube).apply({
          type: "create",
          target: ref,
          absentAtRevision: firstRevision,
          object: wanted,
          why,
        });
    const isRace = !written.ok && (written.reason === "Conflict" || written.reason === "AlreadyExists");
    if (!isRace || attempt === attemptsMax) return written;
  }
}

/**
 * Writes the address and the CA of this process into the webhook configurations of the installation, and changes
 * nothing else in them. Returns the missing ones: an installation creates them after its processes, and deletes them
 * before.
 */
export async function ensureWebhookClients(
  kube: KubeApi,
  wanted: readonly NewObject[],
): Promise<Outcome<readonly string[]>> {
  const missing: string[] = [];
  for (const each of wanted) {
    const outcome = await ensureClients(kube, each);
    if (!outcome.ok) return outcome;
    if (outcome.value === "missing") missing.push(`${each.kind} ${each.metadata.name}`);
  }
  return { ok: true, value: missing };
}

interface NamedWebhook {
  readonly name: string;
  readonly clientConfig: unknown;
}

async function ensureClients(kube: KubeApi, wanted: NewObject): Promise<Outcome<"there" | "missing">> {
  const ref: ObjectRef = { ...resourceOf(wanted), namespace: "", name: wanted.metadata.name };
  const clients = new Map((wanted["webhooks"] as NamedWebhook[]).map(({ name, clientConfig }) => [name, clientConfig]));
  for (let attempt = 1; ; attempt++) {
    const found = await kube.get(ref);
    if (!found.ok) return found.reason === "NotFound" ? { ok: true, value: "missing" } : found;
    const stored = (found.value["webhooks"] ?? []) as NamedWebhook[];
    const webhooks = stored.map((each) => ({ ...each, clientConfig: clients.get(each.name) ?? each.clientConfig }));
    if (equalFields(stored, webhooks)) return { ok: true, value: "there" };
    const written = await replaceWebhooks(kube, ref, found.value, webhooks);
    if (written.ok) return { ok: true, value: "there" };
    if (written.reason !== "Conflict" || attempt === attemptsMax) return written;
  }
}

function replaceWebhooks(
  kube: KubeApi,
  target: ObjectRef,
  found: KubeObject,
  webhooks: unknown,
): Promise<Outcome<unknown>> {
  const object: KubeObject = { ...found, webhooks };
  const why = "the webhooks need the address and CA of this process";
  return new Writer(kube).apply({ type: "update", target, expected: expectedOf(found), object, why });
}

function resourceOf({ kind }: NewObject): Resource {
  const plural =
    kind === "MutatingWebhookConfiguration" ? "mutatingwebhookconfigurations" : "validatingwebhookconfigurations";
  return { group: "admissionregistration.k8s.io", version: "v1", plural };
}
