import { NewestOf } from "../../control/cache/newestOf.ts";
import type { Component } from "../../control/runtime/component.ts";
import type { Controllers } from "../../control/runtime/controllers.ts";
import { EventRecorder } from "../../control/runtime/eventRecorder.ts";
import { kindSource, type Source } from "../../control/runtime/sources.ts";
import type {
  EventSource,
  Lease,
  Node,
  Pod,
  PodSpec,
  ResourceClaim,
  ResourceSlice,
} from "../../model/kubernetes.generated.ts";
import { stageDefinition } from "../../model/kwok/definitions.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { PodAgent } from "../../ports/podAgent.ts";
import { sliceName } from "../devices/draDriver.ts";
import { type ApiPressure, apiPressureAt } from "../node/faults.ts";
import { nodesOfClaim } from "../pods/claimLife.ts";
import { FaultRegistry, faultMap } from "./faultRegistry.ts";
import { type DraContext, type KubeletContext, kinds, recordEvent } from "./kubeletContext.ts";
import { type NodesOptions, nodesDefaults } from "./nodesOptions.ts";
import { RegisterNodes } from "./registerNodes.ts";
import { SimNodes } from "./simNodes.ts";
import { SimPodAgent } from "./simPodAgent.ts";
import { StageObjects } from "./stageObjects.ts";
import { StageRegistry } from "./stageRegistry.ts";
import { TaintBesideReal } from "./taintBesideReal.ts";
import { Wakes } from "./wakes.ts";

export interface Nodes {
  readonly component: Component;
  /** Serves logs, exec and usage of the containers through the embedded server. */
  readonly agent: PodAgent;
  /** The current API disturbance, which the embedded server applies. */
  pressure(): ApiPressure | undefined;
  /** Releases the leases after everything has stopped, so that the next simulator need not wait until they expire. */
  release(kube: KubeApi): Promise<void>;
}

/** Simulated nodes as a component of the control plane. Options default to `nodesDefaults`. */
export function nodesComponent(given: Partial<NodesOptions> = {}): Nodes {
  const options: NodesOptions = { ...nodesDefaults, ...given };
  const agent = new SimPodAgent();
  let added: { readonly context: KubeletContext; readonly sim: SimNodes } | undefined;
  const component: Component = {
    name: "nodes",
    about: "simulated nodes: they act like kubelets with GPUs, without running containers",
    ...(options.stages ? { definitions: [stageDefinition] } : {}),
    add: (controllers) => {
      added = addNodes(controllers, options, agent);
    },
  };
  return {
    component,
    agent,
    pressure: () => {
      const faults = added?.context.faults.ofCluster.faults ?? [];
      return faults.length === 0 || added === undefined
        ? undefined
        : apiPressureAt(faults, added.context.ports.clock.nowMs());
    },
    release: async (kube) => added?.sim.release(kube),
  };
}

/** As a kubelet reports: the host is the pod's node, or the node that the Event is about. */
function kubeletSource({ kind, metadata, spec }: KubeObject): EventSource {
  const host = kind === "Node" ? metadata.name : (spec as PodSpec | undefined)?.nodeName;
  return { component: "kubelet", ...(host !== undefined && { host }) };
}

