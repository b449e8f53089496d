/** Tables of ConfigMaps, Secrets and ResourceQuotas. */

import type { ConfigMap, ResourceQuota, Secret } from "../../model/kubernetes.generated.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { ageColumn, column, nameColumn, tableOf } from "./tableKind.ts";

export const configMapTable = tableOf<ConfigMap>(
  [nameColumn, column("Data", "Number of entries."), ageColumn],
  ({ metadata, data, binaryData }, nowMs) => [
    metadata.name,
    sizeOf(data) + sizeOf(binaryData),
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const secretTable = tableOf<Secret>(
  [nameColumn, column("Type", "Type of the secret."), column("Data", "Number of entries."), ageColumn],
  ({ metadata, type, data }, nowMs) => [
    metadata.name,
    type ?? "",
    sizeOf(data),
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const resourceQuotaTable = tableOf<ResourceQuota>(
  [
    nameColumn,
    column("Request", "Counts and requests: used and hard."),
    column("Limit", "Limits: used and hard."),
    ageColumn,
  ],
  ({ metadata, status }, nowMs) => {
    const requests: string[] = [];
    const limits: string[] = [];
    const hard = status?.hard ?? {};
    for (const resource of Object.keys(hard).sort()) {
      const text = `${resource}: ${status?.used?.[resource] ?? "0"}/${hard[resource]}`;
      (resource.startsWith("limits.") ? limits : requests).push(text);
    }
    return [metadata.name, requests.join(", "), limits.join(", "), humanAge(metadata.creationTimestamp, nowMs)];
  },
);

function sizeOf(entries: object | undefined): number {
  return entries === undefined ? 0 : Object.keys(entries).length;
}
