/** A cluster in memory with simulated nodes, the scheduler and the binder; time is moved by the test. */
import { createAdmission } from "../../src/apiserver/admission/createAdmission.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { binderComponent } from "../../src/control/bind/binderComponent.ts";
import type { Component } from "../../src/control/runtime/component.ts";
import { Controllers } from "../../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { schedulerComponent } from "../../src/control/schedule/schedulerComponent.ts";
import type { ShardOptions } from "../../src/control/schedule/shard.ts";
import { workloads } from "../../src/control/workloads/workloads.ts";
import { leanPod } from "../../src/decide/schedule/cluster/leanPod.ts";
import type { Settings } from "../../src/decide/schedule/settings.ts";
import { fastDelays } from "../../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../../src/kubelet/run/nodesComponent.ts";
import type { NodesOptions } from "../../src/kubelet/run/nodesOptions.ts";
import type { Pod } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { parsePool, profilesWith } from "../../src/model/profiles/profiles.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { isReservationPod } from "../../src/model/scheduling/keys.ts";
import type { PodGroup } from "../../src/model/scheduling/podGroup.ts";
import type { Queue } from "../../src/model/scheduling/queue.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { settle } from "../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../testing/control/faultyKube.ts";
import { KeptLog } from "../../testing/control/keptLog.ts";

export class ScheduleCluster {
  readonly api: TestApi;
  readonly log = new KeptLog();
  readonly metrics = new MemoryMetrics();
  readonly kube: FaultyKube;
  readonly admin;
  private readonly processes: Controllers[] = [];

