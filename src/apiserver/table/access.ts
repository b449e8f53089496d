/** Tables of access control, admission and certificates. */

import type {
  CertificateSigningRequest,
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  MutatingWebhookConfiguration,
  RoleBinding,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  ValidatingWebhookConfiguration,
} from "../../model/kubernetes.generated.ts";
import { humanAge, humanDuration } from "../../model/values/humanDuration.ts";
import { none, unset } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf, wideColumn } from "./tableKind.ts";

/** Cluster role bindings look the same. */
export const roleBindingTable = tableOf<RoleBinding>(
  [
    nameColumn,
    column("Role", "The role that is given."),
    ageColumn,
    wideColumn("Users", "Users who get it."),
    wideColumn("Groups", "Groups that get it."),
    wideColumn("ServiceAccounts", "Service accounts that get it."),
  ],
  ({ metadata, roleRef, subjects }, nowMs) => {
    const named = (kind: string): string[] => {
      const names: string[] = [];
      for (const subject of subjects ?? []) {
        if (subject.kind !== kind) continue;
        names.push(kind === "ServiceAccount" ? `${subject.namespace ?? ""}/${subject.name}` : subject.name);
      }
      return names;
    };
    return [
      metadata.name,
      `${roleRef.kind}/${roleRef.name}`,
      humanAge(metadata.creationTimestamp, nowMs),
      named("User").join(", "),
      named("Group").join(", "),
      named("ServiceAccount").join(", "),
    ];
  },
);

export const webhookConfigurationTable = tableOf<MutatingWebhookConfiguration | ValidatingWebhookConfiguration>(
  [nameColumn, column("Webhooks", "How many webhooks are asked.", "integer"), ageColumn],
  ({ metadata, webhooks }, nowMs) => [
    metadata.name,
    webhooks?.length ?? 0,
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

const paramKindColumn = column("ParamKind", "The kind that configures the policy.");

export const validatingPolicyTable = tableOf<ValidatingAdmissionPolicy>(
  [nameColumn, column("Validations", "How many rules it has.", "integer"), paramKindColumn, ageColumn],
  ({ metadata, spec }, nowMs) => [
    metadata.name,
    spec?.validations?.length ?? 0,
    paramKind(spec?.paramKind),
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const mutatingPolicyTable = tableOf<MutatingAdmissionPolicy>(
  [nameColumn, column("Mutations", "How many changes it makes.", "integer"), paramKindColumn, ageColumn],
  ({ metadata, spec }, nowMs) => [
    metadata.name,
    spec?.mutations?.length ?? 0,
    paramKind(spec?.paramKind),
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

function paramKind(kind: { apiVersion?: string; kind?: string } | undefined): string {
  return kind === undefined ? unset : `${kind.apiVersion ?? ""}/${kind.kind ?? ""}`;
}

export const policyBindingTable = tableOf<ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding>(
  [
    nameColumn,
    column("PolicyName", "The policy that is bound."),
    column("ParamRef", "The object that configures it here."),
    ageColumn,
  ],
  ({ metadata, spec }, nowMs) => {
    const ref = spec?.paramRef;
    let param = unset;
    if (ref !== undefined) {
      if (ref.name) param = ref.namespace ? `${ref.namespace}/${ref.name}` : `*/${ref.name}`;
      else if (ref.selector !== undefined) param = JSON.stringify(ref.selector);
    }
    return [metadata.name, spec?.policyName ?? "", param, humanAge(metadata.creationTimestamp, nowMs)];
  },
);

export const certificateSigningRequestTable = tableOf<CertificateSigningRequest>(
  [
    nameColumn,
    ageColumn,
    column("SignerName", "Who is asked to sign."),
    column("Requestor", "Who asks."),
    column("RequestedDuration", "How long the certificate shall hold."),
    column("Condition", "What became of the request."),
  ],
  ({ metadata, spec, status }, nowMs) => {
    let condition = "";
    for (const { type } of status?.conditions ?? []) condition += condition === "" ? type : `,${type}`;
    if (condition === "") condition = "Pending";
    else if (status?.certificate) condition += ",Issued";
    return [
      metadata.name,
      humanAge(metadata.creationTimestamp, nowMs),
      spec.signerName,
      spec.username ?? "",
      spec.expirationSeconds === undefined ? none : humanDuration(spec.expirationSeconds * 1000),
      condition,
    ];
  },
);
