import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { nanoOf } from "../../../model/objects/podRequests.ts";
import type { Evidence } from "../../verify/check.ts";
import { overdue } from "../../verify/checks/nothingStale.ts";
import { objectsOf } from "../../verify/clusterSnapshot.ts";
import { placementOf, podName } from "../../verify/placement.ts";
import { type AuditCheck, settle, stuck } from "../auditCheck.ts";
import { pluginGpus } from "../gpus.ts";

export const podChecks: readonly AuditCheck[] = [
  {
    name: "pod-on-missing-node",
    meaning: "a pod is bound to a node that does not exist, and has not ended",
    cause: "the node was deleted while the pod garbage collector of kube-controller-manager does not run",
    cure: "start kube-controller-manager, or delete the pod with --grace-period=0 --force",
    settleMs: settle.agent,
    needs: ["pods", "nodes"],
    find: (snapshot) => {
      const { live, nodes } = placementOf(snapshot);
      return live.flatMap((pod) => {
        const name = pod.spec?.nodeName ?? "";
        return nodes.has(name) ? [] : [{ object: podName(pod), problem: `its node ${name} does not exist` }];
      });
    },
  },
  {
    name: "pod-terminating",
    meaning: "a pod is Terminating five minutes after its grace period has ended, and holds its resources",
    cause: "its kubelet does not answer, a volume cannot be unmounted, or a process does not end",
    cure: "start or delete the node; if its processes are gone, delete the pod with --grace-period=0 --force",
    settleMs: settle.controller,
    needs: ["pods"],
    find: (snapshot) =>
      objectsOf<Pod>(snapshot, "pods").flatMap((pod) => overdue(pod, snapshot.takenAtMs, stuck.terminatingMs)),
  },
  {
    name: "pod-without-gpus",
    meaning: "pods of a node have more GPUs than the node has now",
    cause: "GPUs failed or were repartitioned, the device plugin lost them, or the plugin does not run",
    cure: "read the log of the device plugin and of the driver (Xid), repair or drain the node, and delete the pods",
    settleMs: settle.agent,
    needs: ["pods", "nodes"],
    find: (snapshot) => {
      const { nodes, liveByNode } = placementOf(snapshot);
      return [...liveByNode].flatMap(([name, pods]) => {
        const node = nodes.get(name);
        return node === undefined ? [] : fewerThanGiven(node, pods);
      });
    },
  },
];

function fewerThanGiven(node: Node, pods: readonly Pod[]): Evidence[] {
  const given = new Map<string, { nano: bigint; holders: string[] }>();
  for (const pod of pods) {
    for (const [resource, nano] of pluginGpus(pod)) {
      const sum = given.get(resource) ?? { nano: 0n, holders: [] };
      sum.nano += nano;
      sum.holders.push(podName(pod));
      given.set(resource, sum);
    }
  }
  return [...given].flatMap(([resource, { nano, holders }]) => {
    const has = nanoOf(node.status?.allocatable?.[resource] ?? "0");
    if (nano <= has) return [];
    const units = (amount: bigint): string => String(amount / 1_000_000_000n);
    const who =
      holders.length > 3 ? `${holders.slice(0, 3).join(", ")} and ${holders.length - 3} more` : holders.join(", ");
    const problem = `${units(has)} ${resource} are allocatable, and ${units(nano)} are allocated to ${who}`;
    return [{ object: `nodes/${node.metadata.name}`, problem }];
  });
}
