import { nextClaimStep } from "../../decide/workloads/volumes/claimStep.ts";
import { nextVolumeStep } from "../../decide/workloads/volumes/heldVolume.ts";
import type { VolumeNote, VolumeStep } from "../../decide/workloads/volumes/volumeStep.ts";
import type { FreshObject, Recheck } from "../../intents/lookAgain.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { expectedOf, type IntentTarget, isDestructive } from "../../model/intent.ts";
import type { Node, PersistentVolume } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { type Outcome, succeeded } from "../../model/outcome.ts";
import { laterOf } from "../../model/revision.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { EventRecorder } from "../runtime/eventRecorder.ts";
import { type ReconcileContext, type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { forMapped, kindSource } from "../runtime/sources.ts";
import { nodeKind, volumeClaimKind, volumeKind } from "./kinds.ts";
import { VolumeCaches } from "./volumeCaches.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

const name = "persistentvolume-controller";
const claimKey = "claim ";
const volumeKey = "volume ";
/** A binding takes four writes; more steps than this are an endless loop. */
const stepsMax = 16;
const reconcilesAtOnce = 8;
const backoff = { baseMs: 5, maxMs: 30_000 };

/** Binds claims to volumes, provisions local folders, and releases and deletes volumes whose claim is gone. */
export function addVolumes(controllers: Controllers, shared: Pick<WorkloadCaches, "recorder">): void {
  const caches = new VolumeCaches(controllers);
  const reconciler = new VolumeReconciler(controllers, caches, shared.recorder(name));
  const claims = (keys: readonly string[]): string[] => keys.map((key) => claimKey + key);
  const volumes = (names: readonly string[]): string[] => names.map((each) => volumeKey + each);
  controllers.add({
    name,
    concurrency: reconcilesAtOnce,
    backoff,
    sources: [
      kindSource(caches.claims.cache, ({ key }) => [claimKey + key]),
      kindSource(
        caches.claims.cache,
        forMapped((claim) => volumes(caches.volumesFor(claim))),
      ),
      kindSource(caches.volumes.cache, ({ key }) => [volumeKey + key]),
      kindSource(
        caches.volumes.cache,
        forMapped((volume) => claims(caches.claimsFor(volume))),
      ),
      kindSource(
        caches.classes,
        forMapped((each) => claims(caches.claimsOfClass(each))),
      ),
    ],
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}

/** What one reconcile has read from the API, as `kind name`. */
interface Looked {
  readonly names: Set<string>;
  readonly absent: Set<string>;
  node?: Node | undefined;
}

interface Next {
  readonly step: VolumeStep;
  readonly about: KubeObject;
}

class VolumeReconciler {
  private readonly controllers: Controllers;
  private readonly caches: VolumeCaches;
  private readonly recorder: EventRecorder;

  constructor(controllers: Controllers, caches: VolumeCaches, recorder: EventRecorder) {
    this.controllers = controllers;
    this.caches = caches;
    this.recorder = recorder;
  }

  async reconcile(key: string, { cancel }: ReconcileContext): Promise<ReconcileResult> {
    const looked: Looked = { names: new Set(), absent: new Set() };
    for (let steps = 0; steps < stepsMax; steps++) {
      const next = key.startsWith(claimKey)
        ? this.claimStep(key.slice(claimKey.length), looked)
        : this.volumeStep(key.slice(volumeKey.length), looked);
      if (next === undefined) return undefined;
      const { step, about } = next;
      if (step.type === "look") {
        const read = await this.look(step, about, looked, cancel);
        if (!read.ok) return reconcileResultOf(read);
        continue;
      }
      if (step.type === "done") {
        this.report(about, step.note);
        return undefined;
      }
      const { intent } = step;
      const outcome = isDestructive(intent)
        ? await this.caches.writer.remove(intent, unchangedHolder(about), {
            atLeast: this.caches.volumes.cache.revision,
            cancel,
          })
        : await this.caches.writer.apply(intent, { cancel });
      if (!outcome.ok) return reconcileResultOf(outcome);
      this.report(about, step.note);
      if (isDestructive(intent)) return undefined;
    }
    return { again: `${key} needs more than ${stepsMax} steps` };
  }

  private claimStep(key: string, looked: Looked): Next | undefined {
    const claim = this.caches.claims.get(key);
    if (claim === undefined) return undefined;
    const view = this.caches.view(claim);
    const step = nextClaimStep({
      ...view,
      volume: (each) => (looked.absent.has(`volume ${each}`) ? undefined : view.volume(each)),
      node: (each) => view.node(each) ?? looked.node,
      looked: looked.names,
      nowMs: this.controllers.ports.clock.nowMs(),
    });
    return { step, about: claim };
  }

  private volumeStep(volumeName: string, looked: Looked): Next | undefined {
    const volume = this.caches.volumes.get(volumeName);
    if (volume === undefined) return undefined;
    const { namespace = "", name: claimName = "" } = volume.spec?.claimRef ?? {};
    const key = `${namespace}/${claimName}`;
    const hasLooked = looked.names.has(`claim ${key}`);
    const claim = looked.absent.has(`claim ${key}`) ? undefined : this.caches.claims.get(key);
    const step = nextVolumeStep({ volume, claim, hasLooked, nowMs: this.controllers.ports.clock.nowMs() });
    return { step, about: volume };
  }

  /** Reads one object, at or beyond the revision of what names it. */
  private async look(
    { what, name: named }: Extract<VolumeStep, { type: "look" }>,
    about: KubeObject,
    looked: Looked,
    cancel: Cancel,
  ): Promise<Outcome<undefined>> {
    const { claims, volumes, nodes } = this.caches;
    const read = async <T extends KubeObject>(target: IntentTarget<T>, cache: { revision: string }) => {
      const atLeast = laterOf(cache.revision, about.metadata.resourceVersion);
      return lookAgain(this.controllers.kube, target, { atLeast, cancel });
    };
    const noted = <T extends KubeObject>(fresh: FreshObject<T>, learn: (object: T) => void): void => {
      looked.names.add(`${what} ${named}`);
      if (fresh.object === undefined) looked.absent.add(`${what} ${named}`);
      else learn(fresh.object);
    };
    if (what === "claim") {
      const [namespace = "", claimName = ""] = named.split("/");
      const fresh = await read({ ...volumeClaimKind, namespace, name: claimName }, claims.cache);
      if (!fresh.ok) return fresh;
      noted(fresh.value, (claim) => claims.learn(claim));
    } else if (what === "volume") {
      const fresh = await read({ ...volumeKind, namespace: "", name: named }, volumes.cache);
      if (!fresh.ok) return fresh;
      noted(fresh.value, (volume) => volumes.learn(volume));
    } else {
      const fresh = await read({ ...nodeKind, namespace: "", name: named }, nodes);
      if (!fresh.ok) return fresh;
      noted(fresh.value, (node) => {
        looked.node = node;
      });
    }
    return succeeded(undefined);
  }

  private report(about: KubeObject, note: VolumeNote | undefined): void {
    if (note === undefined) return;
    const { type, reason, message } = note;
    this.recorder.record(about, { type, reason, action: "Binding", note: message });
  }
}

/** A volume is deleted if it still names the claim that is gone. */
function unchangedHolder(about: KubeObject): (fresh: FreshObject) => Recheck {
  const uid = (about as PersistentVolume).spec?.claimRef?.uid;
  return ({ object }) => {
    const volume = object as PersistentVolume | undefined;
    if (volume === undefined || volume.spec?.claimRef?.uid !== uid || volume.status?.phase !== "Released")
      return { noLongerDue: "the volume has changed" };
    const { name: volumeName } = volume.metadata;
    const target = { ...volumeKind, namespace: "", name: volumeName };
    const why = "its claim is gone, and its reclaim policy is Delete";
    return { still: { type: "delete", target, expected: expectedOf(volume), why } };
  };
}
