/** Devices of claims, from a BindRequest to the pod. */
import { describe, expect, test } from "vitest";
import type { Pod, ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { refused } from "../../src/model/outcome.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import { BindCluster } from "./bindCluster.ts";
import { noting, rightsIn } from "./rights.ts";

const claims = "resource.k8s.io/resourceclaims";
const protection = "resource.kubernetes.io/delete-protection";
const onNode = { selectedNode: "h100-0", receivedResourceType: "Regular" as const };

/** A device of a node, which only that node can reach. */
function deviceOn(node: string, device = "gpu-0") {
  return {
    devices: { results: [{ request: "gpu", driver: "gpu.example.com", pool: node, device }] },
    nodeSelector: {
      nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: [node] }] }],
    },
  };
}

async function withClaims(names: readonly string[] = ["c"], pools?: readonly string[]) {
  const cluster = await BindCluster.create(pools);
  for (const name of names) {
    await cluster.api.create(claims, {
      apiVersion: "resource.k8s.io/v1",
      kind: "ResourceClaim",
      metadata: { name, namespace: "default" },
      spec: { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu.example.com" } }] } },
    });
  }
  const user = (name: string, claim = "c") =>
    cluster.pod(name, {}, { resourceClaims: [{ name: "dev", resourceClaimName: claim }] });
  return { cluster, user };
}

function claimOf(cluster: BindCluster, name = "c"): ResourceClaim | undefined {
  return cluster.api.get(claims, `default/${name}`) as unknown as ResourceClaim | undefined;
}

function chosen(allocation: unknown, entry = "dev") {
  return { resourceClaimAllocations: [{ name: entry, allocation }] };
}

async function giveClaim(cluster: BindCluster, status: object): Promise<void> {
  const ref = { ...builtin.ResourceClaim, namespace: "default", name: "c" };
  const found = await cluster.admin.get(ref);
  if (!found.ok) throw new Error(found.message);
  const written = await cluster.admin.update({ ...ref, subresource: "status" }, { ...found.value, status });
  if (!written.ok) throw new Error(written.message);
}

const userOf = ({ metadata }: Pod) => ({ resource: "pods", name: metadata.name, uid: metadata.uid });

describe("a claim", () => {
  test("without devices gets those of the BindRequest and the pod as user, protected before it is allocated", async () => {
    const { cluster, user } = await withClaims();
    const pod = await user("f");
    await cluster.request(pod, { ...onNode, ...chosen(deviceOn("h100-0")) });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(claimOf(cluster)?.status?.allocation).toMatchObject(deviceOn("h100-0"));
    expect(claimOf(cluster)?.status?.reservedFor).toEqual([userOf(pod)]);
    expect(claimOf(cluster)?.metadata.finalizers).toEqual([protection]);
    const writes = cluster.kube.calls.filter((call) => call.startsWith("update resourceclaims"));
    expect(writes).toHaveLength(2);
  });

  test("that has devices keeps them, whatever was chosen, and gains the pod", async () => {
    const { cluster, user } = await withClaims();
    const [first, pod] = [await user("first"), await user("f")];
    await giveClaim(cluster, { allocation: deviceOn("h100-0", "gpu-5"), reservedFor: [userOf(first)] });
    await cluster.request(pod, { ...onNode, ...chosen(deviceOn("h100-0", "gpu-0")) });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(claimOf(cluster)?.status?.allocation).toMatchObject(deviceOn("h100-0", "gpu-5"));
    expect(claimOf(cluster)?.status?.reservedFor).toEqual([userOf(first), userOf(pod)]);
  });

  test("that names the pod already is not written again", async () => {
    const { cluster, user } = await withClaims();
    const pod = await user("f");
    await giveClaim(cluster, { allocation: deviceOn("h100-0"), reservedFor: [userOf(pod)] });
    const before = claimOf(cluster)?.metadata.resourceVersion;
    await cluster.request(pod, { ...onNode, ...chosen(deviceOn("h100-0")) });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(claimOf(cluster)?.metadata.resourceVersion).toBe(before);
  });

  test("that another client writes to is read again, and then written", async () => {
    const { cluster, user } = await withClaims();
    const pod = await user("f");
    await cluster.request(pod, { ...onNode, ...chosen(deviceOn("h100-0")) });
    let conflicts = 0;
    cluster.kube.faults = {
      before: (verb, what) =>
        verb === "update" && what.includes("resourceclaims") && conflicts++ < 3
          ? refused("Conflict", "another write came first")
          : undefined,
    };
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(claimOf(cluster)?.status?.reservedFor).toEqual([userOf(pod)]);
    expect(cluster.kube.calls.filter((call) => call === "get resourceclaims c").length).toBeGreaterThan(3);
  });

  test("without devices, for which none were chosen, fails the bind with the reason", async () => {
    const { cluster, user } = await withClaims();
    const pod = await user("f");
    await cluster.request(pod, { ...onNode, ...chosen(null) });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.requestOf("f")?.status).toMatchObject({
      phase: "Failed",
      reason: "claim c has no devices and none were chosen for it",
    });
    expect(cluster.pods()[0]?.spec?.nodeName).toBeUndefined();
  });

  test("that an earlier bind allocated on another node blocks the bind, and the reason names it", async () => {
    const { cluster, user } = await withClaims(["c"], ["h100=2"]);
    const pod = await user("f");
    cluster.kube.faults = { before: (verb) => (verb === "bind" ? refused("Invalid", "not today") : undefined) };
    await cluster.request(pod, { ...onNode, ...chosen(deviceOn("h100-0")) });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.phase("f")).toBe("Failed");
    expect(claimOf(cluster)?.status?.allocation).toMatchObject(deviceOn("h100-0"));
    cluster.kube.faults = {};
    await cluster.api.delete("scheduling.run.ai/bindrequests", "default/f");
    await cluster.request(pod, { ...onNode, selectedNode: "h100-1", ...chosen(deviceOn("h100-1")) });
    await cluster.run(2);
    expect(cluster.requestOf("f")?.status).toMatchObject({
      phase: "Failed",
      reason: "claim c already has devices that node h100-1 cannot reach",
    });
    expect(cluster.pods()[0]?.spec?.nodeName).toBeUndefined();
    expect(claimOf(cluster)?.status?.allocation).toMatchObject(deviceOn("h100-0"));
  });

  test("whose devices are in reach of the new node too is used there", async () => {
    const { cluster, user } = await withClaims(["c"], ["h100=2"]);
    const pod = await user("f");
    const { devices } = deviceOn("anywhere");
    await giveClaim(cluster, { allocation: { devices }, reservedFor: [userOf(pod)] });
    await cluster.request(pod, { ...onNode, selectedNode: "h100-1", ...chosen(deviceOn("h100-1")) });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(claimOf(cluster)?.status?.allocation?.devices).toMatchObject(devices);
  });

  test("of two pods that are bound at once has both as users, and the devices of one allocation", async () => {
    const { cluster, user } = await withClaims();
    const pods = [await user("a"), await user("b")];
    for (const [at, pod] of pods.entries())
      await cluster.request(pod, { ...onNode, ...chosen(deviceOn("h100-0", `gpu-${at}`)) });
    await cluster.startBinder();
    await cluster.run(3);
    expect(["a", "b"].map((name) => cluster.phase(name))).toEqual(["Succeeded", "Succeeded"]);
    const { allocation, reservedFor = [] } = claimOf(cluster)?.status ?? {};
    expect(reservedFor.map(({ name }) => name).sort()).toEqual(["a", "b"]);
    expect(allocation?.devices?.results).toHaveLength(1);
  });

  test("that is created from a template is found by the pod's status; until then the attempt fails", async () => {
    const { cluster } = await withClaims([]);
    const pod = await cluster.pod("f", {}, { resourceClaims: [{ name: "dev", resourceClaimTemplateName: "t" }] });
    await cluster.request(pod, { ...onNode, ...chosen(deviceOn("h100-0")) });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.requestOf("f")?.status?.reason).toBe('pod f has no claim for "dev" yet');
  });
});

