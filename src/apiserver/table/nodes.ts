import type { Namespace, Node } from "../../model/kubernetes.generated.ts";
import { humanAge } from "../../model/values/humanDuration.ts";
import { none, unknown } from "./cellText.ts";
import { ageColumn, column, nameColumn, tableOf, wideColumn } from "./tableKind.ts";

export const nodeTable = tableOf<Node>(
  [
    nameColumn,
    column("Status", "Whether the node is ready, and whether it is schedulable."),
    column("Roles", "Roles of the node, from its labels."),
    ageColumn,
    column("Version", "Version of the kubelet."),
    wideColumn("Internal-IP", "Internal address."),
    wideColumn("External-IP", "External address."),
    wideColumn("OS-Image", "The operating system."),
    wideColumn("Kernel-Version", "The kernel version."),
    wideColumn("Container-Runtime", "The container runtime."),
  ],
  (node, nowMs) => [
    node.metadata.name,
    statusOf(node),
    rolesOf(node),
    humanAge(node.metadata.creationTimestamp, nowMs),
    node.status?.nodeInfo?.kubeletVersion ?? "",
    addressOf(node, "InternalIP"),
    addressOf(node, "ExternalIP"),
    node.status?.nodeInfo?.osImage || unknown,
    node.status?.nodeInfo?.kernelVersion || unknown,
    node.status?.nodeInfo?.containerRuntimeVersion || unknown,
  ],
);

export const namespaceTable = tableOf<Namespace>(
  [nameColumn, column("Status", "Active, or Terminating while its content is removed."), ageColumn],
  ({ metadata, status }, nowMs) => [metadata.name, status?.phase ?? "", humanAge(metadata.creationTimestamp, nowMs)],
);

function statusOf(node: Node): string {
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  const status = ready === undefined ? "Unknown" : ready.status === "True" ? "Ready" : "NotReady";
  return node.spec?.unschedulable === true ? `${status},SchedulingDisabled` : status;
}

const rolePrefix = "node-role.kubernetes.io/";

function rolesOf({ metadata }: Node): string {
  const roles = new Set<string>();
  for (const [key, value] of Object.entries(metadata.labels ?? {})) {
    if (key.startsWith(rolePrefix) && key.length > rolePrefix.length) roles.add(key.slice(rolePrefix.length));
    else if (key === "kubernetes.io/role" && value !== "") roles.add(value);
  }
  return [...roles].sort().join(",") || none;
}

function addressOf({ status }: Node, type: string): string {
  return status?.addresses?.find((address) => address.type === type)?.address ?? none;
}
