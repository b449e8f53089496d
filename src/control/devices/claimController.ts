import { type Generated, generateClaims } from "../../decide/devices/claims/generateClaims.ts";
import { generateForGroup } from "../../decide/devices/claims/groupClaims.ts";
import { deleteProtection } from "../../decide/devices/claims/podClaims.ts";
import {
  type Known,
  type ReleaseInput,
  releaseClaim,
  withoutProtection,
} from "../../decide/devices/claims/releaseClaim.ts";
import { claimKeysOf } from "../../decide/devices/deviceModel.ts";
import type { DeviceUse } from "../../decide/devices/search/deviceUse.ts";
import { type FreshObject, lookAgain } from "../../intents/lookAgain.ts";
import { type Intent, resourceKey } from "../../model/intent.ts";
import type { Node, Pod, PodGroup, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { Outcome } from "../../model/outcome.ts";
import { laterOf } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { InFlightWrites } from "../runtime/inFlightWrites.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { kindSource, type Source } from "../runtime/sources.ts";
import { asKube, type DeviceCaches, deviceKinds, podKeyOf } from "./deviceCaches.ts";

/**
 * The field manager of Kubernetes' own controller: with server-side apply the two then never overwrite each other in a
 * pod's status.
 */
const fieldManager = "ResourceClaimController";

/**
 * Creates claims from templates, removes the reservations of finished pods from their claims, and deallocates devices.
 */
export function addClaimController(world: DeviceCaches, recorder: EventRecorder): void {
  const controller = new ClaimController(world, recorder);
  world.controllers.add({
    name: "claims",
    sources: controller.sources(),
    concurrency: 32,
    reconcile: (key, turn) => controller.reconcile(key, turn),
  });
}

const podPrefix = "pod ";
const claimPrefix = "claim ";
const groupPrefix = "group ";

class ClaimController {
  private readonly world: DeviceCaches;
  private readonly recorder: EventRecorder;
  private readonly inFlight: InFlightWrites<DeviceUse>;

  constructor(world: DeviceCaches, recorder: EventRecorder) {
    this.world = world;
    this.inFlight = new InFlightWrites(world.controllers, world.tracker.assumeCache);
    this.recorder = recorder;
  }

  sources(): Source[] {
    const { pods, claims, templates, nodes, podsByTemplate, claimsByUser, claimsByOwner } = this.world;
    const { podsByClaim } = this.world.model;
    const { groups, podsByGroup } = this.world;
    return [
      ...(groups === undefined
        ? []
        : [
            kindSource(groups, (event) => {
              const keys = [groupPrefix + event.key];
              for (const pod of podsByGroup.get(event.key)) keys.push(podPrefix + podKeyOf(pod));
              for (const claim of claimsByUser.get(event.object.metadata.uid))
                keys.push(claimPrefix + keyOfClaim(claim));
              return keys;
            }),
          ]),
      kindSource(pods, (event) => {
        const keys = new Set<string>();
        const { uid } = event.object.metadata;
        for (const claim of [...claimsByUser.get(uid), ...claimsByOwner.get(uid)])
          keys.add(claimPrefix + keyOfClaim(claim));
        const states = event.type === "updated" ? [event.before, event.object] : [event.object];
        for (const pod of states) {
          const hasClaims = (pod.spec?.resourceClaims?.length ?? 0) > 0;
          if (!hasClaims && pod.status?.extendedResourceClaimStatus === undefined) continue;
          keys.add(podPrefix + event.key);
          for (const key of claimKeysOf(pod)) keys.add(claimPrefix + key);
        }
        return keys;
      }),
      kindSource(claims, (event) => {
        const keys = [claimPrefix + event.key];
        for (const pod of podsByClaim.get(event.key)) keys.push(podPrefix + podKeyOf(pod));
        for (const { kind, name } of event.object.metadata.ownerReferences ?? []) {
          if (kind === "Pod") keys.push(`${podPrefix}${event.object.metadata.namespace ?? ""}/${name}`);
          if (kind === "PodGroup" && groups !== undefined) {
            keys.push(`${groupPrefix}${event.object.metadata.namespace ?? ""}/${name}`);
          }
        }
        return keys;
      }),
      kindSource(templates, ({ key }) => {
        const keys = podsByTemplate.get(key).map((pod) => podPrefix + podKeyOf(pod));
        for (const [name, group] of groups?.view().objects ?? [])
          if (usesTemplate(group, key)) keys.push(groupPrefix + name);
        return keys;
      }),
      // A node that is deleted or fenced no longer holds devices.
      kindSource(nodes, (event) => {
        const isNews =
          event.type === "deleted" ||
          (event.type === "updated" && event.before.spec?.taints !== event.object.spec?.taints);
        return isNews ? this.claimsOnNode(event.object.metadata.name) : [];
      }),
    ];
  }

  reconcile(key: string, turn: ReconcileContext): Promise<ReconcileResult> {
    if (key.startsWith(podPrefix)) return this.pod(key.slice(podPrefix.length), turn);
    if (key.startsWith(groupPrefix)) return this.group(key.slice(groupPrefix.length), turn);
    return this.claim(key.slice(claimPrefix.length), turn);
  }

  private async pod(key: string, { cancel }: ReconcileContext): Promise<ReconcileResult> {
    const { pods, claims, templates, claimsByOwner, tracker } = this.world;
    const pod = pods.get(key);
    if (pod === undefined) return undefined;
    const { namespace = "", uid } = pod.metadata;
    const made: ResourceClaim[] = [];
    const generate = (): Generated =>
      generateClaims({
        pod,
        templateOf: (name) => templates.get(`${namespace}/${name}`),
        claimOf: (name) => made.find(({ metadata }) => metadata.name === name) ?? tracker.get(namespace, name),
        owned: [...claimsByOwner.get(uid), ...made],
        absentAtRevision: claims.revision,
        group: this.world.model.groupOf(pod),
      });
    let generated = generate();
    for (const name of generated.missing) {
      const note = `ResourceClaimTemplate ${name} does not exist`;
      this.recorder.record(asKube(pod), {
        type: "Warning",
        reason: "FailedResourceClaimCreation",
        action: "Creating",
        note,
      });
    }
    for (const intent of generated.creates) {
      const outcome = await this.send(intent, cancel);
      if (outcome.ok) {
        if (outcome.value.object !== undefined) made.push(outcome.value.object as ResourceClaim);
        continue;
      }
      if (outcome.reason === "Forbidden" || outcome.reason === "Invalid") {
        const note = `cannot create ResourceClaim: ${outcome.message}`;
        this.recorder.record(asKube(pod), {
          type: "Warning",
          reason: "FailedResourceClaimCreation",
          action: "Creating",
          note,
        });
      }
      // Forbidden is retried: a namespace may get its label, a quota may be raised.
      return reconcileResultOf(outcome);
    }
    // New claims are recorded in the status at once, without waiting for their events.
    if (made.length > 0) generated = generate();
    for (const intent of [...(generated.status === undefined ? [] : [generated.status]), ...generated.reserves]) {
      const outcome = await this.send(intent, cancel);
      if (!outcome.ok) return reconcileResultOf(outcome);
    }
    return undefined;
  }

  private async group(key: string, { cancel }: ReconcileContext): Promise<ReconcileResult> {
    const { groups, claims, templates, claimsByOwner, tracker } = this.world;
    const group = groups?.get(key);
    if (group === undefined) return undefined;
    const { namespace = "", uid } = group.metadata;
    const { creates, status, missing } = generateForGroup({
      group,
      templateOf: (name) => templates.get(`${namespace}/${name}`),
      claimOf: (name) => tracker.get(namespace, name),
      owned: claimsByOwner.get(uid),
      absentAtRevision: claims.revision,
    });
    for (const name of missing) {
      const note = `ResourceClaimTemplate ${name} does not exist`;
      const reason = "FailedResourceClaimCreation";
      this.recorder.record(asKube(group), { type: "Warning", reason, action: "Creating", note });
    }
    for (const intent of creates) {
      const outcome = await this.send(intent, cancel);
      if (!outcome.ok) return reconcileResultOf(outcome);
    }
    // The events of the claims enqueue the pod again, and then the status is written.
    if (status === undefined) return undefined;
    const outcome = await this.world.controllers.writer.apply(status, { cancel, fieldManager });
    return outcome.ok ? undefined : reconcileResultOf(outcome);
  }

  private async claim(key: string, { cancel }: ReconcileContext): Promise<ReconcileResult> {
    const { tracker, controllers } = this.world;
    const [namespace = "", name = ""] = key.split("/");
    const pods = new Map<string, Known<Pod>>();
    const nodes = new Map<string, Known<Node>>();
    const groups = new Map<string, Known<PodGroup>>();
    let lookedFor: string | undefined;
    for (let round = 0; round < 8; round++) {
      const claim = tracker.get(namespace, name);
      if (claim === undefined) return undefined;
      // A pod that did not exist at the last read may have been created again under its name, and may be a new consumer
      // of the claim.
      if (claim.metadata.resourceVersion !== lookedFor) for (const looked of [pods, nodes, groups]) looked.clear();
      lookedFor = claim.metadata.resourceVersion;
      const verdict = releaseClaim({
        claim,
        podOf: (pod) => pods.get(pod) ?? this.cachedPod(namespace, pod, claim),
        nodeOf: (node) => nodes.get(node) ?? this.cachedNode(node),
        ...this.groupsFrom(groups, namespace),
      });
      switch (verdict.kind) {
        case "none":
          return undefined;
        case "wait":
          // The node's write to the claim enqueues it again.
          return undefined;
        case "look":
          for (const pod of verdict.pods) {
            const fresh = await this.look({ ...deviceKinds.pods, namespace, name: pod }, cancel);
            if (!fresh.ok) return reconcileResultOf(fresh);
            pods.set(pod, fresh.value.object === undefined ? "gone" : { object: fresh.value.object as Pod });
          }
          for (const group of verdict.groups) {
            const fresh = await this.look({ ...deviceKinds.groups, namespace, name: group }, cancel);
            if (!fresh.ok) return reconcileResultOf(fresh);
            const { object } = fresh.value;
            groups.set(group, object === undefined ? "gone" : { object: object as PodGroup });
          }
          for (const node of verdict.nodes) {
            const fresh = await this.look({ ...deviceKinds.nodes, namespace: "", name: node }, cancel);
            if (!fresh.ok) return reconcileResultOf(fresh);
            nodes.set(node, fresh.value.object === undefined ? "gone" : { object: fresh.value.object as Node });
          }
          continue;
        case "delete": {
          const atLeast = laterOf(this.world.claims.revision, this.world.pods.revision);
          const outcome = await controllers.writer.remove(
            verdict.intent,
            ({ object }) => this.stillOver(object, namespace, pods),
            { atLeast, cancel },
          );
          return outcome.ok ? undefined : reconcileResultOf(outcome);
        }
        case "write": {
          const outcome = await this.send(verdict.intent, cancel);
          if (!outcome.ok) return reconcileResultOf(outcome);
          await this.dropProtection(outcome.value, cancel);
          continue;
        }
      }
    }
    return { again: "the claim was changed by other clients in every attempt" };
  }

  /**
   * A deallocated claim no longer needs its finalizer. If this write is lost, the next allocation or deletion handles
   * it.
   */
  private async dropProtection(written: { object?: KubeObject }, cancel: Cancel): Promise<void> {
    const claim = written.object as ResourceClaim | undefined;
    if (claim === undefined || claim.status?.allocation !== undefined) return;
    if (claim.metadata.finalizers?.includes(deleteProtection) !== true) return;
    await this.send(withoutProtection(claim), cancel);
  }

  private stillOver(
    object: KubeObject | undefined,
    namespace: string,
    pods: ReadonlyMap<string, Known<Pod>>,
  ): { still: Extract<Intent, { type: "delete" }> } | { noLongerDue: string } {
    if (object === undefined) return { noLongerDue: "it is gone" };
    const claim = object as ResourceClaim;
    const verdict = releaseClaim({
      claim,
      podOf: (pod) => pods.get(pod) ?? this.cachedPod(namespace, pod, claim),
      nodeOf: () => "unseen",
      ...this.groupsFrom(new Map(), namespace),
    });
    return verdict.kind === "delete" ? { still: verdict.intent } : { noLongerDue: "it is in use" };
  }

  /** A pod that the cache lacks, or has with another UID than the claim, is read from the API. */
  private cachedPod(namespace: string, name: string, claim: ResourceClaim): Known<Pod> {
    const pod = this.world.pods.get(`${namespace}/${name}`);
    if (pod === undefined) return "unseen";
    const isNamed = claim.status?.reservedFor?.some(({ uid }) => uid === pod.metadata.uid) === true;
    const isOwner = claim.metadata.ownerReferences?.some(({ uid }) => uid === pod.metadata.uid) === true;
    return isNamed || isOwner ? { object: pod } : "unseen";
  }

  private cachedNode(name: string): Known<Node> {
    const node = this.world.nodes.get(name);
    return node === undefined ? "unseen" : { object: node };
  }

  /** Empty where groups have no claims. */
  private groupsFrom(looked: ReadonlyMap<string, Known<PodGroup>>, namespace: string): Pick<ReleaseInput, "groupOf"> {
    const { groups } = this.world;
    if (groups === undefined) return {};
    return {
      groupOf: (name) => {
        const object = groups.get(`${namespace}/${name}`);
        return looked.get(name) ?? (object === undefined ? "unseen" : { object });
      },
    };
  }

  private claimsOnNode(node: string): string[] {
    const keys: string[] = [];
    for (const pod of this.world.podsByNode.get(node)) for (const key of claimKeysOf(pod)) keys.push(claimPrefix + key);
    for (const [key, claim] of this.world.claims.view().objects) {
      if ((claim.status?.reservedFor?.length ?? 0) > 0) keys.push(claimPrefix + key);
    }
    return keys;
  }

  private look(
    target: { group: string; version: string; plural: string; namespace: string; name: string },
    cancel: Cancel,
  ): Promise<Outcome<FreshObject>> {
    const { pods, nodes, groups } = this.world;
    const { revision } = target.plural === "pods" ? pods : target.plural === "nodes" ? nodes : (groups ?? pods);
    // The writer of a reservation had observed the pod: the read must not be older than the claim.
    const atLeast = laterOf(revision, this.world.claims.revision);
    return lookAgain(this.world.controllers.kube, target, { atLeast, cancel });
  }

  private async send(intent: Intent, cancel: Cancel): Promise<Outcome<{ object?: KubeObject }>> {
    const { tracker } = this.world;
    const options = { cancel, ...(intent.type === "apply" && { fieldManager }) };
    const isClaim = resourceKey(intent.target) === resourceKey(deviceKinds.claims);
    const { namespace, name } = intent.target;
    const written = isClaim ? tracker.writing(namespace, name, "claim-controller") : undefined;
    const outcome = await this.inFlight.commitOne({ intent }, options);
    if (isClaim && outcome.ok && outcome.value.object !== undefined) {
      tracker.assumeClaimAfterApiCall(outcome.value.object);
    }
    written?.();
    return outcome;
  }
}

function usesTemplate({ metadata, spec }: PodGroup, templateKey: string): boolean {
  const namespace = metadata.namespace ?? "";
  return (
    spec.resourceClaims?.some(({ resourceClaimTemplateName: name }) => `${namespace}/${name}` === templateKey) === true
  );
}

function keyOfClaim({ metadata }: ResourceClaim): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}