describe("extended resources from devices", () => {
  const extended = {
    extendedResourceClaimAllocation: {
      allocation: deviceOn("h100-0"),
      deviceRequests: [{ name: "gpu", exactly: { deviceClassName: "gpu.example.com" } }],
      containerMappings: [{ containerName: "main", resourceName: "example.com/gpu", requestName: "gpu" }],
    },
  };

  function extendedClaims(cluster: BindCluster): ResourceClaim[] {
    return cluster.api.names(claims).map((key) => cluster.api.get(claims, key) as unknown as ResourceClaim);
  }

  test("a bind that is repeated after a failure has one claim, to which the pod's status points", async () => {
    const { cluster } = await withClaims([]);
    const pod = await cluster.pod("f");
    await cluster.request(pod, { ...onNode, ...extended, backoffLimit: 3 });
    let refusals = 2;
    cluster.kube.faults = {
      before: (verb) => (verb === "bind" && refusals-- > 0 ? refused("Invalid", "not today") : undefined),
    };
    await cluster.startBinder();
    await cluster.run(8);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Succeeded", failedAttempts: 2 });
    const [claim, ...others] = extendedClaims(cluster);
    expect(others).toEqual([]);
    expect(claim?.status?.reservedFor).toEqual([userOf(pod)]);
    expect(claim?.metadata.ownerReferences).toMatchObject([{ kind: "Pod", uid: pod.metadata.uid, controller: true }]);
    expect(cluster.pods()[0]?.status?.extendedResourceClaimStatus).toEqual({
      resourceClaimName: claim?.metadata.name,
      requestMappings: extended.extendedResourceClaimAllocation.containerMappings,
    });
  });

  test("a claim that another controller created for the pod is used, under any name", async () => {
    const { cluster } = await withClaims([]);
    const pod = await cluster.pod("f");
    const { name, uid } = pod.metadata;
    await cluster.api.create(claims, {
      apiVersion: "resource.k8s.io/v1",
      kind: "ResourceClaim",
      metadata: {
        name: "f-extended-resources-x7k2p",
        namespace: "default",
        annotations: { "resource.kubernetes.io/extended-resource-claim": "true" },
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid, controller: true, blockOwnerDeletion: true }],
      },
      spec: { devices: { requests: extended.extendedResourceClaimAllocation.deviceRequests } },
    });
    await cluster.request(pod, { ...onNode, ...extended });
    await cluster.startBinder();
    await cluster.run(2);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(extendedClaims(cluster).map(({ metadata }) => metadata.name)).toEqual(["f-extended-resources-x7k2p"]);
  });

  test("a bind that failed for good leaves no claim, and nothing of it in the pod's status", async () => {
    const { cluster } = await withClaims([]);
    const pod = await cluster.pod("f");
    await cluster.request(pod, { ...onNode, ...extended });
    let wasThere = 0;
    cluster.kube.faults = {
      before: (verb) => {
        if (verb !== "bind") return undefined;
        wasThere = extendedClaims(cluster).length;
        return refused("Invalid", "not today");
      },
    };
    await cluster.startBinder();
    await cluster.run(3);
    expect(cluster.phase("f")).toBe("Failed");
    expect(wasThere).toBe(1);
    expect(extendedClaims(cluster)).toEqual([]);
    expect(cluster.pods()[0]?.status?.extendedResourceClaimStatus).toBeUndefined();
  });

  test("a clean-up of the attempt before, whose delete lands late, does not take the claim of the next one", async () => {
    const { cluster } = await withClaims([]);
    const pod = await cluster.pod("f");
    await cluster.request(pod, { ...onNode, ...extended, backoffLimit: 3 });
    let refusals = 1;
    const late: KubeObject[] = [];
    cluster.kube.faults = {
      before: (verb, what) => {
        if (verb === "bind" && refusals-- > 0) return refused("Invalid", "not today");
        if (verb !== "delete" || !what.startsWith("resourceclaims") || late.length > 0) return undefined;
        late.push(extendedClaims(cluster)[0] as KubeObject);
        return refused("Unknown", "timed out");
      },
    };
    await cluster.startBinder();
    await cluster.run(8);
    const [claim] = late;
    expect(cluster.phase("f")).toBe("Succeeded");
    const { namespace = "", name = "", uid = "", resourceVersion = "" } = claim?.metadata ?? {};
    const ref = { ...builtin.ResourceClaim, namespace, name };
    const landed = await cluster.admin.delete(ref, { preconditions: { uid, resourceVersion } });
    expect(landed).toMatchObject({ ok: false, reason: "Conflict" });
    expect(extendedClaims(cluster)).toHaveLength(1);
  });
});