  private constructor(api: TestApi) {
    this.api = api;
    const user = { username: "muster", groups: ["system:masters"] };
    this.kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: "muster" }));
    this.admin = inProcessKube(api.core, { user, fieldManager: "admin" });
  }

  static async create(
    pools: readonly string[] = ["h100=2"],
    settings: Partial<Settings> = {},
    more: {
      readonly nodes?: Partial<NodesOptions>;
      readonly components?: readonly Component[];
      readonly shard?: ShardOptions;
      /** What stands between the controllers and the API; not for nodes. */
      readonly between?: (kube: KubeApi) => KubeApi;
      /** The scheduler begins with `lead`, and not before. */
      readonly isLate?: boolean;
    } = {},
  ): Promise<ScheduleCluster> {
    const scheduler = schedulerComponent(settings, more.shard);
    const binder = binderComponent();
    const { component: nodes } = nodesComponent({
      pools: pools.map((text) => parsePool(text, profilesWith())),
      seed: "s",
      delays: fastDelays,
      ...more.nodes,
    });
    const hooks = [...(scheduler.hooks ?? []), ...(binder.hooks ?? [])];
    const api = await TestApi.start({ admission: createAdmission({ hooks }) });
    const cluster = new ScheduleCluster(api);
    const seen = new Set<string>();
    for (const definition of [
      ...(nodes.definitions ?? []),
      ...(scheduler.definitions ?? []),
      ...(binder.definitions ?? []),
    ]) {
      if (seen.has(definition.metadata.name)) continue;
      seen.add(definition.metadata.name);
      await api.create("apiextensions.k8s.io/customresourcedefinitions", definition);
    }
    await api.settle();
    await api.create("/namespaces", {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "kai-resource-reservation" },
    });
    const reserver = { name: "kai-resource-reservation", namespace: "kai-resource-reservation" };
    await api.create("/serviceaccounts", { apiVersion: "v1", kind: "ServiceAccount", metadata: reserver });
    for (const object of scheduler.startObjects ?? []) {
      await api.create(
        object.kind === "Queue" ? "scheduling.run.ai/queues" : "scheduling.k8s.io/priorityclasses",
        object,
      );
    }
    // Parts that know of each other's decisions are in one process.
    await cluster.start([nodes]);
    await cluster.start([workloads], more);
    const schedulers = [scheduler, ...(more.components ?? [])];
    cluster.lead = () => cluster.start(schedulers, { ...more, holder: "a" });
    if (more.isLate !== true) await cluster.start(schedulers, more);
    await cluster.start([binder], more);
    return cluster;
  }

  /** Starts the scheduler, which takes the lease. */
  lead: () => Promise<void> = async () => {};

  /** Nodes run pods; everybody else can do with what is decided on. */
  private async start(
    components: readonly Component[],
    others?: { readonly between?: (kube: KubeApi) => KubeApi; readonly holder?: string },
  ): Promise<void> {
    const controllers = this.controllers(others !== undefined, others?.between, others?.holder);
    this.processes.push(controllers);
    for (const component of components) component.add(controllers);
    const started = controllers.start();
    await this.run(0.2);
    await started;
  }

  /** What happens when metrics are read. */
  measure(): void {
    for (const controllers of this.processes) controllers.measure();
  }

  async create(resource: string, object: unknown): Promise<KubeObject> {
    return await this.api.create(resource, object as KubeObject);
  }

  async pod(
    name: string,
    more: {
      gpus?: number;
      annotations?: Record<string, string>;
      labels?: Record<string, string>;
      spec?: object;
      scheduler?: string;
    } = {},
  ): Promise<Pod> {
    const { gpus = 0, annotations = {}, labels = {}, spec = {}, scheduler = "kai-scheduler" } = more;
    const requests = { cpu: "1", memory: "1Gi", ...(gpus > 0 && { "nvidia.com/gpu": String(gpus) }) };
    const limits = gpus > 0 ? { "nvidia.com/gpu": String(gpus) } : {};
    const created = await this.admin.create(builtin.Pod, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default", annotations, labels },
      spec: {
        schedulerName: scheduler,
        containers: [{ name: "main", image: "i", resources: { requests, limits } }],
        ...spec,
      },
    });
    if (!created.ok) throw new Error(created.message);
    return created.value as unknown as Pod;
  }

  async group(name: string, spec: object): Promise<void> {
    await this.create("scheduling.run.ai/podgroups", {
      apiVersion: "scheduling.run.ai/v2alpha2",
      kind: "PodGroup",
      metadata: { name, namespace: "default" },
      spec: { queue: "default-queue", ...spec },
    });
  }

  async queue(name: string, spec: object): Promise<void> {
    await this.create("scheduling.run.ai/queues", {
      apiVersion: "scheduling.run.ai/v2",
      kind: "Queue",
      metadata: { name },
      spec,
    });
  }

  /** `refuses`: whether a node may have to refuse a pod, because of a fault. */
  async run(seconds: number, { refuses = false } = {}): Promise<void> {
    for (let at = 0; at < Math.ceil(seconds * 20); at++) {
      await settle();
      await this.api.clock.advance(50);
      await settle();
    }
    if (!refuses) this.assertAdmitted();
  }

  /** Whatever is decided, no node may have to refuse it. */
  private assertAdmitted(): void {
    const refused = this.all<Pod>("/pods").filter(({ status }) =>
      /^(UnexpectedAdmission|OutOf)/.test(status?.reason ?? ""),
    );
    if (refused.length === 0) return;
    throw new Error(refused.map(({ metadata, status }) => `${metadata.name}: ${status?.reason}`).join());
  }

  pods(): Pod[] {
    return this.all<Pod>("/pods").filter((pod) => !isReservationPod(pod));
  }

  pod1(name: string): Pod {
    return this.api.get("/pods", `default/${name}`) as unknown as Pod;
  }

  groups(): PodGroup[] {
    return this.all<PodGroup>("scheduling.run.ai/podgroups");
  }

  queue1(name: string): Queue {
    return this.api.get("scheduling.run.ai/queues", name) as unknown as Queue;
  }

  requests(): KubeObject[] {
    return this.all<KubeObject>("scheduling.run.ai/bindrequests");
  }

  events(): { reason?: string; message?: string; note?: string }[] {
    return this.all("/events");
  }

  all<T>(resource: string): T[] {
    return this.api.names(resource).map((key) => this.api.get(resource, key) as unknown as T);
  }

  private controllers(
    isLean: boolean,
    between: (kube: KubeApi) => KubeApi = (kube) => kube,
    holder?: string,
  ): Controllers {
    const { clock } = this.api;
    const { log, metrics } = this;
    const kube = between(this.kube);
    return new Controllers(
      { kube, clock, random: seededRandom(1), log, metrics },
      {
        fieldManager: "muster",
        freeze: true,
        ...(holder !== undefined && { lease: { namespace: "kube-system", name: "muster", identity: holder } }),
        ...(isLean && { transforms: { "/pods": (pod) => leanPod(pod as unknown as Pod) } }),
      },
    );
  }
}

/** Keeps calls of controllers in their client until they are let go; a call is `verb plural name`. */
export function holdCalls(
  cluster: ScheduleCluster,
  isHeld: (call: string) => boolean,
): { held: string[]; open: () => void } {
  const held: string[] = [];
  let open: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  cluster.kube.faults = {
    hold: (verb, what) => {
      const call = `${verb} ${what}`;
      if (!isHeld(call)) return undefined;
      held.push(call);
      return opened;
    },
  };
  return {
    held,
    open: () => {
      cluster.kube.faults = {};
      open();
    },
  };
}

/** Between controllers and the API: what happens to a kind is told only when it is let go, in order. */
export function lateNews(plural: string): { between: (kube: KubeApi) => KubeApi; hold: () => void; open: () => void } {
  let isHeld = false;
  const waiting: (() => void)[] = [];
  const between = (kube: KubeApi): KubeApi => {
    const watch: KubeApi["watch"] = (kind, options, sink) =>
      kube.watch(kind, options, {
        event: (event) => {
          if (isHeld && kind.plural === plural) waiting.push(() => sink.event(event));
          else sink.event(event);
        },
        ended: (why) => sink.ended(why),
      });
    return Object.create(kube, { watch: { value: watch } }) as KubeApi;
  };
  return {
    between,
    hold: () => {
      isHeld = true;
    },
    open: () => {
      isHeld = false;
      for (const tell of waiting.splice(0)) tell();
    },
  };
}
