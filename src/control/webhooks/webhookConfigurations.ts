import type { NewObject } from "../../model/intent.ts";
import type { AdmissionHook } from "../../model/objects/admissionHook.ts";
import type { Component } from "../runtime/component.ts";

/** How the API server reaches the process that serves the webhooks. */
export type WebhookClient =
  | { readonly service: { readonly namespace: string; readonly name: string; readonly port: number } }
  /** `https://host:port`, for a process outside the cluster. */
  | { readonly url: string };

export interface WebhookPlace {
  readonly client: WebhookClient;
  /** The CA of the serving certificate, as PEM in base64. */
  readonly authority: string;
  /** The namespace of the process itself: its own pods are exempt, otherwise it could not start again. */
  readonly ownNamespace: string;
}

const timeoutSeconds = 10;

/** The path of a hook. Names of hooks are names of webhooks, so they need no escaping. */
export function pathOf(hook: AdmissionHook): string {
  return `/admission/${hook.name}`;
}

/**
 * The webhook configurations of these components: one object for each component and type. Every field that a server
 * would default is written out, so that the stored object can be compared with the wanted one.
 */
export function webhookConfigurations(components: readonly Component[], place: WebhookPlace): NewObject[] {
  return components.flatMap(({ name, hooks = [] }) =>
    (["mutating", "validating"] as const).flatMap((type) => {
      const webhooks = hooks.filter((hook) => hook.type === type).map((hook) => webhookOf(hook, place));
      if (webhooks.length === 0) return [];
      const kind = type === "mutating" ? "MutatingWebhookConfiguration" : "ValidatingWebhookConfiguration";
      const labels = { "app.kubernetes.io/managed-by": "muster" };
      const metadata = { name: `muster-${name}`, labels };
      return [{ apiVersion: "admissionregistration.k8s.io/v1", kind, metadata, webhooks }];
    }),
  );
}

function webhookOf(hook: AdmissionHook, { client, authority, ownNamespace }: WebhookPlace): object {
  const { group, version, plural } = hook.resource;
  const { labels, expression } = hook.prefilter ?? {};
  const path = pathOf(hook);
  const address = "url" in client ? { url: `${client.url}${path}` } : { service: { ...client.service, path } };
  const notAsked = { key: "kubernetes.io/metadata.name", operator: "NotIn", values: ["kube-system", ownNamespace] };
  // Rules for Muster's own kinds apply in every namespace. Rules for pods exempt some namespaces, because every
  // component of a cluster creates pods.
  const namespaceSelector = group === "" && plural === "pods" ? { matchExpressions: [notAsked] } : {};
  return {
    name: hook.name,
    clientConfig: { ...address, caBundle: authority },
    rules: [
      {
        apiGroups: [group],
        apiVersions: [version],
        operations: [...hook.operations],
        resources: [hook.subresource === undefined ? plural : `${plural}/${hook.subresource}`],
        scope: "*",
      },
    ],
    failurePolicy: "Fail",
    // The server converts objects of other versions to the version that the rule names.
    matchPolicy: "Equivalent",
    namespaceSelector,
    objectSelector: labels === undefined ? {} : { matchLabels: labels },
    sideEffects: "None",
    timeoutSeconds,
    admissionReviewVersions: ["v1"],
    ...(hook.type === "mutating" ? { reinvocationPolicy: "IfNeeded" } : {}),
    ...(expression === undefined ? {} : { matchConditions: [{ name: "concerned", expression }] }),
  };
}
