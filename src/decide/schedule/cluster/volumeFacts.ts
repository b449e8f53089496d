import type {
  CSINode,
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "../../../model/kubernetes.generated.ts";
import {
  claimsOfPod,
  classOfClaim,
  isBoundClaim,
  isClaimOf,
  notCreatedFor,
  reaches,
  waitsForConsumer,
} from "../../../model/storage/volumes.ts";
import { type ChoiceRefusal, type ChosenVolumes, VolumeChoices } from "../volumes/volumeChoices.ts";
import { Changes, FactMap } from "./facts.ts";
import type { NodeState } from "./nodeState.ts";
import { doesNotExist, type PodProblem } from "./podProblem.ts";
import type { Task } from "./task.ts";

/** Counts the changes of volumes apart from those of all facts. */
class CountedChanges extends Changes {
  private readonly all: Changes;

  constructor(all: Changes) {
    super();
    this.all = all;
  }

  override note(): void {
    super.note();
    this.all.note();
  }
}

/**
 * The constraints of volumes on placement: whether they exist, which nodes reach them, which are free for claims that
 * wait for a node, and how many a node can attach.
 */
export class VolumeFacts {
  readonly volumeClaims: FactMap<string, PersistentVolumeClaim>;
  readonly volumes: FactMap<string, PersistentVolume>;
  readonly classes: FactMap<string, StorageClass>;
  readonly csiNodes: FactMap<string, CSINode>;
  private readonly nodes: () => readonly NodeState[];
  private readonly choices: VolumeChoices;

  constructor(changes: Changes, nodes: () => readonly NodeState[]) {
    this.volumeClaims = new FactMap(changes);
    const volumeChanges = new CountedChanges(changes);
    this.volumes = new FactMap(volumeChanges);
    this.classes = new FactMap(changes);
    this.csiNodes = new FactMap(changes);
    this.nodes = nodes;
    const { volumeClaims, volumes, classes } = this;
    this.choices = new VolumeChoices({ volumeClaims, volumes, classes, volumesVersion: () => volumeChanges.count });
  }

  /**
   * Problems that no node and no eviction can solve: a PersistentVolumeClaim that does not exist, is terminating, or
   * that no controller will bind.
   */
  problemOf(task: Task): PodProblem | undefined {
    for (const { name, template } of claimsOfPod(task.pod)) {
      const claim = this.volumeClaims.get(`${task.namespace}/${name}`);
      const object = `PersistentVolumeClaim ${task.namespace}/${name}`;
      if (claim === undefined) {
        if (template === undefined) return doesNotExist(object);
        return {
          message: `${object} does not exist yet`,
          cure: "wait until it is created for the pod's ephemeral volume",
        };
      }
      if (template !== undefined && !isClaimOf(claim, task.pod))
        return { message: notCreatedFor(`${task.namespace}/${name}`, task.name), cure: `delete ${object}` };
      if (claim.metadata.deletionTimestamp !== undefined)
        return { message: `${object} is being deleted`, cure: `create ${object} again after its deletion` };
      if (claim.status?.phase === "Lost")
        return { message: `${object} has lost its volume`, cure: `delete ${object} and create it again` };
      if (isBoundClaim(claim) || this.waitsForNode(claim) || !this.hasStorage) continue;
      return {
        message: `${object} is not bound yet`,
        cure: `create a PersistentVolume for ${object}, or wait for its provisioner`,
      };
    }
    return undefined;
  }

  /**
   * A cluster without StorageClasses and PersistentVolumes never binds a claim. Simulated nodes run pods without their
   * volumes, so there an unbound claim keeps no pod pending.
   */
  private get hasStorage(): boolean {
    return this.classes.size > 0 || this.volumes.size > 0;
  }

  /** Why the pod's volumes keep it from a node, or undefined. */
  refuses(task: Task, node: NodeState): ChoiceRefusal | "volume limit" | "volume in use" | undefined {
    const perDriver = new Map<string, Set<string>>();
    const open: PersistentVolumeClaim[] = [];
    for (const name of task.shape.volumeClaims) {
      const claim = this.volumeClaims.get(`${task.namespace}/${name}`);
      if (claim === undefined || node.node === undefined) return "volume zone";
      if (claim.spec?.accessModes?.includes("ReadWriteOncePod") === true && this.hasOtherUser(task, name))
        return "volume in use";
      if (this.waitsForNode(claim)) {
        open.push(claim);
        continue;
      }
      const volume = this.volumes.get(claim.spec?.volumeName ?? "");
      if (volume === undefined) continue;
      if (!reaches(volume, node.node) || !sameZone(volume, node)) return "volume zone";
      const driver = volume.spec?.csi?.driver;
      if (driver === undefined) continue;
      const handles = perDriver.get(driver) ?? new Set<string>();
      handles.add(volume.spec?.csi?.volumeHandle ?? volume.metadata.name);
      perDriver.set(driver, handles);
    }
    const chosen = this.choices.choose(task, open, node);
    if (typeof chosen === "string") return chosen;
    for (const [driver, handles] of perDriver) {
      const max = this.csiNodes.get(node.name)?.spec.drivers?.find(({ name }) => name === driver)?.allocatable?.count;
      if (max === undefined) continue;
      const attached = this.attached(node, driver);
      for (const handle of handles) attached.add(handle);
      if (attached.size > max) return "volume limit";
    }
    return undefined;
  }

  /** The pod holds the node from now on, and with it the volumes that its claims find there. */
  took(task: Task, node: NodeState): void {
    if ((task.pod.spec?.nodeName ?? "") !== "") return;
    const decided = task.places.find((place) => place.node === node.name);
    const chosen =
      decided === undefined
        ? this.choices.choose(task, this.openClaims(task), node)
        : // The claims need not be known yet.
          new Map(task.shape.volumeClaims.map((name) => [name, decided.volumes?.[name]]));
    if (typeof chosen !== "string") this.choices.took(task, node, chosen);
  }

  left(task: Task): void {
    this.choices.left(task);
  }

  /** The volumes that the pod was given on its node, for claims that are not bound. */
  chosenBy(task: Task): ChosenVolumes | undefined {
    return this.choices.chosenBy(task);
  }

  /** Its claims that wait for a node. */
  openClaims(task: Task): PersistentVolumeClaim[] {
    const open: PersistentVolumeClaim[] = [];
    for (const name of task.shape.volumeClaims) {
      const claim = this.volumeClaims.get(`${task.namespace}/${name}`);
      if (claim !== undefined && this.waitsForNode(claim)) open.push(claim);
    }
    return open;
  }

  /** Whether all its claims are bound, so that binding the pod writes the pod alone. */
  areAllBound(task: Task): boolean {
    if (!this.hasStorage) return true;
    return task.shape.volumeClaims.every((name) => {
      const claim = this.volumeClaims.get(`${task.namespace}/${name}`);
      return claim !== undefined && isBoundClaim(claim);
    });
  }

  /** Whether the claim is bound when its pod has a node. One that names its volume is bound at once. */
  private waitsForNode(claim: PersistentVolumeClaim): boolean {
    if (isBoundClaim(claim) || (claim.spec?.volumeName ?? "") !== "") return false;
    return waitsForConsumer(this.classes.get(classOfClaim(claim)));
  }

  private attached(node: NodeState, driver: string): Set<string> {
    const handles = new Set<string>();
    for (const { holder } of node.holdings) {
      const { shape, namespace } = holder as Task;
      for (const name of shape.volumeClaims) {
        const volume = this.volumes.get(this.volumeClaims.get(`${namespace}/${name}`)?.spec?.volumeName ?? "");
        if (volume?.spec?.csi?.driver === driver) handles.add(volume.spec.csi.volumeHandle);
      }
    }
    return handles;
  }

  /** Whether another pod of the cluster uses the claim (`ReadWriteOncePod`). */
  private hasOtherUser(task: Task, claim: string): boolean {
    for (const { holdings } of this.nodes()) {
      for (const { holder } of holdings) {
        const { namespace, shape } = holder as Task;
        if (holder !== task && namespace === task.namespace && shape.volumeClaims.includes(claim)) return true;
      }
    }
    return false;
  }
}

const zoneLabels = [
  "topology.kubernetes.io/zone",
  "topology.kubernetes.io/region",
  "failure-domain.beta.kubernetes.io/zone",
  "failure-domain.beta.kubernetes.io/region",
];

/** A volume's zone label may name several zones, joined by two underscores. */
function sameZone({ metadata }: PersistentVolume, node: NodeState): boolean {
  for (const label of zoneLabels) {
    const zones = metadata.labels?.[label];
    const here = node.labels[label];
    if (zones !== undefined && here !== undefined && !zones.split("__").includes(here)) return false;
  }
  return true;
}
