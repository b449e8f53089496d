/** A cluster in memory with simulated nodes and the binder, whose scheduler is the test; time is moved by the test. */
import { createAdmission } from "../../src/apiserver/admission/createAdmission.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { type BinderPartOptions, binderComponent } from "../../src/control/bind/binderComponent.ts";
import type { Component } from "../../src/control/runtime/component.ts";
import { Controllers } from "../../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { schedulerComponent } from "../../src/control/schedule/schedulerComponent.ts";
import { reservationDefaults as binderReservation, newReservation } from "../../src/decide/bind/reservation.ts";
import { fastDelays } from "../../src/kubelet/pods/podPlan.ts";
import { reservationDefaults } from "../../src/kubelet/pods/reservationAgent.ts";
import { nodesComponent } from "../../src/kubelet/run/nodesComponent.ts";
import type { ConfigMap, Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Profile } from "../../src/model/profiles/profile.ts";
import { parsePool, profilesWith } from "../../src/model/profiles/profiles.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { type BindRequest, bindRequestApiVersion } from "../../src/model/scheduling/bindRequest.ts";
import { isReservationPod } from "../../src/model/scheduling/keys.ts";
import { type PodGroup, podGroupApiVersion } from "../../src/model/scheduling/podGroup.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { settle } from "../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../testing/control/faultyKube.ts";
import { KeptLog } from "../../testing/control/keptLog.ts";

const requests = "scheduling.run.ai/bindrequests";

export class BindCluster {
  readonly api: TestApi;
  /** Every reservation pod that was ever deleted. */
  readonly lost: string[] = [];
  readonly log = new KeptLog();
  readonly metrics = new MemoryMetrics();
  readonly kube: FaultyKube;
  readonly admin;
  private binder: Controllers | undefined;
  private binderKube: KubeApi | undefined;

