/** Devices: what nodes offer, what pods claim, and what keeps pods away. */

import type { DeviceTaintRule, ResourceClaim, ResourceSlice } from "../../model/kubernetes.generated.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { unset } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf } from "./tableKind.ts";

export const resourceClaimTable = tableOf<ResourceClaim>(
  [nameColumn, column("State", "Whether devices are allocated, and whether pods hold them."), ageColumn],
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
    column("Node", "The node that has the devices."),
    column("Driver", "The driver that publishes them."),
    column("Pool", "The pool they belong to."),
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
    column("Effect", "What the taint does."),
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
