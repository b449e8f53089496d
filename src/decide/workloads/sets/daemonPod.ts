/**
 * The pod of a DaemonSet: bound to its node by affinity, so that the scheduler binds it, with tolerations for node
 * taints.
 */
import type { DaemonSet, Node, Pod, PodSpec, Toleration } from "../../../model/kubernetes.generated.ts";
import type { TakenNames } from "../../../model/objects/derivedName.ts";
import { matchesNode } from "../../../model/objects/nodeMatch.ts";
import { podFromTemplate } from "../../../model/objects/ownership.ts";
import { isTolerated, notReadyTaint, unreachableTaint } from "../../../model/objects/taints.ts";
import { revisionHashLabel } from "./controllerRevision.ts";

export interface NodeFit {
  /** The node needs a pod. */
  readonly shouldRun: boolean;
  /** An existing pod may stay. */
  readonly shouldContinue: boolean;
}

export function daemonTolerations(spec: PodSpec | undefined): Toleration[] {
  const always: Toleration[] = [
    { key: notReadyTaint, operator: "Exists", effect: "NoExecute" },
    { key: unreachableTaint, operator: "Exists", effect: "NoExecute" },
    { key: "node.kubernetes.io/disk-pressure", operator: "Exists", effect: "NoSchedule" },
    { key: "node.kubernetes.io/memory-pressure", operator: "Exists", effect: "NoSchedule" },
    { key: "node.kubernetes.io/pid-pressure", operator: "Exists", effect: "NoSchedule" },
    { key: "node.kubernetes.io/unschedulable", operator: "Exists", effect: "NoSchedule" },
  ];
  if (spec?.hostNetwork === true) {
    always.push({ key: "node.kubernetes.io/network-unavailable", operator: "Exists", effect: "NoSchedule" });
  }
  const given = spec?.tolerations ?? [];
  const isSame = (a: Toleration, b: Toleration) =>
    a.key === b.key && a.effect === b.effect && a.operator === b.operator;
  const kept = given.filter((each) => !always.some((own) => isSame(own, each)));
  return [...kept, ...always];
}

export function fitOf({ spec }: DaemonSet, node: Node): NodeFit {
  const template = spec?.template.spec;
  const isNamed =
    template?.nodeName === undefined || template.nodeName === "" || template.nodeName === node.metadata.name;
  if (!isNamed || !matchesNode(template, node)) return { shouldRun: false, shouldContinue: false };
  const tolerations = daemonTolerations(template);
  const open = (node.spec?.taints ?? []).filter((taint) => !isTolerated(taint, tolerations));
  return {
    shouldRun: !open.some(({ effect }) => effect === "NoExecute" || effect === "NoSchedule"),
    shouldContinue: !open.some(({ effect }) => effect === "NoExecute"),
  };
}

/** The node of a daemon pod, by its binding or its affinity. */
export function nodeNameOf({ spec }: Pod): string | undefined {
  if (spec?.nodeName !== undefined && spec.nodeName !== "") return spec.nodeName;
  const terms = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  for (const { matchFields = [] } of terms ?? []) {
    const pin = matchFields.find(({ key, operator }) => key === "metadata.name" && operator === "In");
    if (pin?.values?.length === 1) return pin.values[0];
  }
  return undefined;
}

export function daemonPod(daemonSet: DaemonSet, nodeName: string, hash: string, taken: TakenNames) {
  const { name, uid } = daemonSet.metadata;
  const podName = taken.take({ base: `${name}-`, uid: `${uid}/${nodeName}` });
  const pod = podFromTemplate(daemonSet, daemonSet.spec?.template, podName);
  const pin = { key: "metadata.name", operator: "In", values: [nodeName] };
  return {
    ...pod,
    metadata: { ...pod.metadata, labels: { ...pod.metadata.labels, [revisionHashLabel]: hash } },
    spec: {
      ...pod.spec,
      tolerations: daemonTolerations(pod.spec),
      affinity: {
        ...pod.spec.affinity,
        nodeAffinity: {
          ...pod.spec.affinity?.nodeAffinity,
          // The set has already matched the template with the node; the affinity only names the node.
          requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields: [pin] }] },
        },
      },
    },
  };
}
