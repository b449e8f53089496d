import type {
  EndpointSlice,
  MutatingWebhookConfiguration,
  Service,
  ValidatingWebhookConfiguration,
} from "../../../model/kubernetes.generated.ts";
import type { Evidence } from "../../verify/check.ts";
import { type ClusterSnapshot, objectsOf } from "../../verify/clusterSnapshot.ts";
import { type AuditCheck, settle } from "../auditCheck.ts";

export const webhookChecks: readonly AuditCheck[] = [
  {
    name: "webhook-without-backend",
    meaning: "a webhook that refuses writes when it cannot be called points at a Service without a ready endpoint",
    cause: "its program was removed or scaled to zero, and its webhook configuration was left behind",
    cure: "start the pods of the Service, or delete the webhook configuration",
    settleMs: settle.chain,
    needs: ["validatingwebhookconfigurations", "mutatingwebhookconfigurations", "services", "endpointslices"],
    find: (snapshot) => {
      const backends = backendsOf(snapshot);
      return [
        ...objectsOf<ValidatingWebhookConfiguration>(snapshot, "validatingwebhookconfigurations").flatMap((each) =>
          unserved("validatingwebhookconfigurations", each, backends),
        ),
        ...objectsOf<MutatingWebhookConfiguration>(snapshot, "mutatingwebhookconfigurations").flatMap((each) =>
          unserved("mutatingwebhookconfigurations", each, backends),
        ),
      ];
    },
  },
];

/** Each Service, and whether it can answer; one of type ExternalName is outside of the cluster and always may. */
function backendsOf(snapshot: ClusterSnapshot): ReadonlyMap<string, boolean> {
  const backends = new Map<string, boolean>();
  for (const { metadata, spec } of objectsOf<Service>(snapshot, "services")) {
    backends.set(`${metadata.namespace ?? ""}/${metadata.name}`, spec?.type === "ExternalName");
  }
  for (const { metadata, endpoints } of objectsOf<EndpointSlice>(snapshot, "endpointslices")) {
    const key = `${metadata.namespace ?? ""}/${metadata.labels?.["kubernetes.io/service-name"] ?? ""}`;
    if (
      !backends.has(key) ||
      !(endpoints ?? []).some(({ conditions, addresses }) => (addresses ?? []).length > 0 && isServing(conditions))
    )
      continue;
    backends.set(key, true);
  }
  return backends;
}

/** An endpoint whose readiness is not known counts as ready. */
function isServing(conditions: { readonly ready?: boolean; readonly serving?: boolean } | undefined): boolean {
  return conditions?.ready !== false || conditions.serving === true;
}

function unserved(
  plural: string,
  { metadata, webhooks }: ValidatingWebhookConfiguration | MutatingWebhookConfiguration,
  backends: ReadonlyMap<string, boolean>,
): Evidence[] {
  return (webhooks ?? []).flatMap(({ name, failurePolicy, clientConfig, rules }) => {
    const service = clientConfig?.service;
    // `Fail` is the default. A webhook without rules is called for nothing.
    if (service === undefined || service === null || failurePolicy === "Ignore" || (rules ?? []).length === 0)
      return [];
    const key = `${service.namespace}/${service.name}`;
    const answers = backends.get(key);
    if (answers === true) return [];
    const problem =
      answers === undefined
        ? `webhook ${name} points at Service ${key}, which does not exist: it refuses writes`
        : `webhook ${name} points at Service ${key}, which has no ready endpoint: it refuses writes`;
    return [{ object: `${plural}/${metadata.name}`, problem }];
  });
}
