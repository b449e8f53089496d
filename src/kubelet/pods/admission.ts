/**
 * Admission of a kubelet. A scheduler that places more pods than fit is detected here: the pod fails with the kubelet's
 * reason, and scheduler tests expect the count of such pods to be zero.
 */
import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { matchesNode } from "../../model/objects/nodeMatch.ts";
import { nanoOf, podRequests } from "../../model/objects/podRequests.ts";
import { isTolerated } from "../../model/objects/taints.ts";
import { type Assignment, assignDevices, type DeviceUnits } from "../devices/devices.ts";

export type Admission =
  | { readonly ok: true; readonly assignment: Assignment }
  | { readonly ok: false; readonly reason: string; readonly message: string };

export interface AdmissionInput {
  readonly pod: Pod;
  readonly node: Node;
  /** All pods bound to the node; those that are not admitted yet or have finished are skipped. */
  readonly pods: Iterable<Pod>;
  readonly units: DeviceUnits;
  /** Device id to holder. */
  readonly held: ReadonlyMap<string, string>;
  /**
   * A kubelet ignores extended resources that its node does not have at all. Here they are refused, because a GPU pod
   * on a node without GPUs is an error of the scheduler; true restores the kubelet's behaviour.
   */
  readonly ignoreMissing?: boolean;
}

/** The checks in the kubelet's order: devices, amounts, ports, selectors, taints. */
export function admitPod(input: AdmissionInput): Admission {
  const given = assignDevices(input.pod, input.units, input.held);
  if (!given.ok) {
    const { resource, wanted, free } = given;
    return refuse(
      "UnexpectedAdmissionError",
      `Allocate failed due to requested number of devices unavailable for ${resource}. Requested: ${wanted}, Available: ${free}, which is unexpected`,
    );
  }
  const live = [...input.pods].filter((pod) => isAdmitted(pod) && pod.metadata.uid !== input.pod.metadata.uid);
  return (
    checkAmounts(input, live) ??
    checkPorts(input.pod, live) ??
    checkSelectors(input.pod, input.node) ??
    checkTaints(input.pod, input.node) ?? { ok: true, assignment: given.assignment }
  );
}

/** Whether a kubelet has admitted this pod and it has not finished. */
export function isAdmitted(pod: Pod): boolean {
  const status = pod.status ?? {};
  return status.startTime !== undefined && status.phase !== "Succeeded" && status.phase !== "Failed";
}

function refuse(reason: string, message: string): Admission {
  return { ok: false, reason, message: `Pod was rejected: ${message}` };
}

function checkAmounts({ pod, node, ignoreMissing }: AdmissionInput, live: readonly Pod[]): Admission | undefined {
  const allocatable = node.status?.allocatable ?? node.status?.capacity ?? {};
  const podsMax = Number(allocatable["pods"] ?? 110);
  if (live.length + 1 > podsMax) return outOf("pods", 1, live.length, podsMax);
  // Extended resources from a claim do not come from the device plugin: the pod's status lists them.
  const { requestMappings = [] } = pod.status?.extendedResourceClaimStatus ?? {};
  for (const [name, wanted] of podRequests(pod)) {
    if (wanted === 0n || requestMappings.some(({ resourceName }) => resourceName === name)) continue;
    const text = allocatable[name];
    if (text === undefined && (ignoreMissing === true || !isExtended(name))) continue;
    const total = nanoOf(text ?? "0");
    let used = 0n;
    for (const other of live) used += podRequests(other).get(name) ?? 0n;
    if (used + wanted <= total) continue;
    return outOf(name, shown(name, wanted), shown(name, used), shown(name, total));
  }
  return undefined;
}

function outOf(resource: string, requested: number, used: number, capacity: number): Admission {
  return refuse(
    `OutOf${resource}`,
    `Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`,
  );
}

/** CPU in thousandths, everything else in units. */
function shown(name: string, nano: bigint): number {
  return Number(name === "cpu" ? nano / 1_000_000n : nano / 1_000_000_000n);
}

function isExtended(name: string): boolean {
  return name.includes("/") && !name.startsWith("kubernetes.io/");
}

function checkPorts(pod: Pod, live: readonly Pod[]): Admission | undefined {
  const wanted = hostPorts(pod);
  if (wanted.length === 0) return undefined;
  for (const other of live) {
    for (const theirs of hostPorts(other)) {
      for (const ours of wanted) {
        const sameIp = ours.ip === theirs.ip || ours.ip === anyIp || theirs.ip === anyIp;
        if (sameIp && ours.port === theirs.port && ours.protocol === theirs.protocol) {
          return refuse(
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
          );
        }
      }
    }
  }
  return undefined;
}

const anyIp = "0.0.0.0";

function hostPorts(pod: Pod): { ip: string; port: number; protocol: string }[] {
  const found: { ip: string; port: number; protocol: string }[] = [];
  const sidecars = (pod.spec?.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === "Always");
  for (const { ports } of [...sidecars, ...(pod.spec?.containers ?? [])]) {
    for (const { hostPort, hostIP, protocol } of ports ?? []) {
      if (hostPort) found.push({ ip: hostIP || anyIp, port: hostPort, protocol: protocol ?? "TCP" });
    }
  }
  return found;
}

function checkSelectors(pod: Pod, node: Node): Admission | undefined {
  if (matchesNode(pod.spec, node)) return undefined;
  return refuse("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector");
}

/** A kubelet checks only NoExecute taints. */
function checkTaints(pod: Pod, node: Node): Admission | undefined {
  const bad = (node.spec?.taints ?? []).find(
    (taint) => taint.effect === "NoExecute" && !isTolerated(taint, pod.spec?.tolerations),
  );
  if (bad === undefined) return undefined;
  return refuse("TaintToleration", `Predicate TaintToleration failed: node(s) had untolerated taint(s) {${bad.key}}`);
}
