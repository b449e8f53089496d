import type { DaemonSet, Deployment, Pod, ReplicaSet, StatefulSet } from "../../../model/kubernetes.generated.ts";
import type { ObjectMeta } from "../../../model/objects/object.ts";
import { type Check, type Evidence, passOrFail } from "../check.ts";
import { type ClusterSnapshot, objectsOf } from "../clusterSnapshot.ts";

export const workloadsHavePods: Check = {
  id: "S13",
  title: "workloads with replicas, and those named by --expect-workload, have pods",
  byDefault: true,
  settles: true,
  needs: ["pods", "deployments", "replicasets", "statefulsets", "daemonsets"],
  run: ({ snapshot, tally, config }) => {
    const excluded = new Set(config.excluded);
    const owners = new Owners(snapshot, tally.pods);
    const evidence: Evidence[] = [];
    let withReplicas = 0;
    for (const { object, metadata, replicas } of declaredWorkloads(snapshot)) {
      if (replicas === 0 || excluded.has(metadata.namespace ?? "") || metadata.deletionTimestamp !== undefined)
        continue;
      withReplicas++;
      if (!owners.hasPods(metadata.uid))
        evidence.push({ object, problem: `should have ${replicas} pods and has none` });
    }
    for (const name of config.expectWorkloads) {
      if (!owners.isNamed(name)) evidence.push({ object: name, problem: `component ${name} has no pods` });
    }
    return passOrFail(evidence, `${withReplicas} workloads and ${config.expectWorkloads.length} named ones`);
  },
};

function declaredWorkloads(snapshot: ClusterSnapshot): { object: string; metadata: ObjectMeta; replicas: number }[] {
  const named = (plural: string, { metadata }: { metadata: ObjectMeta }, replicas: number) => ({
    object: `${plural}/${metadata.namespace ?? ""}/${metadata.name}`,
    metadata,
    replicas,
  });
  return [
    ...objectsOf<Deployment>(snapshot, "deployments").map((each) =>
      named("deployments", each, each.spec?.replicas ?? 1),
    ),
    ...objectsOf<StatefulSet>(snapshot, "statefulsets").map((each) =>
      named("statefulsets", each, each.spec?.replicas ?? 1),
    ),
    ...objectsOf<DaemonSet>(snapshot, "daemonsets").map((each) =>
      named("daemonsets", each, each.status?.desiredNumberScheduled ?? 0),
    ),
  ];
}

const nameLabels = ["app.kubernetes.io/instance", "app.kubernetes.io/name", "app.kubernetes.io/component", "app"];

/** The workloads that have pods: by the UIDs of the owners and of their owners, and by name and name label. */
class Owners {
  private readonly uids = new Set<string>();
  private readonly names = new Set<string>();

  constructor(snapshot: ClusterSnapshot, pods: readonly Pod[]) {
    const above = new Map(
      objectsOf<ReplicaSet>(snapshot, "replicasets").map((set) => [set.metadata.uid, set.metadata]),
    );
    for (const { metadata } of pods) {
      const { namespace = "", ownerReferences = [], labels } = metadata;
      this.add(namespace, metadata.name);
      for (const owner of ownerReferences) {
        this.uids.add(owner.uid);
        this.add(namespace, owner.name);
        for (const next of above.get(owner.uid)?.ownerReferences ?? []) {
          this.uids.add(next.uid);
          this.add(namespace, next.name);
        }
      }
      for (const key of labels === undefined ? [] : nameLabels) {
        const value = labels?.[key];
        if (value !== undefined) this.add(namespace, value);
      }
    }
  }

  hasPods(uid: string): boolean {
    return this.uids.has(uid);
  }

  isNamed(name: string): boolean {
    return this.names.has(name);
  }

  private add(namespace: string, name: string): void {
    this.names.add(name);
    this.names.add(`${namespace}/${name}`);
  }
}
