import type { Component } from "../../control/runtime/component.ts";
import { nodeObject, simNode } from "../../kubelet/node/simNode.ts";
import type { Delays } from "../../kubelet/pods/podPlan.ts";
import { nodesComponent } from "../../kubelet/run/nodesComponent.ts";
import type { NewObject } from "../../model/intent.ts";
import type { Node } from "../../model/kubernetes.generated.ts";
import type { Profile } from "../../model/profiles/profile.ts";
import { profilesWith } from "../../model/profiles/profiles.ts";
import { builtin } from "../../model/resources.generated.ts";
import { controllersProcess } from "../controllersProcess.ts";
import { faultKinds } from "../faults.ts";
import {
  cachesAreComplete,
  destroysTheSameObject,
  neverGoesBack,
  writesChangeSomething,
} from "../invariants/general.ts";
import { type Scenario, watchesRestMs } from "../scenario.ts";
import { devicesAddUp, heldUntilStopped, oneHolderOfADevice } from "./invariants.ts";
import { planNodeFaults } from "./nodeFaults.ts";
import { people } from "./people.ts";

const kubelets = ["ann", "bob"];
const held = (actor: string): boolean => kubelets.includes(actor);
const clusterSeed = "nodes";
export const gpusPerNode = 2;
const stopMs = 500;

const tiny: Profile = {
  name: "tiny",
  arch: "amd64",
  osImage: "Simulated Linux",
  cpu: "16",
  memory: "64Gi",
  storage: "100Gi",
  maxPods: 20,
  gpu: { product: "NVIDIA-T4", count: gpusPerNode, memoryMiB: 16_384, driver: "570.86.16" },
};

const fixed = (ms: number) => ({ minMs: ms, maxMs: ms });
const delays: Delays = {
  sandbox: fixed(20),
  start: fixed(40),
  initRun: fixed(50),
  jobRun: fixed(500),
  stop: fixed(stopMs),
};
const profiles = profilesWith([tiny]);
export const nodeNames = ["n-0", "n-1"];

/** Nodes whose leases expire after seconds, so that holders change within a run. */
const kubelet = (holder: string): Component =>
  nodesComponent({
    pools: [{ name: "n", profile: tiny, count: nodeNames.length }],
    profiles,
    seed: clusterSeed,
    holder,
    delays,
    events: "none",
    leaseSeconds: 4,
    heartbeatMs: 3_600_000,
    stages: false,
  }).component;

function nodeNamed(name: string, nowMs: number): NewObject<Node> {
  const index = nodeNames.indexOf(name);
  const sim = simNode({ clusterSeed, pool: "n", profile: tiny, index });
  return nodeObject(sim, { ordinal: index, nowMs });
}

/**
 * Two processes share the nodes by their leases while nodes fall silent, disappear, break and release devices slowly.
 * Clocks do not jump: a node's lease is compared with the wall clock, as kubelets and KWOK do it.
 */
export const nodesScenario: Scenario = {
  name: "nodes",
  about:
    "two simulators share nodes that flap, disappear, fail and release slowly, while pods and claims are created and deleted",
  planFaults: (simulation) =>
    planNodeFaults(simulation, { names: nodeNames, gpus: gpusPerNode, nodeObject: nodeNamed }),
  faults: faultKinds()
    .map(({ name }) => name)
    .filter((name) => name !== "clock-step"),
  setUp: async (kube) => {
    const namespaces = builtin.Namespace;
    for (const name of ["default", "kube-system", "kube-node-lease"]) {
      await kube.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata: { name } });
    }
  },
  actors: () => [
    ...kubelets.map((name) => controllersProcess(name, (controllers) => kubelet(name).add(controllers))),
    people({ acts: 30, spanMs: 18_000, nodes: nodeNames, gpus: gpusPerNode }),
  ],
  invariants: [
    oneHolderOfADevice,
    heldUntilStopped(held, stopMs),
    devicesAddUp(gpusPerNode),
    destroysTheSameObject(held),
    neverGoesBack,
    writesChangeSomething(held),
    cachesAreComplete,
  ],
  faultPhaseMs: 20_000,
  settleMs: 240_000,
  quietMs: watchesRestMs,
  ignoredForQuiescence: ["coordination.k8s.io/leases"],
};