test("every write of a bind with claims and shares is granted by the binder's role, resourceclaims/binding included", async () => {
  const used = new Set<string>();
  const { cluster, user } = await withClaims();
  cluster.through((kube) => noting(kube, used));
  const claimed = await user("claimed");
  await cluster.request(claimed, { ...onNode, ...chosen(deviceOn("h100-0")) });
  const shared = await cluster.pod("shared", { "gpu-fraction": "0.5" });
  await cluster.request(shared, { selectedNode: "h100-0", selectedGPUGroups: ["g"] });
  const extended = await cluster.pod("extended");
  const extendedResourceClaimAllocation = { allocation: deviceOn("h100-0"), deviceRequests: [] };
  await cluster.request(extended, { ...onNode, extendedResourceClaimAllocation });
  const legacy = await cluster.pod("legacy", { "gpu-fraction": "0.5" });
  await cluster.request(legacy, { selectedNode: "h100-0", selectedGPUGroups: [] });
  await cluster.startBinder();
  await cluster.run(5);
  expect(["claimed", "shared"].map((name) => cluster.phase(name))).toEqual(["Succeeded", "Succeeded"]);
  await cluster.label("h100-0", { "muster.dev/pins-devices": null });
  const [reservation] = cluster.reservations();
  await cluster.api.delete("/pods", `kai-resource-reservation/${reservation?.metadata.name}`);
  await cluster.run(10);
  const rights = rightsIn("../../deploy/binder-clusterrole.yaml");
  expect([...used].filter((right) => !rights.has(right))).toEqual([]);
  for (const right of [
    "update resourceclaims/binding:resource.k8s.io",
    "create pods/binding:",
    "create pods/eviction:",
  ])
    expect(used).toContain(right);
});

