import type { Node } from "../../model/kubernetes.generated.ts";
import type { Unstored } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { controllersProcess } from "../controllersProcess.ts";
import type { Invariant } from "../invariant.ts";
import { cachesAreComplete, changesWhatItSaw, neverGoesBack } from "../invariants/general.ts";
import { oneEpochWrites } from "../invariants/leadership.ts";
import { type Scenario, watchesRestMs } from "../scenario.ts";
import { labelGpuNodes } from "./labelGpuNodes.ts";

const nodes = builtin.Node;
const controllers = ["ann", "bob"];
const held = (actor: string): boolean => controllers.includes(actor);

/** What the controller is for, asked when everything has come to rest. */
const labelsAreTrue: Invariant = {
  id: "I17",
  fact: "at rest every node's label says how many GPUs it has",
  begin: ({ store }) => ({
    atRest: () => {
      for (const version of store.collection("/nodes").all()) {
        const { metadata, status } = version.object() as Node;
        const [gpus, label] = [status?.capacity?.["nvidia.com/gpu"], metadata.labels?.["muster.dev/gpus"]];
        if (label !== gpus) return `${version.name} has ${gpus} GPUs and is labelled ${label}`;
      }
      return undefined;
    },
  }),
};

/** Two processes of which one leads, and a user who swaps GPUs, under every fault. */
export const gpuLabels: Scenario = {
  name: "gpu-labels",
  about: "a controller labels nodes with their GPUs while a technician swaps them",
  setUp: async (kube) => {
    // A scenario begins with an empty store: the lease needs its namespace.
    await kube.create(builtin.Namespace, plain("Namespace", "default"));
    await kube.create(nodes, plain("Node", "n1"));
    await kube.create(nodes, plain("Node", "n2"));
  },
  actors: () => [
    ...controllers.map((name) =>
      controllersProcess(name, labelGpuNodes, { lease: { namespace: "default", name: "gpu-labels" } }),
    ),
    {
      name: "technician",
      finite: true,
      isExemptFromFaults: true,
      run: async (ports) => {
        for (let swap = 0; swap < 12; swap++) {
          await ports.sleep(1_000);
          // 0 means that nothing happens: so shrinking can take a swap out.
          const gpus = ports.choose("swap", (dice) => dice.between(1, 8));
          if (gpus === 0) continue;
          const node = { ...nodes, namespace: "", name: gpus % 2 === 0 ? "n1" : "n2", subresource: "status" };
          await ports.kube.patch(node, {
            type: "merge",
            body: { status: { capacity: { "nvidia.com/gpu": `${gpus}` } } },
          });
        }
      },
    },
  ],
  invariants: [
    labelsAreTrue,
    changesWhatItSaw(held),
    oneEpochWrites(held, "gpu-labels"),
    neverGoesBack,
    cachesAreComplete,
  ],
  faultPhaseMs: 14_000,
  settleMs: 200_000,
  quietMs: watchesRestMs,
  ignoredForQuiescence: ["coordination.k8s.io/leases"],
};

function plain(kind: string, name: string): Unstored {
  return { apiVersion: "v1", kind, metadata: { name } };
}
