import { readGroup } from "../../src/control/bind/readGroup.ts";
import type { ObjectCache } from "../../src/control/cache/objectCache.ts";
import type { Controllers } from "../../src/control/runtime/controllers.ts";
import { reconcileResultOf } from "../../src/control/runtime/loop.ts";
import { forMapped, forObject, kindSource } from "../../src/control/runtime/sources.ts";
import {
  deviceOf,
  devicesAnnotation,
  hasEnded,
  newReservation,
  reservationDefaults,
} from "../../src/decide/bind/reservation.ts";
import { keyOf } from "../../src/model/intent.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { type BindRequest, bindRequestRef, podUidOf } from "../../src/model/scheduling/bindRequest.ts";
import { gpuGroupsOfLabels, isReservationPod, labelKeys } from "../../src/model/scheduling/keys.ts";
import type { Cancel } from "../../src/ports/cancel.ts";
import { kinds } from "../../src/sim/sceneKit.ts";

/** What a binder checks before it deletes a reservation. */
export type Rule = "nothing" | "cached-requests" | "fresh-read";

/**
 * A binder like upstream's: it cleans up at the start of every bind and when a pod is deleted, and trusts its cache
 * about the users of a group.
 */
export function addRacingBinder(controllers: Controllers, rule: Rule, names: "derived" | "drawn" = "derived"): void {
  const pods = controllers.cache(kinds.pods);
  const requests = controllers.cache(bindRequestRef);
  const { outside: kube } = controllers;
  const inCache = (group: string, wanted: (pod: KubeObject) => boolean): Pod[] =>
    [...pods.view().objects]
      .map(([, pod]) => pod)
      .filter((pod) => gpuGroupsOfLabels(pod.metadata.labels).includes(group) && wanted(pod))
      .map((pod) => pod as unknown as Pod);

  const cleanUp = async (group: string, cancel: Cancel): Promise<void> => {
    const [reservation] = inCache(group, isReservationPod);
    if (reservation === undefined) return;
    if (inCache(group, (pod) => !isReservationPod(pod)).some((pod) => !hasEnded(pod))) return;
    if (rule !== "nothing" && isAwaited(requests, group)) return;
    let { uid, resourceVersion } = reservation.metadata;
    if (rule === "fresh-read") {
      const node = reservation.spec?.nodeName ?? "";
      const fresh = await readGroup(kube, { group, node }, { atLeast: pods.revision, cancel });
      if (!fresh.ok) return;
      const { users, requests: named, reservations } = fresh.value;
      if (users.some((pod) => !hasEnded(pod)) || named.some(isPending) || reservations[0] === undefined) return;
      ({ uid, resourceVersion } = reservations[0].metadata);
    }
    const preconditions = rule === "fresh-read" ? { uid, resourceVersion } : { uid };
    const { namespace = "", name } = reservation.metadata;
    await kube.delete({ ...kinds.pods, namespace, name }, { preconditions, gracePeriodSeconds: 0, cancel });
  };

  const reserve = async (group: string, node: string, cancel: Cancel): Promise<string | undefined> => {
    const [known] = inCache(group, isReservationPod);
    if (known !== undefined && rule !== "fresh-read") return deviceOf(known);
    const made = newReservation({ node, group, users: [], options: reservationDefaults }) as unknown as KubeObject;
    // Created with its node name, as upstream does.
    const object = { ...made, spec: { ...(made["spec"] as object), nodeName: node } } as KubeObject;
    const { namespace = "", name } = object.metadata;
    if (names === "drawn") {
      if (known !== undefined) return deviceOf(known);
      const drawn = `${name}-${controllers.ports.random.uint32().toString(36)}`;
      await kube.create(kinds.pods, { ...object, metadata: { ...object.metadata, name: drawn } }, { cancel });
      return undefined;
    }
    const found = await kube.get({ ...kinds.pods, namespace, name }, { cancel });
    if (found.ok) return deviceOf(found.value as unknown as Pod);
    await kube.create(kinds.pods, object, { cancel });
    return undefined;
  };

  controllers.add({
    name: "racing-binder",
    concurrency: 10,
    sources: [
      kindSource(requests, forObject()),
      kindSource(
        pods,
        forMapped(({ metadata }) => [keyOf(metadata.namespace, metadata.name)]),
      ),
    ],
    reconcile: async (key, { cancel }) => {
      const request = requests.get(key) as unknown as BindRequest | undefined;
      const pod = pods.get(key) as unknown as Pod | undefined;
      if (request === undefined || !isPending(request)) {
        // The pod has ended or is deleted: the other pods of its group may be deleted as well.
        for (const group of request?.spec?.selectedGPUGroups ?? ["g0"]) await cleanUp(group, cancel);
        return undefined;
      }
      if (pod === undefined || pod.metadata.uid !== podUidOf(request)) return { requeueAfterMs: 100 };
      const { selectedNode = "", selectedGPUGroups: [group = ""] = [] } = request.spec ?? {};
      if (pod.spec?.nodeName === undefined) {
        await cleanUp(group, cancel);
        const device = await reserve(group, selectedNode, cancel);
        if (device === undefined) return { requeueAfterMs: 50 };
        const { uid, namespace = "", name } = pod.metadata;
        const annotations = { [devicesAnnotation]: JSON.stringify({ [group]: device }) };
        const body = { metadata: { uid, labels: { [labelKeys.gpuGroup]: group }, annotations } };
        const ref = { ...kinds.pods, namespace, name };
        const labelled = await kube.patch(ref, { type: "merge", body }, { cancel });
        if (!labelled.ok) return reconcileResultOf(labelled);
        const bound = await kube.bind(ref, { node: selectedNode, uid }, { cancel });
        if (!bound.ok && bound.reason !== "Conflict") return reconcileResultOf(bound);
      }
      const { uid, resourceVersion, namespace = "", name } = request.metadata;
      const body = { metadata: { uid, resourceVersion }, status: { phase: "Succeeded" as const } };
      const outcome = await kube.patch(
        { ...bindRequestRef, namespace, name, subresource: "status" },
        { type: "merge", body },
        { cancel },
      );
      return outcome.ok ? undefined : reconcileResultOf(outcome);
    },
  });
}

function isPending({ status }: BindRequest): boolean {
  return status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

function isAwaited(requests: ObjectCache, group: string): boolean {
  return [...requests.view().objects].some(([, object]) => {
    const request = object as unknown as BindRequest;
    return isPending(request) && request.spec?.selectedGPUGroups?.includes(group) === true;
  });
}