  private constructor(api: TestApi) {
    this.api = api;
    const user = { username: "muster", groups: ["system:masters"] };
    this.kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: "muster" }));
    this.admin = inProcessKube(api.core, { user, fieldManager: "admin" });
    api.core.store.onEvent(({ current, previous }) => {
      const isGone =
        current.resource === "/pods" && api.core.store.get("/pods", current.namespace, current.name) === undefined;
      if (isGone && previous !== undefined && isReservationPod(previous.object())) this.lost.push(current.name);
    });
  }

  static async create(
    pools: readonly string[] = ["h100=1"],
    reservation: { readonly heartbeatMs?: number } = {},
    profiles: readonly Profile[] = [],
  ): Promise<BindCluster> {
    const hooks = binderComponent().hooks ?? [];
    const api = await TestApi.start({ admission: createAdmission({ hooks }) });
    const cluster = new BindCluster(api);
    const { component: nodes } = nodesComponent({
      pools: pools.map((text) => parsePool(text, profilesWith(profiles))),
      profiles: profilesWith(profiles),
      seed: "s",
      delays: fastDelays,
      reservation: { ...reservationDefaults, ...reservation },
    });
    const components = [nodes, binderComponent(), schedulerComponent()];
    const definitions = new Map(
      components.flatMap((component) => component.definitions ?? []).map((each) => [each.metadata.name, each]),
    );
    for (const definition of definitions.values()) {
      await api.create("apiextensions.k8s.io/customresourcedefinitions", definition);
    }
    await api.settle();
    await api.create("/namespaces", {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "kai-resource-reservation" },
    });
    for (const name of ["kai-resource-reservation", "reserver"]) {
      const metadata = { name, namespace: "kai-resource-reservation" };
      await api.create("/serviceaccounts", { apiVersion: "v1", kind: "ServiceAccount", metadata });
    }
    const kubelets = cluster.controllers(cluster.admin);
    nodes.add(kubelets);
    const started = kubelets.start();
    await cluster.run(0.2);
    await started;
    return cluster;
  }

  /** The next binder uses the API through this. */
  through(wrap: (kube: KubeApi) => KubeApi): void {
    this.binderKube = wrap(this.kube);
  }

  /** Starts a binder; an earlier one is not asked to stop, as after a crash. */
  startBinder(options: BinderPartOptions = {}): Promise<Controllers> {
    return this.start(binderComponent(options));
  }

  async start(component: Component): Promise<Controllers> {
    this.binder = this.controllers(this.binderKube ?? this.kube);
    component.add(this.binder);
    const started = this.binder.start();
    await this.run(0.05);
    await started;
    return this.binder;
  }

  /** Starts the scheduler in a process of its own, with the queues that a cluster begins with. */
  async startScheduler(wrap: (kube: KubeApi) => KubeApi = (kube) => kube): Promise<void> {
    const component = schedulerComponent();
    for (const object of component.startObjects ?? []) {
      const resource = this.api.core.registry.kind(object.apiVersion, object.kind);
      const ref = {
        group: resource?.type.group ?? "",
        version: resource?.type.version ?? "",
        plural: resource?.type.plural ?? "",
      };
      await this.admin.create(ref, object);
    }
    const scheduler = this.controllers(wrap(this.admin));
    component.add(scheduler);
    const started = scheduler.start();
    await this.run(0.05);
    await started;
  }

  async pod(
    name: string,
    annotations: Record<string, string> = {},
    more: Record<string, unknown> = {},
    metadata: { readonly labels?: Record<string, string> } = {},
  ): Promise<Pod> {
    const created = await this.admin.create(builtin.Pod, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default", annotations, ...metadata },
      spec: { schedulerName: "kai-scheduler", containers: [{ name: "main", image: "i" }], ...more },
    });
    if (!created.ok) throw new Error(created.message);
    return created.value as unknown as Pod;
  }

  /** A pod that another binder has put into a group and on a node. */
  async boundByOther(name: string, annotations: Record<string, string>, node: string, group: string): Promise<Pod> {
    const pod = await this.pod(name, annotations);
    const ref = { ...builtin.Pod, namespace: "default", name };
    const labels = { "runai-gpu-group": group };
    const labelled = await this.admin.patch(ref, { type: "merge", body: { metadata: { labels } } });
    if (!labelled.ok) throw new Error(labelled.message);
    const bound = await this.admin.bind(ref, { node, uid: pod.metadata.uid ?? "" });
    if (!bound.ok) throw new Error(bound.message);
    return pod;
  }

  /** A group of pods that start together, each with a share. */
  async gang(
    name: string,
    members: number,
    annotations: Record<string, string>,
    more: (member: number) => Record<string, string> = () => ({}),
  ): Promise<void> {
    await this.api.create("scheduling.run.ai/podgroups", {
      apiVersion: podGroupApiVersion,
      kind: "PodGroup",
      metadata: { name, namespace: "default" },
      spec: { queue: "default-queue", minMember: members },
    });
    for (let member = 0; member < members; member++) {
      const all = { ...annotations, "pod-group-name": name, ...more(member) };
      await this.pod(`${name}-${member}`, all, { restartPolicy: "Never" });
    }
  }

  podGroups(): PodGroup[] {
    return this.all<PodGroup>("scheduling.run.ai/podgroups");
  }

  /** A reservation of an earlier binder, without holders. */
  async reserve(node: string, group: string): Promise<Pod> {
    const pod = newReservation({ node, group, users: [], options: binderReservation });
    const object = { ...pod, spec: { ...(pod["spec"] as object), nodeName: node } } as unknown as KubeObject;
    const made = await this.admin.create(builtin.Pod, object);
    if (!made.ok) throw new Error(made.message);
    return made.value as unknown as Pod;
  }

  async request(
    pod: Pod,
    spec: NonNullable<BindRequest["spec"]>,
    annotations: Record<string, string> = {},
  ): Promise<void> {
    const { name, uid } = pod.metadata;
    await this.api.create(requests, {
      apiVersion: bindRequestApiVersion,
      kind: "BindRequest",
      metadata: {
        name,
        namespace: "default",
        annotations,
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid }],
      },
      spec: { podName: name, receivedGPU: { count: 1, portion: "0.25" }, receivedResourceType: "Fraction", ...spec },
    });
  }

  async label(node: string, labels: Record<string, string | null>): Promise<void> {
    const ref = { ...builtin.Node, namespace: "", name: node };
    const outcome = await this.admin.patch(ref, { type: "merge", body: { metadata: { labels } } });
    if (!outcome.ok) throw new Error(outcome.message);
  }

  eventReasons(): string[] {
    return this.all<{ reason: string }>("/events").map(({ reason }) => reason);
  }

  async run(seconds: number): Promise<void> {
    for (let at = 0; at < Math.ceil(seconds * 20); at++) {
      await settle();
      await this.api.clock.advance(50);
      await settle();
    }
  }

  pods(): Pod[] {
    return this.all<Pod>("/pods").filter((pod) => !isReservationPod(pod));
  }

  reservations(): Pod[] {
    return this.all<Pod>("/pods").filter(isReservationPod);
  }

  phase(name: string): string {
    const { status } = (this.api.get(requests, `default/${name}`) as unknown as BindRequest | undefined) ?? {};
    return status?.phase ?? "";
  }

  requestOf(name: string): BindRequest | undefined {
    return this.api.get(requests, `default/${name}`) as unknown as BindRequest | undefined;
  }

  configMap(name: string): ConfigMap | undefined {
    return this.api.get("/configmaps", `default/${name}`) as unknown as ConfigMap | undefined;
  }

  private all<T>(resource: string): T[] {
    return this.api.names(resource).map((key) => this.api.get(resource, key) as unknown as T);
  }

  private controllers(kube: KubeApi): Controllers {
    const { clock } = this.api;
    const { log, metrics } = this;
    return new Controllers(
      { kube, clock, random: seededRandom(1), log, metrics },
      { fieldManager: "muster", freeze: true },
    );
  }
}
