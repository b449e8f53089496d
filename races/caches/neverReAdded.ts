import { fastDelays } from "../../src/kubelet/pods/podPlan.ts";
import { nodesComponent } from "../../src/kubelet/run/nodesComponent.ts";
import type { Node } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { findProfile, profilesWith } from "../../src/model/profiles/profiles.ts";
import type { ActorSpec } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import type { Invariant } from "../../src/sim/invariant.ts";
import { at, kinds, person, plain, repeating } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const gpu = "nvidia.com/gpu";
const handshake = "example.com/node-handshake";
const profiles = profilesWith();

const devicesComeBack: Invariant = {
  id: "I15",
  fact: "at rest a healthy node offers all its devices",
  begin: ({ store }) => ({
    atRest: () => {
      for (const version of store.collection("/nodes").all()) {
        const { metadata, status } = version.object() as unknown as Node;
        const [has, offers] = [status?.capacity?.[gpu], status?.allocatable?.[gpu]];
        if (has !== offers) return `${metadata.name} has ${has} GPUs and offers only ${offers}`;
      }
      return undefined;
    },
  }),
};

/** The bug: the agent only answers requests, and an unregistered node gets no more requests. */
const answersRequestsOnly = repeating("agent", 40, [kinds.nodes], async ({ outside: kube }, [nodes]) => {
  for (const [name, node] of nodes?.view().objects ?? []) {
    if (node.metadata.annotations?.[handshake] !== "Requesting") continue;
    const { capacity = {} } = (node["status"] ?? {}) as { capacity?: Record<string, string> };
    const body = { metadata: { annotations: { [handshake]: "Reported" } } };
    await kube.patch(at(kinds.nodes, name), { type: "merge", body });
    const status = { status: { allocatable: { [gpu]: capacity[gpu] ?? "0" } } };
    await kube.patch({ ...at(kinds.nodes, name), subresource: "status" }, { type: "merge", body: status });
  }
});

/** Reports the devices of the node whenever the registry differs, without a request. */
const saysWhatThereIs: ActorSpec = controllersProcess("agent", (controllers) =>
  nodesComponent({
    pools: [{ name: "n", profile: findProfile(profiles, "t4"), count: 1 }],
    profiles,
    delays: fastDelays,
    events: "none",
    leaseSeconds: 8,
    heartbeatMs: 3_600_000,
    dra: undefined,
    stages: false,
  }).component.add(controllers),
);

/** The device registry: polls the node, and unregisters it when no answer arrives in time. */
const register = person("register", async (ports) => {
  const ref = at(kinds.nodes, "n-0");
  for (let round = 0; round < 6; round++) {
    await ports.sleep(300);
    const found = await ports.kube.get(ref);
    if (!found.ok || found.value.metadata.annotations?.[handshake] === "Deleted") continue;
    await ports.kube.patch(ref, { type: "merge", body: { metadata: { annotations: { [handshake]: "Requesting" } } } });
    await ports.sleep(200);
    const asked = await ports.kube.get(ref);
    if (!asked.ok || asked.value.metadata.annotations?.[handshake] !== "Requesting") continue;
    await ports.kube.patch(ref, { type: "merge", body: { metadata: { annotations: { [handshake]: "Deleted" } } } });
    const body = { status: { allocatable: { [gpu]: "0" } } };
    await ports.kube.patch({ ...ref, subresource: "status" }, { type: "merge", body });
  }
});

const play = (variant: string, agent: ActorSpec) =>
  scene({
    slug: "never-re-added",
    variant,
    about: "a registry unregisters a healthy node that answered too slowly",
    faults: ["watch-delay", "slow-call", "slow-timer"],
    invariants: [devicesComeBack],
    setUp: async (kube) => {
      for (const name of ["kube-node-lease", "kube-system"]) {
        await kube.create(kinds.namespaces, plain("v1", "Namespace", "", name));
      }
      const annotations = { "kwok.x-k8s.io/node": "fake", "sim.muster.dev/profile": "t4" };
      const counts = { cpu: "8", memory: "64Gi", pods: "110", [gpu]: "4" };
      const status = { capacity: counts, allocatable: counts, phase: "Running" };
      await kube.create(
        kinds.nodes,
        plain("v1", "Node", "", "n-0", { metadata: { annotations }, status }) as KubeObject,
      );
    },
    actors: () => [agent, register],
    ignoredForQuiescence: ["coordination.k8s.io/leases"],
  });

export const neverReAdded: Exhibit = {
  number: 38,
  slug: "never-re-added",
  title: "A node that was slow once is unregistered, and never registered again",
  source: "Project-HAMi/HAMi#1839, #1843",
  invariant: "I15",
  story: `
  register                         node object               agent on the node
  "Requesting"               -->   Requesting                (rebooting, or its watch is late)
  no answer: struck off      -->   Deleted, 0 devices
                                                             sees "Deleted": no request, so it says nothing
  "Deleted" is not asked           healthy, 0 devices, for ever

  A node says what it has whenever that is not what stands there, whatever wrote it and why.`,
  fixed: {
    name: "fixed",
    about: "the node reports its devices without a request",
    scenario: play("fixed", saysWhatThereIs),
  },
  buggy: [
    {
      name: "answers-requests-only",
      about: "the node only answers requests",
      scenario: play("answers-requests-only", answersRequestsOnly),
      firstSeeds: 60,
      schedule: [{ key: "agent|watch|/nodes#1|MODIFIED|n-0#1|watch-delay", value: 489_541 }],
    },
  ],
};
