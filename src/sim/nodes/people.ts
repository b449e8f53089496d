import { draDefaults } from "../../kubelet/devices/draDevices.ts";
import type { Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import type { Unstored } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { seededBelow } from "../../model/values/seeded.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import type { Dice } from "../chance.ts";
import { type Act, simulatedUser } from "../simulatedUser.ts";

const podsKind = builtin.Pod;
const claimsKind = builtin.ResourceClaim;

export interface PeopleOptions {
  readonly acts: number;
  readonly spanMs: number;
  readonly nodes: readonly string[];
  readonly gpus: number;
}

/**
 * Users that bind pods and delete them gracefully or with force, and a node controller that treats a healthy node as
 * lost.
 */
export function people({ acts, spanMs, ...where }: PeopleOptions): ActorSpec {
  const own = actions.map(
    (act): Act =>
      (ports, dice) =>
        act(ports, dice, where),
  );
  return simulatedUser({ name: "people", acts, spanMs, actions: own });
}

type Where = Pick<PeopleOptions, "nodes" | "gpus">;

const actions: readonly ((ports: ActorPorts, dice: Dice, where: Where) => Promise<void>)[] = [
  place,
  place,
  place,
  (ports, dice) => removePod(ports, dice, 1),
  (ports, dice) => removePod(ports, dice, 0),
  // Force-delete and replace: the new pod needs the devices at once.
  async (ports, dice, where) => {
    await removePod(ports, dice, 0);
    await place(ports, dice, where);
  },
  placeWithClaim,
  placeWithClaim,
  // The claim's user is deleted by force, the claim is deallocated, and its device is allocated to another claim at
  // once.
  async (ports, dice, where) => {
    const pod = await anyPod(ports, dice, (each) => (each.spec?.resourceClaims ?? []).length > 0);
    if (pod === undefined) return;
    await remove(ports, pod, 0);
    await giveUpClaims(ports);
    await placeWithClaim(ports, dice, where);
  },
  giveUpClaims,
  // The node controller treats the node as lost.
  async (ports, dice) => {
    const pod = await anyPod(ports, dice, ({ status }) => status?.phase === "Running");
    if (pod === undefined) return;
    const conditions = (pod.status?.conditions ?? []).map((each) =>
      each.type === "Ready" ? { ...each, status: "False", reason: "NodeNotReady" } : each,
    );
    const ref = { ...podsKind, namespace: "default", name: pod.metadata.name, subresource: "status" };
    await ports.kube.update(ref, { ...pod, status: { ...pod.status, conditions } });
  },
];

async function place(ports: ActorPorts, dice: Dice, { nodes, gpus }: Where): Promise<void> {
  const name = `p${dice.below(6)}`;
  const node = nodes[dice.below(nodes.length)] ?? "";
  const limits = { "nvidia.com/gpu": String(1 + dice.below(gpus)) };
  await ports.kube.create(podsKind, podNamed(name, node, { resources: { limits } }));
}

/**
 * As a scheduler does: a claim, its allocation, a pod. Devices of other claims are not free.
 */
async function placeWithClaim(ports: ActorPorts, dice: Dice, { nodes, gpus }: Where): Promise<void> {
  const node = nodes[dice.below(nodes.length)] ?? "";
  const name = `c${dice.below(6)}`;
  const listed = await ports.kube.list(claimsKind);
  if (!listed.ok) return;
  const claims = listed.value.items;
  if (claims.some(({ metadata }) => metadata.name === name)) return;
  const isTaken = (device: string): boolean =>
    claims.some(({ status }) =>
      status?.allocation?.devices?.results?.some((each) => each.pool === node && each.device === device),
    );
  const device = Array.from({ length: gpus }, (_, index) => `gpu-${index}`).find((each) => !isTaken(each));
  if (device === undefined) return;
  const claim = await ports.kube.create(claimsKind, claimNamed(name));
  const pod = await ports.kube.create(
    podsKind,
    podNamed(name, node, {}, { resourceClaims: [{ name: "gpu", resourceClaimName: name }] }),
  );
  if (!claim.ok || !pod.ok) return;
  const results = [{ request: "r", driver: draDefaults.driver, pool: node, device }];
  const reservedFor = [{ resource: "pods", name, uid: pod.value.metadata.uid }];
  const ref = { ...claimsKind, namespace: "default", name, subresource: "status" };
  await ports.kube.update(ref, { ...claim.value, status: { allocation: { devices: { results } }, reservedFor } });
}

/** Deallocates and deletes claims without a user. */
async function giveUpClaims(ports: ActorPorts): Promise<void> {
  const claims = await ports.kube.list(claimsKind);
  const pods = await ports.kube.list(podsKind);
  if (!claims.ok || !pods.ok) return;
  for (const claim of claims.value.items) {
    const { name } = claim.metadata;
    const pod = pods.value.items.find(({ metadata }) => metadata.name === name);
    if (pod !== undefined && pod.status?.phase !== "Succeeded" && pod.status?.phase !== "Failed") continue;
    const ref = { ...claimsKind, namespace: "default", name };
    const cleared = await ports.kube.update({ ...ref, subresource: "status" }, { ...claim, status: {} });
    if (cleared.ok) await ports.kube.delete(ref, { preconditions: { uid: claim.metadata.uid } });
  }
}

async function removePod(ports: ActorPorts, dice: Dice, graceSeconds: number): Promise<void> {
  const pod = await anyPod(ports, dice, () => true);
  if (pod !== undefined) await remove(ports, pod, graceSeconds);
}

async function remove({ kube }: ActorPorts, { metadata }: Pod, gracePeriodSeconds: number): Promise<void> {
  const { name, uid } = metadata;
  await kube.delete({ ...podsKind, namespace: "default", name }, { preconditions: { uid }, gracePeriodSeconds });
}

async function anyPod({ kube }: ActorPorts, dice: Dice, isWanted: (pod: Pod) => boolean): Promise<Pod | undefined> {
  const listed = await kube.list(podsKind);
  if (!listed.ok) return undefined;
  const pods = listed.value.items.filter(isWanted);
  return pods.length === 0 ? undefined : pods[dice.below(pods.length)];
}

/** Commands that end or fail while devices are held. */
const commands: readonly (readonly string[] | undefined)[] = [
  undefined,
  ["sleep", "20"],
  ["sh", "-c", "sleep 3; exit 1"],
  ["sh", "-c", "nvidia-smi -L; sleep 8"],
];

function podNamed(name: string, nodeName: string, container: object, spec: object = {}): Unstored {
  const command = commands[seededBelow(commands.length, "command", name)];
  const containers = [{ name: "main", image: "registry/app:1", ...(command && { command }), ...container }];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default" },
    // Restarts would go on for ever, and the cluster would never be silent.
    spec: {
      nodeName,
      terminationGracePeriodSeconds: 1,
      ...(command && { restartPolicy: "Never" }),
      containers,
      ...spec,
    },
  };
}

function claimNamed(name: string): Unstored<ResourceClaim> {
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { name, namespace: "default" },
    spec: { devices: { requests: [{ name: "r", exactly: { deviceClassName: "gpu.nvidia.com" } }] } },
  };
}
