import type {
  CSINode,
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "../../../model/kubernetes.generated.ts";
import { matchesTerm } from "../../../model/objects/nodeMatch.ts";
import { type Changes, FactMap } from "./facts.ts";
import type { NodeState } from "./nodeState.ts";
import { doesNotExist, type PodProblem } from "./podProblem.ts";
import type { Task } from "./task.ts";

/**
 * The constraints of volumes on placement: whether they exist, their zones, and how many a node can attach.
 */
export class VolumeFacts {
  readonly claims: FactMap<string, PersistentVolumeClaim>;
  readonly volumes: FactMap<string, PersistentVolume>;
  readonly classes: FactMap<string, StorageClass>;
  readonly csiNodes: FactMap<string, CSINode>;
  private readonly nodes: () => readonly NodeState[];

  constructor(changes: Changes, nodes: () => readonly NodeState[]) {
    this.claims = new FactMap(changes);
    this.volumes = new FactMap(changes);
    this.classes = new FactMap(changes);
    this.csiNodes = new FactMap(changes);
    this.nodes = nodes;
  }

  /**
   * Problems that no node and no eviction can solve: a PersistentVolumeClaim that does not exist, is terminating, or
   * that no controller will bind.
   */
  problemOf(task: Task): PodProblem | undefined {
    for (const name of task.shape.volumeClaims) {
      const claim = this.claims.get(`${task.namespace}/${name}`);
      const object = `PersistentVolumeClaim ${task.namespace}/${name}`;
      if (claim === undefined) return doesNotExist(object);
      if (claim.metadata.deletionTimestamp !== undefined)
        return { message: `${object} is being deleted`, cure: `create ${object} again after its deletion` };
      if (claim.status?.phase === "Lost")
        return { message: `${object} has lost its volume`, cure: `delete ${object} and create it again` };
      if (isBound(claim) || this.waitsForConsumer(claim) || !this.hasStorage) continue;
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
  refuses(task: Task, node: NodeState): "volume zone" | "volume limit" | "volume in use" | undefined {
    const perDriver = new Map<string, Set<string>>();
    for (const name of task.shape.volumeClaims) {
      const claim = this.claims.get(`${task.namespace}/${name}`);
      if (claim === undefined || node.node === undefined) return "volume zone";
      const volume = this.volumes.get(claim.spec?.volumeName ?? "");
      if (volume !== undefined) {
        const terms = volume.spec?.nodeAffinity?.required?.nodeSelectorTerms;
        const nodeObject = node.node;
        if (terms !== undefined && !terms.some((term) => matchesTerm(term, nodeObject))) return "volume zone";
        if (!sameZone(volume, node)) return "volume zone";
        const driver = volume.spec?.csi?.driver;
        if (driver !== undefined) {
          const handles = perDriver.get(driver) ?? new Set<string>();
          handles.add(volume.spec?.csi?.volumeHandle ?? volume.metadata.name);
          perDriver.set(driver, handles);
        }
        if (claim.spec?.accessModes?.includes("ReadWriteOncePod") === true && this.hasOtherUser(task, name)) {
          return "volume in use";
        }
        continue;
      }
      const topologies = this.classes.get(claim.spec?.storageClassName ?? "")?.allowedTopologies;
      if (topologies === undefined || topologies.length === 0) continue;
      const isAllowed = topologies.some(({ matchLabelExpressions = [] }) =>
        matchLabelExpressions.every(({ key, values }) => values.includes(node.labels[key] ?? "")),
      );
      if (!isAllowed) return "volume zone";
    }
    for (const [driver, handles] of perDriver) {
      const max = this.csiNodes.get(node.name)?.spec.drivers?.find(({ name }) => name === driver)?.allocatable?.count;
      if (max === undefined) continue;
      const attached = this.attached(node, driver);
      for (const handle of handles) attached.add(handle);
      if (attached.size > max) return "volume limit";
    }
    return undefined;
  }

  /** Whether all its claims are bound, so that binding the pod writes the pod alone. */
  areAllBound(task: Task): boolean {
    if (!this.hasStorage) return true;
    return task.shape.volumeClaims.every((name) => {
      const claim = this.claims.get(`${task.namespace}/${name}`);
      return claim !== undefined && isBound(claim);
    });
  }

  private waitsForConsumer(claim: PersistentVolumeClaim): boolean {
    return this.classes.get(claim.spec?.storageClassName ?? "")?.volumeBindingMode === "WaitForFirstConsumer";
  }

  private attached(node: NodeState, driver: string): Set<string> {
    const handles = new Set<string>();
    for (const { holder } of node.holdings) {
      const { shape, namespace } = holder as Task;
      for (const name of shape.volumeClaims) {
        const volume = this.volumes.get(this.claims.get(`${namespace}/${name}`)?.spec?.volumeName ?? "");
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

function isBound(claim: PersistentVolumeClaim): boolean {
  return claim.status?.phase === "Bound" && (claim.spec?.volumeName ?? "") !== "";
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
