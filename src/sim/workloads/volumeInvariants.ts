import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import type { Node, PersistentVolume, PersistentVolumeClaim, Pod } from "../../model/kubernetes.generated.ts";
import { isFinished, isLeaving } from "../../model/objects/podFacts.ts";
import { localFolderProvisioner } from "../../model/storage/localFolder.ts";
import {
  claimsOfPod,
  classOfClaim,
  isBoundClaim,
  isTakenBy,
  reaches,
  volumeAnnotations,
  volumeFor,
} from "../../model/storage/volumes.ts";
import type { Invariant } from "../invariant.ts";
import { type Held, short } from "../invariants/general.ts";

const claimsKey = "/persistentvolumeclaims";
const volumesKey = "/persistentvolumes";
const podsKey = "/pods";

/** I14: a volume belongs to a UID, and a claim names a volume that is its own. */
export const volumeHasOneClaim = (held: Held): Invariant => ({
  id: "I14",
  fact: "a volume belongs to one claim by UID, and a claim is bound to a volume that names it",
  begin: ({ store }) => ({
    commit: ({ type, call, event }) => {
      const { current, previous } = event;
      if (type !== "MODIFIED" || !held(call.actor)) return undefined;
      if (current.resource === volumesKey) {
        const before = (previous?.object() as PersistentVolume | undefined)?.spec?.claimRef?.uid ?? "";
        const after = (current.object() as PersistentVolume).spec?.claimRef?.uid ?? "";
        if (before === "" || after === "" || before === after) return undefined;
        return `${call.actor} gave ${current.name} of claim ${short(before)} to claim ${short(after)}`;
      }
      if (current.resource !== claimsKey) return undefined;
      const claim = current.object() as PersistentVolumeClaim;
      const was = previous?.object() as PersistentVolumeClaim | undefined;
      const { volumeName = "" } = claim.spec ?? {};
      const isNamed = volumeName !== (was?.spec?.volumeName ?? "");
      const isBound = claim.status?.phase === "Bound" && was?.status?.phase !== "Bound";
      if (!isNamed && !isBound) return undefined;
      const volume = volumeNamed(store, volumeName);
      if (volume !== undefined && isTakenBy(volume, claim)) return undefined;
      return `${call.actor} bound ${current.name} to ${volumeName}, which names ${volume?.spec?.claimRef?.uid ?? "nothing"}`;
    },
  }),
});

/** I13: only a volume whose policy says so is deleted, and only when its claim is gone. */
export const keepsVolumes = (held: Held): Invariant => ({
  id: "I13",
  fact: "a controller deletes only volumes that it provisioned, with the policy Delete, whose claim is gone",
  begin: ({ store }) => ({
    commit: ({ call, event }) => {
      const { current } = event;
      if (current.resource !== volumesKey || call.verb !== "delete" || !held(call.actor)) return undefined;
      const volume = (event.previous?.object() ?? current.object()) as PersistentVolume;
      const isOurs = volume.metadata.annotations?.[volumeAnnotations.provisionedBy] === localFolderProvisioner;
      if (!isOurs || volume.spec?.persistentVolumeReclaimPolicy !== "Delete")
        return `${call.actor} deleted ${current.name}, which is to be kept`;
      const { namespace = "", name = "", uid } = volume.spec.claimRef ?? {};
      const claim = store.get(claimsKey, namespace, name)?.object() as PersistentVolumeClaim | undefined;
      if (claim?.metadata.uid !== uid || (claim?.spec?.volumeName ?? current.name) !== current.name) return undefined;
      return `${call.actor} deleted ${current.name}, whose claim ${name} exists`;
    },
  }),
});

/** I14: a pod is where its volumes are. */
export const podsReachTheirVolumes: Invariant = {
  id: "I14",
  fact: "a pod is bound when its claims are, to a node that their volumes reach",
  begin: ({ store }) => ({
    commit: ({ type, call, event }) => {
      if (type !== "MODIFIED" || event.current.resource !== podsKey) return undefined;
      const pod = event.current.object() as Pod;
      const { nodeName = "" } = pod.spec ?? {};
      const before = event.previous?.object() as Pod | undefined;
      if (nodeName === "" || (before?.spec?.nodeName ?? "") !== "") return undefined;
      const node = store.get("/nodes", "", nodeName)?.object() as Node | undefined;
      if (node === undefined) return undefined;
      for (const { name } of claimsOfPod(pod)) {
        const version = store.get(claimsKey, pod.metadata.namespace ?? "", name);
        const claim = version?.object() as PersistentVolumeClaim | undefined;
        // A user has replaced the claim while the bind was on its way.
        if (claim === undefined || isNewer(claim, pod)) continue;
        if (!isBoundClaim(claim)) return `${call.actor} bound ${pod.metadata.name}, whose claim ${name} is not bound`;
        const volume = volumeNamed(store, claim.spec?.volumeName ?? "");
        if (volume !== undefined && !reaches(volume, node))
          return `${call.actor} bound ${pod.metadata.name} to ${nodeName}, which ${volume.metadata.name} excludes`;
      }
      return undefined;
    },
  }),
};

