/**
 * A cluster in memory for gangs: API server with admission, the operator, simulated nodes, a scheduler, and a clock
 * that the test moves.
 */
import { readFileSync } from "node:fs";
import { parseAllDocuments } from "yaml";
import { createAdmission } from "../../src/apiserver/admission/createAdmission.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { gangComponent } from "../../src/control/gang/gangComponent.ts";
import type { Component } from "../../src/control/runtime/component.ts";
import { Controllers } from "../../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { workloads } from "../../src/control/workloads/workloads.ts";
import { readFault } from "../../src/kubelet/node/faults.ts";
import { type Delays, fastDelays } from "../../src/kubelet/pods/podPlan.ts";
import { addFaults, clearFaults } from "../../src/kubelet/run/clusterFaults.ts";
import { nodesComponent } from "../../src/kubelet/run/nodesComponent.ts";
import { gangHooks } from "../../src/model/gang/hooks.ts";
import { gangResources, labels } from "../../src/model/gang/keys.ts";
import { defaultGangSettings, type GangSettings } from "../../src/model/gang/settings.ts";
import type { PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang } from "../../src/model/gang/types.ts";
import type { CoreEvent, Node, Pod, ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import { copyJson } from "../../src/model/objects/json.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { PodGroup } from "../../src/model/scheduling/podGroup.ts";
import type { Topology } from "../../src/model/scheduling/topology.ts";
import { formatTime } from "../../src/model/values/time.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { type Faults, FaultyKube } from "../../testing/control/faultyKube.ts";
import { KeptLog } from "../../testing/control/keptLog.ts";
import { schedulePods } from "./toyScheduler.ts";

const definitions = builtin.CustomResourceDefinition;
const nodePlace = builtin.Node;

export interface GangClusterOptions {
  readonly nodes?: number;
  readonly cordoned?: number;
  readonly settings?: Partial<GangSettings>;
  readonly podsPerNode?: number;
  /** Delays of the nodes; none when left out. */
  readonly delays?: Delays;
  readonly nodeLabels?: (index: number) => Record<string, string>;
  /** Other components beside the operator; with them the toy scheduler does not run. */
  readonly components?: readonly Component[];
  readonly nodeMemory?: string;
  /** Nodes renew leases, and the cluster's own controllers mark, taint and clear those that fall silent. */
  readonly nodeLives?: boolean;
}

export class GangCluster {
  readonly api: TestApi;
  readonly kube: KubeApi;
  readonly settings: GangSettings;
  /** Faults of the operator's calls. */
  readonly faults: Faults = {};
  readonly log = new KeptLog();
  readonly metrics = new MemoryMetrics();
  private readonly podsPerNode: number;
  private readonly components: readonly Component[];
  private readonly nodeMemory: string;
  private operator: Controllers | undefined;

  private constructor(api: TestApi, settings: GangSettings, options: GangClusterOptions) {
    this.api = api;
    this.settings = settings;
    this.podsPerNode = options.podsPerNode ?? 1;
    this.components = options.components ?? [];
    this.nodeMemory = options.nodeMemory ?? "512Gi";
    this.kube = inProcessKube(api.core, {
      user: { username: "admin", groups: ["system:masters"] },
      fieldManager: "admin",
    });
  }

  static async start(options: GangClusterOptions = {}): Promise<GangCluster> {
    const settings = { ...defaultGangSettings, ...options.settings };
    const api = await TestApi.start({
      admission: createAdmission({
        hooks: [...gangHooks(settings), ...(options.components ?? []).flatMap(({ hooks = [] }) => hooks)],
      }),
    });
    const cluster = new GangCluster(api, settings, options);
    const { component: nodes } = nodesComponent({
      seed: "s",
      delays: options.delays ?? fastDelays,
      leases: options.nodeLives === true,
      dra: undefined,
      events: "none",
    });
    const all = [gangComponent(settings), nodes, ...cluster.components].flatMap(({ definitions: own = [] }) => own);
    for (const definition of new Map(all.map((each) => [each.metadata.name, each])).values()) {
      const made = await cluster.kube.create(definitions, copyJson(definition));
      if (!made.ok) throw new Error(made.message);
    }
    await api.settle();
    for (let index = 0; index < (options.nodes ?? 10); index++) {
      const isCordoned = index >= (options.nodes ?? 10) - (options.cordoned ?? 0);
      await cluster.addNode(index, { isCordoned, labels: options.nodeLabels?.(index) ?? {} });
    }
    for (const object of cluster.components.flatMap(({ startObjects = [] }) => startObjects)) {
      const resource = api.core.registry.kind(object.apiVersion, object.kind);
      if (resource !== undefined) await cluster.kube.create(resource.type, copyJson(object));
    }
    await cluster.startOperator();
    const user = { username: "nodes", groups: ["system:masters"] };
    const kube = inProcessKube(api.core, { user, fieldManager: "nodes" });
    const ports = { kube, clock: api.clock, random: seededRandom(2), log: cluster.log, metrics: cluster.metrics };
    const kubelets = new Controllers(ports, { fieldManager: "nodes", freeze: true });
    nodes.add(kubelets);
    if (options.nodeLives === true) workloads.add(kubelets);
    const started = kubelets.start();
    await cluster.run(0.1);
    await started;
    return cluster;
  }

  async startOperator(): Promise<void> {
    const user = { username: "system:muster", groups: ["system:masters"] };
    const kube = new FaultyKube(inProcessKube(this.api.core, { user, fieldManager: "muster" }));
    kube.faults = this.faults;
    const ports = { kube, clock: this.api.clock, random: seededRandom(1), log: this.log, metrics: this.metrics };
    this.operator = new Controllers(ports, { fieldManager: "muster", freeze: true });
    gangComponent(this.settings).add(this.operator);
    for (const component of this.components) component.add(this.operator);
    const started = this.operator.start();
    await this.run(0.1);
    await started;
  }

  async stopOperator(): Promise<void> {
    const stopped = this.operator?.stop();
    await this.run(0.05);
    await stopped;
  }

  /** Lets time pass; the scheduler runs at intervals. */
  async run(seconds: number): Promise<void> {
    const stepMs = Math.min(100, seconds * 1000);
    for (let left = seconds * 1000; left > 0; left -= stepMs) await this.api.clock.advance(Math.min(stepMs, left));
  }

  /** Runs until nothing changes any more; each round takes less than a second of time. */
  async settle(rounds = 60): Promise<void> {
    let quiet = 0;
    // A separate scheduler runs about once a second.
    const quietMin = this.components.length > 0 ? 20 : 2;
    for (let round = 0; round < rounds + quietMin && quiet < quietMin; round++) {
      const before = this.api.core.store.revision;
      await this.api.clock.advance(60);
      const bound = await this.schedule();
      await this.api.clock.advance(60);
      quiet = bound === 0 && this.api.core.store.revision === before ? quiet + 1 : 0;
    }
    const mistakes = this.log.errors;
    if (mistakes.length > 0)
      throw new Error(
        `mistakes: ${JSON.stringify(
          this.log.lines.filter(({ level }) => level === "error"),
          errorText,
        )}`,
      );
  }

  /** Lets a long time pass in a few steps, with the scheduler at work. */
  async pass(seconds: number): Promise<void> {
    for (let step = 0; step < 5; step++) {
      await this.api.clock.advance((seconds * 1000) / 5);
      await this.settle();
    }
  }

  schedule(): Promise<number> {
    if (this.components.length > 0) return Promise.resolve(0);
    return schedulePods(this.kube, {
      nodes: this.all<Node>("/nodes"),
      pods: this.pods(),
      podGroups: this.all<PodGroup>("scheduling.run.ai/podgroups"),
      topologies: this.all<Topology>("kai.scheduler/topologies"),
      podsPerNode: this.podsPerNode,
    });
  }

  async addNode(index: number, options: { isCordoned?: boolean; labels?: Record<string, string> } = {}): Promise<void> {
    const name = nodeName(index);
    const allocatable = { cpu: "64", memory: this.nodeMemory, pods: "250" };
    await this.api.create("/nodes", {
      apiVersion: "v1",
      kind: "Node",
      metadata: {
        name,
        annotations: { "kwok.x-k8s.io/node": "fake" },
        labels: { "kubernetes.io/hostname": name, ...options.labels },
      },
      spec: { ...(options.isCordoned && { unschedulable: true }) },
      status: { capacity: allocatable, allocatable },
    });
    const now = formatTime(this.api.clock.nowMs());
    await this.api.edit(
      "/nodes",
      name,
      (node) => {
        node["status"] = {
          capacity: allocatable,
          allocatable,
          conditions: [
            {
              type: "Ready",
              status: "True",
              reason: "KubeletReady",
              message: "",
              lastHeartbeatTime: now,
              lastTransitionTime: now,
            },
          ],
        };
      },
      "status",
    );
  }

  async cordon(node: string, isCordoned = true): Promise<void> {
    const body = { spec: { unschedulable: isCordoned ? true : null } };
    await this.must(this.kube.patch({ ...nodePlace, namespace: "", name: node }, { type: "merge", body }));
  }

  /** Lets the scheduler use more nodes. */
  async uncordon(count: number): Promise<void> {
    const closed = this.all<Node>("/nodes").filter(({ spec }) => spec?.unschedulable === true);
    for (const { metadata } of closed.slice(0, count)) await this.cordon(metadata.name, false);
    await this.settle();
  }

  /** Applies every document of an example. */
  async applyExample(file: string): Promise<void> {
    const text = readFileSync(new URL(`../../examples/gangs/${file}`, import.meta.url), "utf8");
    for (const document of parseAllDocuments(text)) {
      const object = document.toJS() as KubeObject;
      const resource = this.api.core.registry.kind(object.apiVersion, object.kind);
      if (resource === undefined) throw new Error(`${object.kind} is not served`);
      await this.must(this.kube.create(resource.type, object));
    }
    await this.settle(200);
  }

  async apply(set: PodCliqueSet): Promise<void> {
    await this.must(this.kube.create(gangResources.PodCliqueSet, copyJson(set)));
    await this.settle();
  }

  async change(name: string, edit: (set: PodCliqueSet) => void): Promise<void> {
    const next = copyJson(this.set(name));
    edit(next);
    await this.must(this.kube.update(at(gangResources.PodCliqueSet, name), next));
  }

  async scale(
    kind: "PodCliqueSet" | "PodClique" | "PodCliqueScalingGroup",
    name: string,
    replicas: number,
  ): Promise<void> {
    const ref = { ...at(gangResources[kind], name), subresource: "scale" };
    await this.must(this.kube.patch(ref, { type: "merge", body: { spec: { replicas } } }));
    await this.settle();
  }

  async deletePod(name: string): Promise<void> {
    await this.must(this.kube.delete(at(gangResources.Pod, name), { gracePeriodSeconds: 0 }));
  }

  /** Cordons the node of a pod and deletes the pod: its replacement cannot be scheduled. */
  async losePod(pod: Pod): Promise<void> {
    await this.cordon(pod.spec?.nodeName ?? "");
    await this.deletePod(pod.metadata.name);
    await this.settle();
  }

  /** The kubelets of these nodes fall silent, as with a network partition: no delete on them completes. */
  async silence(...nodes: readonly string[]): Promise<void> {
    const nowMs = this.api.clock.nowMs();
    const faults = nodes.map((node) =>
      readFault({ kind: "heartbeat-stop", node }, { nowMs, id: `heartbeat-stop-${node}` }),
    );
    await this.must(addFaults(this.kube, faults, nowMs));
  }

  /** Every silent node reports again. */
  async restoreNodes(): Promise<void> {
    await this.must(clearFaults(this.kube, undefined, this.api.clock.nowMs()));
  }

  async deleteNode(name: string): Promise<void> {
    await this.must(this.kube.delete({ ...nodePlace, namespace: "", name }));
  }

  set(name: string): PodCliqueSet {
    return this.api.get("grove.io/podcliquesets", `default/${name}`) as unknown as PodCliqueSet;
  }

  clique(name: string): PodClique {
    return this.api.get("grove.io/podcliques", `default/${name}`) as unknown as PodClique;
  }

  group(name: string): PodCliqueScalingGroup {
    return this.api.get("grove.io/podcliquescalinggroups", `default/${name}`) as unknown as PodCliqueScalingGroup;
  }

  gang(name: string): PodGang {
    return this.api.get("scheduler.grove.io/podgangs", `default/${name}`) as unknown as PodGang;
  }

  claims(): string[] {
    return this.all<ResourceClaim>("resource.k8s.io/resourceclaims").map(({ metadata }) => metadata.name);
  }

  all<T = KubeObject>(resource: string): T[] {
    return [...this.api.core.store.collection(resource).all()].map((version) => version.object() as unknown as T);
  }

  names(resource: string): string[] {
    return this.all(resource).map(({ metadata }) => metadata.name);
  }

  pods(clique?: string): Pod[] {
    const all = this.all<Pod>("/pods");
    return clique === undefined ? all : all.filter(({ metadata }) => metadata.labels?.[labels.clique] === clique);
  }

  uids(clique?: string): string[] {
    return this.pods(clique)
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map(({ metadata }) => metadata.uid)
      .sort();
  }

  readyPods(clique?: string): number {
    return this.pods(clique).filter(isReady).length;
  }

  scheduledPods(clique?: string): number {
    return this.pods(clique).filter(({ spec }) => (spec?.nodeName ?? "") !== "").length;
  }

  /** Every occurrence: an Event with `count: 2` is there twice. They are stored in the older form. */
  events(reason: string): { regarding: { name: string; kind: string }; note: string; type: string }[] {
    return this.all<CoreEvent>(this.eventResource)
      .filter((event) => event.reason === reason)
      .flatMap(({ involvedObject: { name = "", kind = "" }, message: note = "", type = "", count = 1 }) =>
        Array.from({ length: count }, () => ({ regarding: { name, kind }, note, type })),
      );
  }

  private get eventResource(): string {
    return this.api.core.store.resources().find((resource) => resource.endsWith("/events")) ?? "/events";
  }

  async must<T>(outcome: Promise<{ ok: true; value: T } | { ok: false; message: string }>): Promise<T> {
    const result = await outcome;
    if (!result.ok) throw new Error(result.message);
    return result.value;
  }
}

function errorText(_key: string, value: unknown): unknown {
  return value instanceof Error ? value.stack : value;
}

export const nodeName = (index: number): string => `n${String(index).padStart(2, "0")}`;

export function at(place: Resource, name: string) {
  return { ...place, namespace: "default", name };
}

export function isReady({ status }: Pod): boolean {
  return status?.conditions?.find(({ type }) => type === "Ready")?.status === "True";
}

export function conditionOf(
  object: { status?: { conditions?: { type: string; status: string; reason: string; message: string }[] } },
  type: string,
) {
  return object.status?.conditions?.find((condition) => condition.type === type);
}
