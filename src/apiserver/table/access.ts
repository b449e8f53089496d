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
    column("Role", "The role that is granted."),
    ageColumn,
    wideColumn("Users", "Users that the role is granted to."),
    wideColumn("Groups", "Groups that the role is granted to."),
    wideColumn("ServiceAccounts", "Service accounts that the role is granted to."),
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
  [nameColumn, column("Webhooks", "Number of webhooks.", "integer"), ageColumn],
  ({ metadata, webhooks }, nowMs) => [
    metadata.name,
    webhooks?.length ?? 0,
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

const paramKindColumn = column("ParamKind", "The kind of the policy's parameters.");

export const validatingPolicyTable = tableOf<ValidatingAdmissionPolicy>(
  [nameColumn, column("Validations", "Number of validations.", "integer"), paramKindColumn, ageColumn],
  ({ metadata, spec }, nowMs) => [
    metadata.name,
    spec?.validations?.length ?? 0,
    paramKind(spec?.paramKind),
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const mutatingPolicyTable = tableOf<MutatingAdmissionPolicy>(
  [nameColumn, column("Mutations", "Number of mutations.", "integer"), paramKindColumn, ageColumn],
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
    column("PolicyName", "The policy of the binding."),
    column("ParamRef", "The parameters of the binding."),
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
    column("SignerName", "The signer of the request."),
    column("Requestor", "The requesting user."),
    column("RequestedDuration", "Requested validity of the certificate."),
    column("Condition", "Conditions of the request."),
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
