import { decideDeployment } from "../../decide/workloads/deployments/deployment.ts";
import { sizeOf } from "../../decide/workloads/deployments/deploymentScale.ts";
import { keyOf } from "../../model/intent.ts";
import type { Deployment, Pod, ReplicaSet } from "../../model/kubernetes.generated.ts";
import { controllerOf } from "../../model/objects/ownership.ts";
import { isFinished } from "../../model/objects/podFacts.ts";
import { templateHash } from "../../model/objects/podTemplate.ts";
import type { CacheEvent } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import type { Committed } from "../runtime/inFlightWrites.ts";
import { forObject, kindSource } from "../runtime/sources.ts";
import { deploymentKind, replicaSetKind } from "./kinds.ts";
import { addOwnerController, type ReportedDecision } from "./ownerReconciler.ts";
import { dependentSource, isWorthAnEvent, normal, warning } from "./podOwner.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

/** Reconciles Deployments into ReplicaSets. */
export function addDeployments(controllers: Controllers, caches: WorkloadCaches): void {
  const { inFlight, pods, deployments, replicaSets } = caches;
  const recorder = caches.recorder("deployment-controller");

  const decide = (deployment: Deployment, nowMs: number): ReportedDecision => {
    const sets = replicaSets.candidatesOf(deployment);
    const namesake = namesakeOf(deployment);
    if (namesake !== undefined && !sets.includes(namesake)) sets.push(namesake);
    const isRecreate = deployment.spec?.strategy?.type === "Recreate";
    const decision = decideDeployment(
      {
        revision: caches.revisionOf([replicaSetKind]),
        deployment,
        replicaSets: sets,
        pods: isRecreate ? sets.flatMap((set) => pods.ownedBy(set)) : [],
      },
      nowMs,
    );
    const sizes = new Map(sets.map((set) => [set.metadata.name, sizeOf(set)]));
    return { ...decision, onCommitted: (committed) => tellSizes(recorder, deployment, sizes, committed) };
  };

  /** The ReplicaSet with the name of the next one to create. */
  const namesakeOf = ({ metadata, spec, status }: Deployment): ReplicaSet | undefined =>
    replicaSets.get(metadata.namespace, `${metadata.name}-${templateHash(spec?.template, status?.collisionCount)}`);

  /** Recreate continues when the last old pod is gone; no other strategy waits for pods. */
  const waiting = ({ object }: CacheEvent<Pod>): string[] => {
    const owner = controllerOf(object.metadata);
    if (owner?.kind !== "ReplicaSet") return [];
    const set = replicaSets.get(object.metadata.namespace, owner.name);
    const above = set === undefined ? undefined : controllerOf(set.metadata);
    const deployment = above && deployments.get(object.metadata.namespace, above.name);
    if (deployment?.spec?.strategy?.type !== "Recreate") return [];
    return [keyOf(object.metadata.namespace, deployment.metadata.name)];
  };

  addOwnerController(controllers, inFlight, {
    name: "deployment-controller",
    kind: deploymentKind,
    sources: [
      kindSource(deployments.cache, forObject()),
      dependentSource(replicaSets, deployments.cache, { group: "apps", kind: "Deployment" }),
      kindSource(pods.cache, waiting, hasEnded),
    ],
    decide,
  });
}

function hasEnded(event: CacheEvent<Pod>): boolean {
  return event.type === "deleted" || isFinished(event.object);
}

function tellSizes(
  recorder: EventRecorder,
  deployment: Deployment,
  sizes: ReadonlyMap<string, number>,
  committed: readonly Committed[],
): void {
  const regarding = deployment;
  for (const { intent, outcome } of committed) {
    if (intent.target.plural !== replicaSetKind.plural) continue;
    const { name } = intent.target;
    if (intent.type === "create" && isWorthAnEvent(outcome)) {
      const note = `Failed to create new replica set "${name}": ${outcome.message}`;
      recorder.record(regarding, warning("ReplicaSetCreateError", "Create", note));
    }
    if (!outcome.ok) continue;
    const to = wantedSize(intent.type === "create" ? intent.object : intent.type === "patch" ? intent.patch : {});
    const from = intent.type === "create" ? 0 : (sizes.get(name) ?? 0);
    if (to === undefined || to === from) continue;
    const how = to > from ? "up" : "down";
    const note = `Scaled ${how} replica set ${name} from ${from} to ${to}`;
    recorder.record(regarding, normal("ScalingReplicaSet", "Scale", note));
  }
}

function wantedSize(written: object): number | undefined {
  return (written as { spec?: { replicas?: number } }).spec?.replicas;
}
