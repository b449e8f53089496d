import { nextBindStep } from "../../src/decide/devices/claims/bindClaim.ts";
import { deleteProtection } from "../../src/decide/devices/claims/podClaims.ts";
import { releaseClaim, withoutProtection } from "../../src/decide/devices/claims/releaseClaim.ts";
import { applyIntent } from "../../src/intents/applyIntent.ts";
import type { Intent } from "../../src/model/intent.ts";
import type { AllocationResult, Pod, ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import type { JsonObject } from "../../src/model/objects/json.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { ActorPorts } from "../../src/sim/actor.ts";
import { controllersProcess } from "../../src/sim/controllersProcess.ts";
import { addAllocators, allocatorComponents } from "../../src/sim/devices/allocators.ts";
import { allocatedIsProtected, deviceGivenOnce, devicePreparedOnce } from "../../src/sim/devices/invariants.ts";
import { type KubeletOptions, kubelet, type NodeMemory } from "../../src/sim/devices/kubelet.ts";
import { makePod, plain, podsRef, removePod, setUp } from "../../src/sim/devices/scenario.ts";
import { at, every, person, pod, process } from "../../src/sim/sceneKit.ts";
import { type Exhibit, scene } from "../exhibit.ts";

const claims = { group: "resource.k8s.io", version: "v1", plural: "resourceclaims" };
const allocation: AllocationResult = {
  devices: { results: [{ request: "gpu", driver: "gpu.example.com", pool: "n0", device: "d0" }] },
};

/** Writes with the version that was decided on or, with the bug, without it. */
async function write(ports: ActorPorts, intent: Intent, isGuarded: boolean): Promise<void> {
  if (isGuarded || (intent.type !== "update" && intent.type !== "status")) {
    await applyIntent(ports.kube, intent);
    return;
  }
  const { metadata, status } = intent.object as unknown as ResourceClaim;
  const body =
    intent.type === "status"
      ? { status: { allocation: null, reservedFor: null, ...status } }
      : { metadata: { finalizers: metadata.finalizers ?? null } };
  const ref = intent.type === "status" ? { ...intent.target, subresource: "status" } : intent.target;
  await ports.kube.patch(ref, { type: "merge", body: body as unknown as JsonObject });
}

async function look(ports: ActorPorts): Promise<ResourceClaim | undefined> {
  const found = await ports.kube.get(at(claims, "c"));
  return found.ok ? (found.value as unknown as ResourceClaim) : undefined;
}

const finalizerPlay = (variant: string, about: string, isGuarded: boolean) =>
  scene({
    slug: "lost-finalizer",
    variant,
    about,
    faults: ["slow-call", "conflict"],
    invariants: [allocatedIsProtected],
    setUp: async (kube) => {
      await kube.create(podsRef, pod("user"));
      const spec = { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu" } }] } };
      const claim = plain("resource.k8s.io/v1", "ResourceClaim", "c", { spec });
      const metadata = { ...claim.metadata, namespace: "default", finalizers: [deleteProtection] };
      await kube.create(claims, { ...claim, metadata } as KubeObject);
    },
    actors: () => [
      person("scheduler", async (ports) => {
        const found = await ports.kube.get(at(podsRef, "user"));
        if (!found.ok) return;
        const user = found.value as unknown as Pod;
        for (let round = 0; round < 60; round++) {
          const claim = await look(ports);
          if (claim !== undefined) {
            const { uid } = claim.metadata;
            const step = nextBindStep({ claim, uid, allocation, pod: user, nowMs: ports.clock.nowMs() });
            if (step.kind === "write") await write(ports, step.intent, isGuarded);
          }
          await ports.sleep(20);
        }
      }),
      process("controller", (ports) =>
        // Deallocates the claim whenever it is allocated, and then removes the finalizer.
        every(ports, 35, async () => {
          const claim = await look(ports);
          if (claim === undefined) return;
          if (claim.status?.allocation === undefined) {
            if (claim.metadata.finalizers?.includes(deleteProtection) === true) {
              await write(ports, withoutProtection(claim), isGuarded);
            }
            return;
          }
          const verdict = releaseClaim({ claim, podOf: () => "gone", nodeOf: () => "gone" });
          if (verdict.kind === "write") await write(ports, verdict.intent, isGuarded);
        }),
      ),
    ],
  });

export const lostFinalizer: Exhibit = {
  number: 4,
  slug: "lost-finalizer",
  title: "A claim is allocated between its release and the removal of its finalizer",
  source: "kubernetes/kubernetes#124931",
  invariant: "I5",
  story: `
  controller                         API                            scheduler
  clear the allocation          -->  C: no allocation, finalizer
                                                                    reads C: it has its finalizer
  remove the finalizer          -->  C: no finalizer
                                     C: allocated, no finalizer <-- writes the allocation
                                                                    deleting C now frees a device in use
  Each write names the version it was decided on: the second one conflicts, and everything is looked at again.`,
  fixed: {
    name: "fixed",
    about: "every write carries the version",
    scenario: finalizerPlay("fixed", "the product's steps", true),
  },
  buggy: [
    {
      name: "bare-patches",
      about: "the same steps, written without the version that they were decided on",
      scenario: finalizerPlay("bare-patches", "no preconditions", false),
      firstSeeds: 20,
      schedule: [],
    },
  ],
};

const forcePlay = (
  slug: string,
  variant: string,
  about: string,
  options: KubeletOptions,
  act: (ports: ActorPorts) => Promise<void>,
) =>
  scene({
    slug,
    variant,
    about,
    components: allocatorComponents,
    faults: ["watch-delay", "slow-call"],
    invariants: [deviceGivenOnce, devicePreparedOnce],
    ignoredForQuiescence: ["/events"],
    setUp: (kube) => setUp(kube, { nodes: 1, devices: 1 }),
    actors: () => {
      const memory: NodeMemory = { prepared: new Map(), running: new Map() };
      return [
        controllersProcess("scheduler", (controllers) => void addAllocators(controllers)),
        kubelet("kubelet", memory, options),
        person("user", act),
      ];
    },
  });

const replace = async (ports: ActorPorts): Promise<void> => {
  await makePod(ports, "old");
  await ports.sleep(1_000);
  await makePod(ports, "new");
  await removePod(ports, "old", true);
};

export const forceDelete: Exhibit = {
  number: 5,
  slug: "force-delete",
  title: "A device is allocated to the next pod while the program of the last one still uses it",
  source: "kubernetes/kubernetes#141471",
  invariant: "I1",
  story: `
  user                 API                                node
  delete old by force  old is gone                        old's program still runs on d0
                       old's claim is cleared: d0 is free
                       new's claim gets d0                prepares d0 for new      <-- two programs
                                                          lets go of d0 for old
  A device is free when its node has said so, or is fenced: the last reservation stays until then.`,
  fixed: {
    name: "fixed",
    about: "the node reports prepared devices, and the claim is kept until they are unprepared",
    scenario: forcePlay("force-delete", "fixed", "release confirmed by the node", { stopMs: 1_500 }, replace),
  },
  buggy: [
    {
      name: "node-is-not-asked",
      about: "the node's report of what it has prepared is ignored",
      scenario: forcePlay(
        "force-delete",
        "node-is-not-asked",
        "release without confirmation by the node",
        { stopMs: 1_500, mistakes: ["says-nothing"] },
        replace,
      ),
      firstSeeds: 5,
      schedule: [],
    },
  ],
};

/** Two pods share a claim; the second one is deleted before it ever started. */
const shareAndLeave = async (ports: ActorPorts): Promise<void> => {
  const spec = { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu" } }] } };
  const claim = plain("resource.k8s.io/v1", "ResourceClaim", "shared", { spec });
  await ports.kube.create(claims, { ...claim, metadata: { ...claim.metadata, namespace: "default" } });
  const uses = (name: string, more: object = {}) => {
    const each = plain("v1", "Pod", name, {
      spec: {
        containers: [{ name: "main", image: "i", resources: { claims: [{ name: "gpu" }] } }],
        resourceClaims: [{ name: "gpu", resourceClaimName: "shared" }],
        ...more,
      },
    });
    return { ...each, metadata: { ...each.metadata, namespace: "default" } };
  };
  await ports.kube.create(podsRef, uses("first"));
  await ports.sleep(1_000);
  // The pod never gets a node, so it never holds a device.
  await ports.kube.create(podsRef, uses("second", { nodeSelector: { no: "such-node" } }));
  await ports.sleep(300);
  await removePod(ports, "second", true);
};

export const wrongUnprepare: Exhibit = {
  number: 6,
  slug: "wrong-unprepare",
  title: "The deletion of a pod that never started unprepares the shared claim of another pod",
  source: "kubernetes/kubernetes#140212",
  invariant: "I14",
  story: `
  user                    node
  first starts            prepares the claim for first
  second is made; it has
  not passed validation
  second is deleted       second is over: lets go of its claims   <-- first's program runs on a device that is let go of
  Only who was a holder can let go: the node asks its own memory of programs, not the list of a pod's claims.`,
  fixed: {
    name: "fixed",
    about: "the node unprepares a claim when none of its programs uses it",
    scenario: forcePlay("wrong-unprepare", "fixed", "holders are asked", { stopMs: 300 }, shareAndLeave),
  },
  buggy: [
    {
      name: "releases-what-it-names",
      about: "every claim of a deleted pod is unprepared",
      scenario: forcePlay(
        "wrong-unprepare",
        "releases-what-it-names",
        "names are taken for holders",
        { stopMs: 300, mistakes: ["releases-unused-claims"] },
        shareAndLeave,
      ),
      firstSeeds: 5,
      schedule: [],
    },
  ],
};