function isNewer(claim: PersistentVolumeClaim, pod: Pod): boolean {
  return claim.metadata.creationTimestamp >= pod.metadata.creationTimestamp;
}

/** I17: at rest every claim and every volume has the phase that the other one implies. */
export const volumesSettle: Invariant = {
  id: "I17",
  fact: "at rest claims that a free volume fits are bound, volumes without their claim are released, and phases are right",
  begin: ({ store }) => ({
    atRest: () => {
      const volumes = all<PersistentVolume>(store, volumesKey);
      for (const volume of volumes) {
        const problem = volumeProblem(store, volume);
        if (problem !== undefined) return `volume ${volume.metadata.name}: ${problem}`;
      }
      for (const claim of all<PersistentVolumeClaim>(store, claimsKey)) {
        const problem = claimProblem(store, claim, volumes);
        if (problem !== undefined) return `claim ${claim.metadata.name}: ${problem}`;
      }
      for (const pod of all<Pod>(store, podsKey)) {
        if (isFinished(pod) || isLeaving(pod)) continue;
        for (const { name } of claimsOfPod(pod).filter(({ template }) => template !== undefined)) {
          if (store.get(claimsKey, pod.metadata.namespace ?? "", name) === undefined)
            return `pod ${pod.metadata.name} lacks its ephemeral claim ${name}`;
        }
      }
      return undefined;
    },
  }),
};

function volumeProblem(store: ObjectStore, volume: PersistentVolume): string | undefined {
  const phase = volume.status?.phase ?? "";
  const { namespace = "", name = "", uid = "" } = volume.spec?.claimRef ?? {};
  if (uid === "") return phase === "Available" ? undefined : `no claim has taken it, and it is ${phase}`;
  const claim = store.get(claimsKey, namespace, name)?.object() as PersistentVolumeClaim | undefined;
  if (claim?.metadata.uid !== uid) {
    if (volume.metadata.annotations?.[volumeAnnotations.provisionedBy] !== undefined) return "its claim is gone";
    return phase === "Released" || phase === "Failed" ? undefined : `its claim is gone, and it is ${phase}`;
  }
  if (claim.metadata.deletionTimestamp !== undefined) return undefined;
  if (claim.spec?.volumeName !== volume.metadata.name) return `its claim has ${claim.spec?.volumeName ?? "no volume"}`;
  return phase === "Bound" ? undefined : `its claim is bound, and it is ${phase}`;
}

function claimProblem(
  store: ObjectStore,
  claim: PersistentVolumeClaim,
  volumes: readonly PersistentVolume[],
): string | undefined {
  if (claim.metadata.deletionTimestamp !== undefined) return undefined;
  const { volumeName = "" } = claim.spec ?? {};
  const phase = claim.status?.phase ?? "";
  if (claim.metadata.annotations?.[volumeAnnotations.bindCompleted] !== undefined) {
    const wanted = volumeNamed(store, volumeName) === undefined ? "Lost" : "Bound";
    return phase === wanted ? undefined : `it is ${phase}, not ${wanted}`;
  }
  if (phase !== "Pending") return `it was never bound, and is ${phase}`;
  if (volumeName !== "" || classOfClaim(claim) !== "now") return undefined;
  const free = volumeFor(claim, volumes);
  return free === undefined ? undefined : `it is Pending, and volume ${free.metadata.name} fits`;
}

function volumeNamed(store: ObjectStore, name: string): PersistentVolume | undefined {
  return store.get(volumesKey, "", name)?.object() as PersistentVolume | undefined;
}

function all<T>(store: ObjectStore, resource: string): T[] {
  return [...store.collection(resource).all()].map((version) => version.object() as T);
}
