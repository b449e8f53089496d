import { decideStatefulSet } from "../../decide/workloads/sets/statefulSet.ts";
import { keyOf } from "../../model/intent.ts";
import type { ControllerRevision, StatefulSet } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { templateHash } from "../../model/objects/podTemplate.ts";
import type { CacheEvent } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import type { Committed } from "../runtime/inFlightWrites.ts";
import { forMapped, forObject, forOwner, kindSource } from "../runtime/sources.ts";
import { controllerRevisionKind, podKind, statefulSetKind, volumeClaimKind } from "./kinds.ts";
import { LimitEvents } from "./limitEvents.ts";
import { addOwnerController, type ReportedDecision } from "./ownerReconciler.ts";
import { dependentSource, isWorthAnEvent, normal, warning } from "./podOwner.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

const owner = { group: "apps", kind: "StatefulSet" };

/** Keeps the numbered pods of StatefulSets and their claims. */
export function addStatefulSets(controllers: Controllers, caches: WorkloadCaches): void {
  const { inFlight, pods, statefulSets, revisions, volumeClaims } = caches;
  const recorder = caches.recorder("statefulset-controller");
  const limits = new LimitEvents(recorder, statefulSets.cache);

  const decide = (statefulSet: StatefulSet, nowMs: number): ReportedDecision => {
    const decision = decideStatefulSet(
      {
        revision: caches.revisionOf([podKind, volumeClaimKind, controllerRevisionKind]),
        statefulSet,
        pods: pods.candidatesOf(statefulSet),
        isTaken: (name) => pods.has(statefulSet.metadata.namespace, name),
        claimNamed: (name) => volumeClaims.get(statefulSet.metadata.namespace, name),
        revisions: revisionsFor(caches, statefulSet, templateHash(statefulSet.spec?.template, collisions(statefulSet))),
      },
      nowMs,
    );
    const onCommitted = (committed: readonly Committed[]): void => {
      recordEvents(recorder, statefulSet, committed);
      limits.update(statefulSet, decision);
    };
    return { ...decision, onCommitted };
  };

  /** A claim carries the set's selector as labels and its name in its own; a wrong guess costs one idle reconcile. */
  const setsOfClaim = ({ metadata }: KubeObject): string[] => {
    const keys: string[] = [];
    // data-web-0 may be claim `data` of `web` or of `data-web`: every suffix is tried.
    const components = metadata.name.split("-").slice(0, -1);
    for (let at = 1; at < components.length; at++) {
      const name = components.slice(at).join("-");
      if (statefulSets.has(metadata.namespace, name)) keys.push(keyOf(metadata.namespace, name));
    }
    return keys;
  };

  /** The deletion of a pod of another owner frees a name for the set. */
  const namesakes = ({ object: { metadata } }: CacheEvent): string[] => {
    const name = metadata.name.slice(0, metadata.name.lastIndexOf("-"));
    return statefulSets.has(metadata.namespace, name) ? [keyOf(metadata.namespace, name)] : [];
  };

  addOwnerController(controllers, inFlight, {
    name: "statefulset-controller",
    kind: statefulSetKind,
    sources: [
      kindSource(statefulSets.cache, forObject()),
      dependentSource(pods, statefulSets.cache, owner),
      kindSource(revisions.cache, forOwner(owner)),
      kindSource(volumeClaims.cache, forMapped(setsOfClaim)),
      kindSource(pods.cache, namesakes, ({ type }) => type === "deleted"),
    ],
    decide,
  });
}

function collisions({ status }: { status?: { collisionCount?: number } }): number | undefined {
  return status?.collisionCount;
}

/** Its own revisions, orphans, and the one with the name of the template's revision. */
export function revisionsFor(
  { revisions }: WorkloadCaches,
  owning: { apiVersion: string; kind: string; metadata: StatefulSet["metadata"] },
  hash: string,
): ControllerRevision[] {
  const found = revisions.candidatesOf(owning);
  const namesake = revisions.get(owning.metadata.namespace, `${owning.metadata.name}-${hash}`);
  if (namesake !== undefined && !found.includes(namesake)) found.push(namesake);
  return found;
}

function recordEvents(recorder: EventRecorder, regarding: StatefulSet, committed: readonly Committed[]): void {
  for (const { intent, outcome } of committed) {
    const { plural, name } = intent.target;
    const what = plural === "pods" ? "Pod" : plural === volumeClaimKind.plural ? "Claim" : undefined;
    if (what === undefined || (intent.type !== "create" && intent.type !== "delete")) continue;
    const [verb, action] = intent.type === "create" ? (["create", "Create"] as const) : (["delete", "Delete"] as const);
    const about = `${verb} ${what} ${name} in StatefulSet ${regarding.metadata.name}`;
    if (outcome.ok) recorder.record(regarding, normal(`Successful${action}`, action, `${about} successful`));
    else if (isWorthAnEvent(outcome))
      recorder.record(regarding, warning(`Failed${action}`, action, `${about} failed error: ${outcome.message}`));
  }
}
