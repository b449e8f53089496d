/** A cluster in memory with simulated nodes and the devices component, and a clock that the test moves. */
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { binderComponent } from "../../src/control/bind/binderComponent.ts";
import { DeviceCaches } from "../../src/control/devices/deviceCaches.ts";
import { type DevicesOptions, devicesComponent } from "../../src/control/devices/devicesComponent.ts";
import { Controllers } from "../../src/control/runtime/controllers.ts";
import { MemoryMetrics } from "../../src/control/runtime/memoryMetrics.ts";
import { schedulerComponent } from "../../src/control/schedule/schedulerComponent.ts";
import type { DevicesDescription } from "../../src/decide/devices/describeDevices.ts";
import { fastDelays } from "../../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../../src/kubelet/run/nodesComponent.ts";
import type { NodesOptions } from "../../src/kubelet/run/nodesOptions.ts";
import type { Pod, ResourceClaim, ResourceClaimSpec } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { parsePool, profilesWith } from "../../src/model/profiles/profiles.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../testing/control/faultyKube.ts";
import { KeptLog } from "../../testing/control/keptLog.ts";

/** The scheduler chooses devices, the binder writes them into claims. */
const allocators = [schedulerComponent({ allocatesDevices: true }), binderComponent()];

export interface DevicesClusterOptions {
  readonly pools?: readonly string[];
  readonly nodes?: Partial<NodesOptions>;
  readonly devices?: DevicesOptions;
}

export class DevicesCluster {
  readonly api: TestApi;
  readonly log = new KeptLog();
  readonly metrics = new MemoryMetrics();
  readonly kube: FaultyKube;
  private readonly controllers: Controllers;

  private constructor(api: TestApi, options: DevicesClusterOptions) {
    this.api = api;
    const user = { username: "muster", groups: ["system:masters"] };
    this.kube = new FaultyKube(inProcessKube(api.core, { user, fieldManager: "muster" }));
    this.controllers = new Controllers(
      { kube: this.kube, clock: api.clock, random: seededRandom(1), log: this.log, metrics: this.metrics },
      { fieldManager: "muster", freeze: true },
    );
    const pools = (options.pools ?? ["h100=1"]).map((text) => parsePool(text, profilesWith()));
    nodesComponent({ pools, seed: "s", delays: fastDelays, stages: false, ...options.nodes }).component.add(
      this.controllers,
    );
    devicesComponent(options.devices).add(this.controllers);
    for (const component of allocators) component.add(this.controllers);
  }

  static async start(options: DevicesClusterOptions = {}): Promise<DevicesCluster> {
    const api = await TestApi.start();
    const definitions = new Map(
      allocators.flatMap((component) => (component.definitions ?? []).map((each) => [each.metadata.name, each])),
    );
    for (const each of definitions.values()) await api.create("apiextensions.k8s.io/customresourcedefinitions", each);
    await api.settle();
    const cluster = new DevicesCluster(api, options);
    await api.create("resource.k8s.io/deviceclasses", {
      apiVersion: "resource.k8s.io/v1",
      kind: "DeviceClass",
      metadata: { name: "gpu" },
      spec: { selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }] },
    });
    await cluster.begin();
    return cluster;
  }

  /** A second process, on the cluster of an earlier one. */
  static async on(api: TestApi, options: DevicesClusterOptions = {}): Promise<DevicesCluster> {
    const cluster = new DevicesCluster(api, options);
    await cluster.begin();
    return cluster;
  }

  private async begin(): Promise<void> {
    const started = this.controllers.start();
    await this.run(0.1);
    await started;
    await this.run(0.5);
  }

  /** The devices that the process counts as allocated. */
  describe(): DevicesDescription | undefined {
    return this.controllers.known(DeviceCaches)?.describe();
  }

  async stop(): Promise<void> {
    const stopped = this.controllers.stop();
    await this.run(0.1);
    await stopped;
  }

  async run(seconds: number): Promise<void> {
    await this.api.clock.advance(seconds * 1000);
  }

  async template(name: string, spec: ResourceClaimSpec = oneGpu): Promise<void> {
    await this.api.create("resource.k8s.io/resourceclaimtemplates", {
      apiVersion: "resource.k8s.io/v1",
      kind: "ResourceClaimTemplate",
      metadata: { name, namespace: "default" },
      spec: { spec },
    });
  }

  async claim(name: string, spec: ResourceClaimSpec = oneGpu): Promise<void> {
    await this.api.create("resource.k8s.io/resourceclaims", {
      apiVersion: "resource.k8s.io/v1",
      kind: "ResourceClaim",
      metadata: { name, namespace: "default" },
      spec,
    });
  }

  async pod(name: string, use: { template?: string; claim?: string }, more: object = {}): Promise<void> {
    const from =
      use.template === undefined ? { resourceClaimName: use.claim } : { resourceClaimTemplateName: use.template };
    await this.api.create("/pods", {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default" },
      spec: {
        containers: [{ name: "c", image: "registry/app:1", resources: { claims: [{ name: "gpu" }] } }],
        resourceClaims: [{ name: "gpu", ...from }],
        ...more,
      },
    });
  }

  look(name: string): Pod | undefined {
    return this.api.get("/pods", `default/${name}`) as unknown as Pod | undefined;
  }

  claims(): ResourceClaim[] {
    return this.all<ResourceClaim>("resource.k8s.io/resourceclaims");
  }

  all<T = KubeObject>(resource: string): T[] {
    return [...this.api.core.store.collection(resource).all()].map((version) => version.object() as unknown as T);
  }

  phases(): string[] {
    return this.all<Pod>("/pods")
      .map(({ metadata, status, spec }) => `${metadata.name} ${spec?.nodeName ? status?.phase : "waits"}`)
      .sort();
  }

  /** `claim device`, of every claim that has one. */
  given(): string[] {
    return this.claims()
      .flatMap(({ metadata, status }) =>
        (status?.allocation?.devices?.results ?? []).map(({ pool, device }) => `${metadata.name} ${pool}/${device}`),
      )
      .sort();
  }
}

export const oneGpu: ResourceClaimSpec = {
  devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu" } }] },
};