function addNodes(
  controllers: Controllers,
  options: NodesOptions,
  agent: SimPodAgent,
): { context: KubeletContext; sim: SimNodes } {
  // The unfenced verbs are for simulated kubelets: real ones write without a precondition, too.
  const ports = { ...controllers.ports, kube: controllers.outside };
  const nodes = controllers.cache<Node>(kinds.nodes);
  const pods = controllers.cache<Pod>(kinds.pods);
  const leases = controllers.cache<Lease>(kinds.leases);
  const { namespace, name } = faultMap;
  const faultMaps = controllers.cache(kinds.configMaps, { namespace, fieldSelector: `metadata.name=${name}` });
  const recorder = new EventRecorder({
    ...ports,
    controller: "kubelet",
    instance: options.holder,
    sourceOf: kubeletSource,
  });
  const stages = new StageRegistry();
  const faults = new FaultRegistry();
  const context: KubeletContext = {
    ports,
    options,
    nodes: new NewestOf(nodes),
    leases: new NewestOf(leases),
    faults,
    recorder,
    dra: options.dra === undefined ? undefined : draWorld(controllers, options.dra.driver),
    stages: stages.byKind,
    preparedOn: new Map(),
    podCache: pods,
    startMs: ports.clock.nowMs(),
  };
  const sim = new SimNodes(context);
  agent.bind({
    clock: ports.clock,
    dra: options.dra,
    nodeAgent: (node) => sim.agent(node),
    pod: (key) => pods.get(key),
  });
  const quiet = (start: () => () => void): Source => ({ start });
  const sources: Source[] = [
    sim.channel,
    sim.wakes,
    sim.renewals,
    follows(nodes, (event) => sim.nodeChanged(event)),
    follows(leases, (event) => sim.leaseChanged(event)),
    follows(pods, (event) => sim.podChanged(event)),
    follows(faultMaps, ({ type, object }) => {
      faults.setCluster(type === "deleted" ? undefined : object);
      for (const problem of faults.ofCluster.problems) ports.log.warn({ problem }, "a fault is invalid");
      sim.everythingChanged();
    }),
    quiet(() => () => recorder.stop()),
  ];
  if (options.dra !== undefined) sources.push(...deviceSources(controllers, context, sim));
  if (options.stages) {
    const others = new StageObjects(controllers, context, new Wakes(ports.clock));
    controllers.add({
      name: "stages",
      sources: [others.channel, others.wakes],
      concurrency: options.concurrency,
      reconcile: (key, run) => others.reconcile(key, run),
    });
    sources.push(
      follows(controllers.cache(kinds.stages), (event) => {
        const message = stages.changed(event);
        if (message !== undefined) {
          ports.log.warn({ stage: event.key, problem: message }, "a stage is invalid");
          const { apiVersion, kind, metadata } = event.object;
          const regarding = { apiVersion, kind, namespace: "", name: metadata.name, uid: metadata.uid };
          recordEvent(context, { kind: "event", regarding, type: "Warning", reason: "InvalidStage", message });
        }
        others.stagesChanged();
        sim.everythingChanged();
      }),
    );
  }
  controllers.add({
    name: "nodes",
    sources,
    concurrency: options.concurrency,
    reconcile: (key, run) => sim.reconcile(key, run),
  });
  const register = new RegisterNodes(options, ports, nodes);
  controllers.add({
    name: "nodes-register",
    sources: [register.channel],
    concurrency: options.concurrency,
    reconcile: (key) => register.reconcile(key),
  });
  if (options.taintBesideReal) {
    const taints = new TaintBesideReal(ports, nodes);
    controllers.add({
      name: "nodes-taint",
      sources: taints.sources(),
      concurrency: options.concurrency,
      reconcile: (key) => taints.reconcile(key),
    });
  }
  return { context, sim };
}

/** A source whose handler decides which keys to enqueue. */
function follows<T extends KubeObject>(
  cache: ReturnType<typeof Controllers.prototype.cache<T>>,
  hear: Parameters<typeof cache.onEvent>[0],
): Source {
  return kindSource(cache, (event) => {
    hear(event);
    return [];
  });
}

function draWorld(controllers: Controllers, driver: string): DraContext {
  const slices = controllers.cache<ResourceSlice>(kinds.slices);
  const claims = controllers.cache<ResourceClaim>(kinds.claims);
  const ownSlices = new NewestOf(slices);
  const ownClaims = new NewestOf(claims);
  const byNode = slices.index(({ spec }) => (spec.driver === driver && spec.nodeName ? [spec.nodeName] : []));
  const byPool = claims.index((claim) => nodesOfClaim(claim, driver));
  const byUid = claims.index(({ metadata }) => [metadata.uid]);
  const keyOf = ({ metadata }: ResourceClaim) => `${metadata.namespace ?? ""}/${metadata.name}`;
  return {
    slices: ownSlices,
    claims: ownClaims,
    slicesOf: (node) => {
      const known = new Map<string, ResourceSlice>();
      for (const slice of byNode.get(node)) known.set(slice.metadata.name, ownSlices.get(slice.metadata.name) ?? slice);
      // Claims that are known only from answers so far.
      for (let i = 0; ; i++) {
        const unseen = ownSlices.get(sliceName(node, driver, i));
        if (unseen === undefined) return [...known.values()];
        known.set(unseen.metadata.name, unseen);
      }
    },
    claimsOf: (node) => byPool.get(node).flatMap((claim) => ownClaims.get(keyOf(claim)) ?? []),
    claimByUid: (uid) => {
      const claim = byUid.first(uid);
      const latest = claim === undefined ? undefined : ownClaims.get(keyOf(claim));
      return latest?.metadata.uid === uid ? latest : undefined;
    },
  };
}

function deviceSources(controllers: Controllers, context: KubeletContext, sim: SimNodes): Source[] {
  const driver = context.options.dra?.driver ?? "";
  const pods = controllers.cache<Pod>(kinds.pods);
  return [
    follows(controllers.cache<ResourceSlice>(kinds.slices), ({ object: { spec } }) => {
      if (spec.driver === driver && spec.nodeName) sim.devicesChanged(spec.nodeName, "slices");
    }),
    follows(controllers.cache<ResourceClaim>(kinds.claims), (event) => {
      const { object } = event;
      const concerned = new Set([
        ...nodesOfClaim(object, driver),
        ...(context.preparedOn.get(object.metadata.uid) ?? []),
      ]);
      if (event.type === "updated") for (const node of nodesOfClaim(event.before, driver)) concerned.add(node);
      for (const { resource, name } of object.status?.reservedFor ?? []) {
        if (resource !== "pods") continue;
        const node = pods.get(`${object.metadata.namespace ?? ""}/${name}`)?.spec?.nodeName;
        if (node) concerned.add(node);
      }
      for (const node of [...concerned].sort()) sim.devicesChanged(node, "claims");
    }),
  ];
}
