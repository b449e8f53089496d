/** Tables of resource.k8s.io: claims, slices and taint rules. */

import type { DeviceTaintRule, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { unset } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf } from "./tableKind.ts";

export const resourceClaimTable = tableOf<ResourceClaim>(
  [nameColumn, column("State", "Whether devices are allocated and reserved for pods."), ageColumn],
  (claim, nowMs) => [claim.metadata.name, stateOf(claim), humanAge(claim.metadata.creationTimestamp, nowMs)],
);

function stateOf({ metadata, status }: ResourceClaim): string {
  const states: string[] = [];
  if (metadata.deletionTimestamp !== undefined) states.push("deleted");
  if (status?.allocation !== undefined) {
    states.push("allocated");
    if ((status.reservedFor?.length ?? 0) > 0) states.push("reserved");
  } else if (metadata.deletionTimestamp === undefined) {
    states.push("pending");
  }
  return states.join(",");
}

export const resourceSliceTable = tableOf<ResourceSlice>(
  [
    nameColumn,
    column("Node", "The node of the devices."),
    column("Driver", "The driver of the devices."),
    column("Pool", "The pool of the devices."),
    ageColumn,
  ],
  ({ metadata, spec }, nowMs) => [
    metadata.name,
    spec.nodeName ?? unset,
    spec.driver,
    spec.pool.name,
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);

export const deviceTaintRuleTable = tableOf<DeviceTaintRule>(
  [
    nameColumn,
    column("Key", "Key of the taint."),
    column("Value", "Value of the taint."),
    column("Effect", "Effect of the taint."),
    column("TimeAdded", "Time since the taint was set."),
    ageColumn,
  ],
  ({ metadata, spec: { taint } }, nowMs) => [
    metadata.name,
    taint.key,
    taint.value ?? "",
    taint.effect,
    humanAge(taint.timeAdded, nowMs),
    humanAge(metadata.creationTimestamp, nowMs),
  ],
);