describe("devices that another scheduler allocates at the same time", () => {
  const beside = { servedSchedulers: new Set(["kai-scheduler"]) };
  const other = { ...builtin.ResourceClaim, namespace: "default", name: "theirs" };

  /** The other scheduler writes its claim, which it decided before it saw ours. */
  async function theyTake(cluster: BindCluster, device: string): Promise<void> {
    const found = await cluster.admin.get(other);
    if (!found.ok) throw new Error(found.message);
    const status = { allocation: deviceOn("h100-0", device) };
    const written = await cluster.admin.update({ ...other, subresource: "status" }, { ...found.value, status });
    if (!written.ok) throw new Error(written.message);
  }

  /** A pod with a claim is being bound, and one of another scheduler is pending. */
  async function contested() {
    const { cluster, user } = await withClaims(["c", "theirs"]);
    const pod = await user("f");
    const resourceClaims = [{ name: "dev", resourceClaimName: "theirs" }];
    await cluster.pod("rival", {}, { schedulerName: "default-scheduler", resourceClaims });
    await cluster.request(pod, { ...onNode, ...chosen(deviceOn("h100-0")) });
    await cluster.startBinder(beside);
    return cluster;
  }

  const given = "device gpu.example.com/h100-0/gpu-0 of claim c was allocated to claim default/theirs";

  test("are not written to Muster's claim: the other scheduler has precedence", async () => {
    const cluster = await contested();
    await cluster.run(1);
    expect(claimOf(cluster)?.status?.allocation).toBeUndefined();
    await theyTake(cluster, "gpu-0");
    await cluster.run(8);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed", reason: expect.stringContaining(given) });
    expect(claimOf(cluster)?.status?.allocation).toBeUndefined();
    const statusWrites = cluster.kube.calls.filter((call) => /^update resourceclaims.*status/.test(call));
    expect(statusWrites).toEqual([]);
  });

  test("and that land after Muster's write are deallocated before the bind", async () => {
    const cluster = await contested();
    await cluster.run(2.15);
    expect(claimOf(cluster)?.status?.allocation).toMatchObject(deviceOn("h100-0"));
    await theyTake(cluster, "gpu-0");
    await cluster.run(3);
    expect(cluster.requestOf("f")?.status).toMatchObject({ phase: "Failed", reason: expect.stringContaining(given) });
    expect(claimOf(cluster)?.status?.allocation).toBeUndefined();
    expect(claimOf(cluster)?.status?.reservedFor).toBeUndefined();
    expect(claimOf(cluster, "theirs")?.status?.allocation).toMatchObject(deviceOn("h100-0"));
    const pod = cluster.api.get("/pods", "default/f") as unknown as Pod;
    expect(pod.spec?.nodeName).toBeUndefined();
  });

  test("and that differ from Muster's do not block the bind", async () => {
    const cluster = await contested();
    await theyTake(cluster, "gpu-1");
    await cluster.run(8);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(claimOf(cluster)?.status?.allocation).toMatchObject(deviceOn("h100-0"));
  });

  test("where no other scheduler allocates devices nothing waits and no claim is listed", async () => {
    const { cluster, user } = await withClaims();
    const pod = await user("f");
    await cluster.request(pod, { ...onNode, ...chosen(deviceOn("h100-0")) });
    await cluster.startBinder();
    await cluster.run(0.1);
    expect(cluster.phase("f")).toBe("Succeeded");
    expect(cluster.kube.calls.filter((call) => call.startsWith("list resourceclaims"))).toEqual([]);
  });
});
