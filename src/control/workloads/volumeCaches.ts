import type { ClaimView } from "../../decide/workloads/volumes/claimStep.ts";
import { keyOf, resourceKey } from "../../model/intent.ts";
import type { Node, PersistentVolume, PersistentVolumeClaim, StorageClass } from "../../model/kubernetes.generated.ts";
import {
  classOfClaim,
  classOfVolume,
  defaultClassOf,
  isClassOpen,
  isReservedFor,
  volumeAnnotations,
} from "../../model/storage/volumes.ts";
import { NewestOf } from "../cache/newestOf.ts";
import type { ObjectCache } from "../cache/objectCache.ts";
import type { Controllers } from "../runtime/controllers.ts";
import type { Writer } from "../runtime/writer.ts";
import { nodeKind, storageClassKind, volumeClaimKind, volumeKind } from "./kinds.ts";

/** Claims without a class wait for any class to become the default one. */
const openClass = "*";

/** Claims, volumes and classes, with the answers to own writes, indexed by what enqueues what. */
export class VolumeCaches {
  readonly writer: Writer;
  readonly claims: NewestOf<PersistentVolumeClaim>;
  readonly volumes: NewestOf<PersistentVolume>;
  readonly classes: ObjectCache<StorageClass>;
  readonly nodes: ObjectCache<Node>;
  /** Claims that are not bound, by class. */
  private readonly waiting;
  private readonly claimsByVolume;
  private readonly volumesByClaim;
  /** Volumes that no claim has taken, by class. */
  private readonly free;

  constructor(controllers: Controllers) {
    this.claims = new NewestOf(controllers.cache(volumeClaimKind));
    this.volumes = new NewestOf(controllers.cache(volumeKind));
    this.classes = controllers.cache(storageClassKind);
    this.nodes = controllers.cache(nodeKind);
    this.writer = controllers.writer.answering((target, object) => {
      if (resourceKey(target) === resourceKey(volumeClaimKind)) this.claims.learn(object);
      if (resourceKey(target) === resourceKey(volumeKind)) this.volumes.learn(object);
    });
    const { cache: claims } = this.claims;
    const { cache: volumes } = this.volumes;
    this.waiting = claims.index((claim) => {
      if (claim.metadata.annotations?.[volumeAnnotations.bindCompleted] !== undefined) return [];
      return isClassOpen(claim) ? [openClass, ""] : [classOfClaim(claim)];
    });
    this.claimsByVolume = claims.index(({ spec }) => (spec?.volumeName ? [spec.volumeName] : []));
    this.volumesByClaim = volumes.index(({ spec }) =>
      spec?.claimRef === undefined ? [] : [keyOf(spec.claimRef.namespace, spec.claimRef.name ?? "")],
    );
    this.free = volumes.index((volume) => (volume.spec?.claimRef === undefined ? [classOfVolume(volume)] : []));
  }

  /** Volumes that name the claim, and those of its class that no claim has taken. */
  candidates(claim: PersistentVolumeClaim): PersistentVolume[] {
    const key = keyOf(claim.metadata.namespace, claim.metadata.name);
    const seen = [...this.volumesByClaim.get(key), ...this.free.get(classOfClaim(claim))];
    return this.volumes.among(seen, (volume) => volume.spec?.claimRef === undefined || isReservedFor(volume, claim));
  }

  /** What a decision about the claim reads, but for what was read again. */
  view(claim: PersistentVolumeClaim): Omit<ClaimView, "looked" | "nowMs"> {
    return {
      claim,
      volume: (name) => this.volumes.get(name),
      candidates: (of) => this.candidates(of),
      storageClass: (name) => this.classes.get(name),
      defaultClass: defaultClassOf([...this.classes.view().objects].map(([, each]) => each)),
      node: (name) => this.nodes.get(name),
      volumesRevision: this.volumes.cache.revision,
    };
  }

  /** Keys of claims that a change of the volume concerns. */
  claimsFor(volume: PersistentVolume): string[] {
    const { claimRef } = volume.spec ?? {};
    const naming = this.claimsByVolume.get(volume.metadata.name).map(keyOfObject);
    if (claimRef !== undefined) return [...naming, keyOf(claimRef.namespace, claimRef.name ?? "")];
    return [...naming, ...this.waiting.get(classOfVolume(volume)).map(keyOfObject)];
  }

  /** Names of volumes that a change of the claim concerns. */
  volumesFor(claim: PersistentVolumeClaim): string[] {
    const { volumeName = "" } = claim.spec ?? {};
    const naming = this.volumesByClaim.get(keyOfObject(claim)).map(({ metadata }) => metadata.name);
    return volumeName === "" ? naming : [...naming, volumeName];
  }

  /** Keys of claims that a change of the class concerns. */
  claimsOfClass({ metadata }: StorageClass): string[] {
    return [...this.waiting.get(metadata.name), ...this.waiting.get(openClass)].map(keyOfObject);
  }
}

function keyOfObject({
  metadata,
}: {
  readonly metadata: { readonly namespace?: string; readonly name: string };
}): string {
  return keyOf(metadata.namespace, metadata.name);
}
