/**
 * The actors of the workload scenarios: the controllers and their stand-by, the rest of a cluster, and its nodes'
 * leases.
 */
import type { Controllers } from "../../control/runtime/controllers.ts";
import { workloads } from "../../control/workloads/workloads.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import type { Unstored } from "../../model/objects/object.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import { builtin } from "../../model/resources.generated.ts";
import { formatMicroTime } from "../../model/values/time.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorSpec } from "../actor.ts";
import { controllersProcess } from "../controllersProcess.ts";
import type { LifeOf } from "./tinyKubelet.ts";
import { tinyKubelet } from "./tinyKubelet.ts";
import { tinyScheduler } from "./tinyScheduler.ts";

export const managers = ["ann", "bob"];
export const lease = { namespace: "default", name: "workloads" };
export const leases = builtin.Lease;
export const leaseNamespace = "kube-node-lease";
export const nodes = builtin.Node;

/** The actors whose writes are checked. */
export function held(actor: string): boolean {
  return managers.includes(actor);
}

/** The cluster's own controllers: a leader and a follower. */
export function managing(): ActorSpec[] {
  return managers.map((name) =>
    controllersProcess(name, (controllers: Controllers) => workloads.add(controllers), { lease }),
  );
}

/** The scheduler and the kubelets. */
export function clusterWith(lifeOf: LifeOf): ActorSpec {
  const add = (controllers: Controllers): void => {
    tinyScheduler(controllers);
    tinyKubelet(controllers, lifeOf);
  };
  return { ...controllersProcess("cluster", add), isExemptFromFaults: true };
}

export function isOfJob(pod: Pod): boolean {
  return controllerOf(pod.metadata)?.kind === "Job";
}

export async function makeNamespaces(kube: KubeApi): Promise<void> {
  for (const name of ["default", leaseNamespace]) {
    const namespace: Unstored = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
    await kube.create(builtin.Namespace, namespace);
  }
}

/** Renews the lease of a node. */
export async function beat(kube: KubeApi, name: string, nowMs: number): Promise<void> {
  const ref = { ...leases, namespace: leaseNamespace, name };
  const spec = { holderIdentity: name, leaseDurationSeconds: 40, renewTime: formatMicroTime(nowMs) };
  const renewed = await kube.patch(ref, { type: "merge", body: { spec } });
  if (renewed.ok || renewed.reason !== "NotFound") return;
  const metadata = { name, namespace: leaseNamespace };
  const object = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
  await kube.create(leases, object);
}
