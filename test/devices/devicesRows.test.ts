/** Rows of Kubernetes' own tables of plug-in and controllers that need a running cluster, by their names. */
import { describe, expect, test } from "vitest";
import { refused } from "../../src/model/outcome.ts";
import { DevicesCluster } from "./devicesCluster.ts";

const resource = "example.com/gpu";
const implicit = "deviceclass.resource.kubernetes.io/extended";

async function withExtended(pools?: readonly string[]): Promise<DevicesCluster> {
  const cluster = await DevicesCluster.start(pools === undefined ? {} : { pools });
  await cluster.api.create("resource.k8s.io/deviceclasses", {
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceClass",
    metadata: { name: "extended" },
    spec: {
      selectors: [{ cel: { expression: 'device.driver == "gpu.nvidia.com"' } }],
      extendedResourceName: resource,
    },
  });
  await cluster.run(1);
  return cluster;
}

async function extendedPod(
  cluster: DevicesCluster,
  name: string,
  containers: readonly Record<string, string>[],
  more: object = {},
): Promise<void> {
  await cluster.api.create("/pods", {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default" },
    spec: {
      containers: containers.map((limits, i) => ({ name: `c${i}`, image: "registry/app:1", resources: { limits } })),
      ...more,
    },
  });
}

/** Devices that claims have, without the claims' names. */
function devices(cluster: DevicesCluster): string[] {
  return cluster.given().map((each) => each.split(" ")[1] ?? "");
}

function reasons(cluster: DevicesCluster): (string | undefined)[] {
  return cluster.all<{ reason?: string }>("/events").map(({ reason }) => reason);
}

describe("extended resources", () => {
  test("extended-resource-name-with-resources, implicit-extended-resource-name-with-resources", async () => {
    const cluster = await withExtended();
    await extendedPod(cluster, "a", [{ [resource]: "1" }]);
    await extendedPod(cluster, "b", [{ [implicit]: "1" }]);
    await cluster.run(10);
    expect(cluster.phases()).toEqual(["a Running", "b Running"]);
    expect(devices(cluster).sort()).toEqual(["h100-0/gpu-0", "h100-0/gpu-1"]);
  });

  test("implicit-extended-resource-name-two-containers-with-resources", async () => {
    const cluster = await withExtended();
    await extendedPod(cluster, "a", [{ [implicit]: "1" }, { [implicit]: "2" }]);
    await cluster.run(10);
    expect(devices(cluster)).toHaveLength(3);
    expect(cluster.look("a")?.status?.extendedResourceClaimStatus?.requestMappings).toEqual([
      { containerName: "c0", resourceName: implicit, requestName: "container-0-request-0" },
      { containerName: "c1", resourceName: implicit, requestName: "container-1-request-0" },
    ]);
  });

  test("extended-resource-one-device-plugin-one-dra: the claim is only for what no plug-in offers", async () => {
    const cluster = await withExtended();
    await extendedPod(cluster, "a", [{ [resource]: "1", "nvidia.com/gpu": "1" }]);
    await cluster.run(10);
    const [claim] = cluster.claims();
    expect(claim?.spec.devices?.requests).toHaveLength(1);
    expect(devices(cluster)).toHaveLength(1);
  });

  test("extended-resource-name-no-resource: there are too few, and the pod says so", async () => {
    const cluster = await withExtended();
    await extendedPod(cluster, "a", [{ [resource]: "9" }]);
    await cluster.run(10);
    expect(cluster.phases()).toEqual(["a waits"]);
    expect(cluster.claims()).toEqual([]);
    const condition = cluster.look("a")?.status?.conditions?.find(({ type }) => type === "PodScheduled");
    expect(condition?.message).toContain("fits 0 of 1 nodes: 1 node(s) cannot allocate all claims");
  });

  test("non-DRA-extended-resource-name-with-zero-allocatable: it has no class, so no claim is created", async () => {
    const cluster = await withExtended();
    await extendedPod(cluster, "a", [{ "example.com/other": "1" }]);
    await cluster.run(10);
    expect(cluster.phases()).toEqual(["a waits"]);
    expect(cluster.claims()).toEqual([]);
  });

  test("extended-resource-name-claim-creation-failure: no device stays allocated, and the next attempt succeeds", async () => {
    const cluster = await withExtended();
    let refusals = 0;
    cluster.kube.faults.before = (verb, what) => {
      if (verb !== "create" || !what.startsWith("resourceclaims") || refusals >= 2) return undefined;
      refusals++;
      return refused("Forbidden", "a quota is used up");
    };
    await extendedPod(cluster, "a", [{ [resource]: "8" }]);
    await cluster.run(20);
    expect(refusals).toBe(2);
    expect(cluster.phases()).toEqual(["a Running"]);
    expect(devices(cluster)).toHaveLength(8);
    expect(cluster.claims()).toHaveLength(1);
  });

  test("extended-resource-name-with-resources-fail-patch: the claim of the first attempt is used by the next", async () => {
    const cluster = await withExtended();
    let refusals = 0;
    cluster.kube.faults.before = (verb, what) => {
      if (verb !== "patch" || !what.startsWith("pods a") || refusals >= 2) return undefined;
      refusals++;
      return refused("Unavailable", "too busy");
    };
    await extendedPod(cluster, "a", [{ [resource]: "1" }]);
    await cluster.run(20);
    expect(refusals).toBe(2);
    expect(cluster.phases()).toEqual(["a Running"]);
    expect(cluster.claims()).toHaveLength(1);
    expect(cluster.look("a")?.status?.extendedResourceClaimStatus?.resourceClaimName).toBe(
      cluster.claims()[0]?.metadata.name,
    );
  });

  test("extended-resource-name-bind-failure: the claim is kept for the pod, and its devices are allocated once", async () => {
    const cluster = await withExtended();
    let refusals = 0;
    cluster.kube.faults.before = (verb, what) => {
      if (verb !== "bind" || !what.includes(" a") || refusals >= 2) return undefined;
      refusals++;
      return refused("Unavailable", "too busy");
    };
    await extendedPod(cluster, "a", [{ [resource]: "1" }]);
    await cluster.run(20);
    expect(refusals).toBe(2);
    expect(cluster.phases()).toEqual(["a Running"]);
    expect(devices(cluster)).toHaveLength(1);
  });

  test("extended-resource-name-skip-bind: a pod that is deleted before its bind leaves nothing behind", async () => {
    const cluster = await withExtended();
    cluster.kube.faults.before = (verb) => (verb === "bind" ? refused("Unavailable", "too busy") : undefined);
    await extendedPod(cluster, "a", [{ [resource]: "1" }]);
    await cluster.run(5);
    expect(cluster.phases()).toEqual(["a waits"]);
    await cluster.api.delete("/pods", "default/a");
    cluster.kube.faults = {};
    await cluster.run(30);
    expect(cluster.phases()).toEqual([]);
    expect(devices(cluster)).toEqual([]);
  });

  test("a claim of an earlier attempt on a node that the pod can no longer use is deallocated and created again", async () => {
    const cluster = await withExtended(["h100=2"]);
    let first = "";
    cluster.kube.faults.before = (verb) => {
      if (verb !== "bind") return undefined;
      first ||= devices(cluster)[0]?.split("/")[0] ?? "";
      return refused("Forbidden", "not there");
    };
    await extendedPod(cluster, "a", [{ [resource]: "1" }]);
    await cluster.run(5);
    await cluster.api.edit("/nodes", first, (node) => {
      (node as { spec?: object }).spec = { ...(node as { spec?: object }).spec, unschedulable: true };
    });
    cluster.kube.faults = {};
    await cluster.run(60);
    expect(cluster.phases()).toEqual(["a Running"]);
    expect(devices(cluster)[0]?.split("/")[0]).not.toBe(first);
    expect(cluster.claims()).toHaveLength(1);
  });
});

describe("claims", () => {
  const admin = {
    devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu", adminAccess: true } }] },
  };

  test("create-adminaccess-feature-disabled, create-adminaccess-feature-enabled: the namespace must permit it", async () => {
    const cluster = await DevicesCluster.start();
    const label = async (value: string | undefined): Promise<void> => {
      await cluster.api.edit("/namespaces", "default", (namespace) => {
        const { labels = {} } = namespace.metadata;
        const { "resource.kubernetes.io/admin-access": _before, ...rest } = labels;
        namespace.metadata.labels =
          value === undefined ? rest : { ...rest, "resource.kubernetes.io/admin-access": value };
      });
    };
    await label("true");
    await cluster.template("admin", admin);
    await label(undefined);
    await cluster.pod("a", { template: "admin" });
    await cluster.run(5);
    expect(cluster.claims()).toEqual([]);
    expect(reasons(cluster)).toContain("FailedResourceClaimCreation");
    await label("true");
    await cluster.run(60);
    expect(cluster.claims()).toHaveLength(1);
    expect(cluster.phases()).toEqual(["a Running"]);
  });

  test("no-such-pod: a pod that is deleted before its claim was created gets none", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.pod("a", { template: "later" });
    await cluster.run(1);
    await cluster.api.delete("/pods", "default/a", { gracePeriodSeconds: 0 });
    await cluster.template("later");
    await cluster.run(10);
    expect(cluster.claims()).toEqual([]);
  });

  test("uses-all-resources: as many pods as devices, all of them run, and no device is allocated twice", async () => {
    const cluster = await DevicesCluster.start({ pools: ["h100=3"] });
    await cluster.template("one");
    for (let i = 0; i < 24; i++) await cluster.pod(`p${i}`, { template: "one" });
    await cluster.run(20);
    expect(cluster.phases().filter((each) => !each.endsWith("Running"))).toEqual([]);
    expect(new Set(devices(cluster)).size).toBe(24);
  });
});

describe("plug-in", () => {
  test("skip-bind: a decision whose claim was deleted is dropped, and its device is free", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.claim("c");
    cluster.kube.faults.before = (verb, what) =>
      verb === "update" && what.startsWith("resourceclaims c") ? refused("NotFound", "it is gone") : undefined;
    await cluster.pod("a", { claim: "c" });
    await cluster.run(3);
    expect(cluster.given()).toEqual([]);
    expect(cluster.phases()).toEqual(["a waits"]);
    cluster.kube.faults = {};
    await cluster.run(30);
    expect(cluster.phases()).toEqual(["a Running"]);
  });

  test("bind-failure, bind-failure-preserves-inflight-until-unreserve: until its outcome is known no other pod gets the device", async () => {
    const cluster = await DevicesCluster.start();
    const all = { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu", count: 8 } }] } };
    await cluster.claim("mine", all);
    await cluster.claim("theirs", all);
    // The server executes the write, and the answer is lost.
    let lost = 0;
    cluster.kube.faults.after = (verb, what) => {
      if (verb !== "update" || !what.startsWith("resourceclaims mine") || lost++ > 0) return undefined;
      return refused("Unknown", "timed out");
    };
    await cluster.pod("a", { claim: "mine" });
    await cluster.run(1);
    await cluster.pod("b", { claim: "theirs" });
    await cluster.run(30);
    expect(cluster.phases()).toEqual(["a Running", "b waits"]);
    expect(new Set(devices(cluster)).size).toBe(8);
  });
});

describe("eviction", () => {
  const rule = (name: string, deviceSelector: object, effect = "NoExecute") => ({
    apiVersion: "resource.k8s.io/v1",
    kind: "DeviceTaintRule",
    metadata: { name },
    spec: { deviceSelector, taint: { key: "broken", value: "yes", effect } },
  });
  const rules = "resource.k8s.io/devicetaintrules";
  const message = (cluster: DevicesCluster) =>
    cluster.all<{ status?: { conditions?: { message: string }[] } }>(rules)[0]?.status?.conditions?.[0]?.message;
  const patient = (seconds: number) => ({
    devices: {
      requests: [
        {
          name: "gpu",
          exactly: {
            deviceClassName: "gpu",
            tolerations: [{ key: "broken", operator: "Exists" as const, tolerationSeconds: seconds }],
          },
        },
      ],
    },
  });

  test("evict-pod-rule, evict-pod-resourceclaim-template, evict-many-pods-same-namespace: all consumers of the device are evicted", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.template("one");
    for (let i = 0; i < 3; i++) await cluster.pod(`p${i}`, { template: "one" });
    await cluster.run(6);
    await cluster.api.create(rules, rule("r", { driver: "gpu.nvidia.com" }));
    await cluster.run(60);
    expect(cluster.phases()).toEqual([]);
    expect(message(cluster)).toBe("3 pods evicted");
    expect(reasons(cluster)).toContain("DeviceTaintManagerEviction");
  });

  test("none-pod-rule, none-many-pods: a dry run reports the pods to evict, and evicts none", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.template("one");
    for (let i = 0; i < 3; i++) await cluster.pod(`p${i}`, { template: "one" });
    await cluster.run(6);
    await cluster.api.create(rules, rule("r", { driver: "gpu.nvidia.com" }, "None"));
    await cluster.run(30);
    expect(cluster.phases()).toHaveLength(3);
    expect(message(cluster)).toBe("with NoExecute 3 pods in 1 namespace would be evicted");
  });

  test("evict-pod-after-scheduling, evict-pod-resourceclaim-again: a pod with a limited toleration is evicted when it is over, again and again", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.template("patient", patient(20));
    await cluster.api.create(rules, rule("r", { driver: "gpu.nvidia.com" }));
    await cluster.run(1);
    await cluster.pod("a", { template: "patient" });
    await cluster.run(6);
    expect(cluster.phases()).toEqual(["a Running"]);
    await cluster.run(60);
    expect(cluster.phases()).toEqual([]);
    await cluster.pod("a", { template: "patient" });
    await cluster.run(60);
    expect(cluster.phases()).toEqual([]);
  });

  test("evict-many-pods-many-namespaces: the rule counts pods and namespaces", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.claim("c", patient(600));
    await cluster.pod("a", { claim: "c" });
    for (const namespace of ["n1", "n2"]) {
      await cluster.api.create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
      await cluster.api.create("resource.k8s.io/resourceclaims", {
        apiVersion: "resource.k8s.io/v1",
        kind: "ResourceClaim",
        metadata: { name: "c", namespace },
        spec: patient(600),
      });
      await cluster.api.create("/pods", {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "a", namespace },
        spec: {
          containers: [{ name: "c", image: "registry/app:1" }],
          resourceClaims: [{ name: "gpu", resourceClaimName: "c" }],
        },
      });
    }
    await cluster.run(6);
    await cluster.api.create(rules, rule("r", { driver: "gpu.nvidia.com" }));
    await cluster.run(20);
    expect(message(cluster)).toBe("3 pods to be evicted in 3 namespaces, 0 evicted");
  });

  test("cancel-eviction-remove-taint, no-evict-no-taint-update: when the rule is deleted in time, no pod is evicted", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.template("patient", patient(30));
    await cluster.pod("a", { template: "patient" });
    await cluster.run(6);
    await cluster.api.create(rules, rule("r", { driver: "gpu.nvidia.com" }));
    await cluster.run(10);
    await cluster.api.delete(rules, "r");
    await cluster.run(60);
    expect(cluster.phases()).toEqual(["a Running"]);
  });

  test("cancel-eviction-pod-deletion, evict-wrong-pod-replaced: another pod of the same name is judged by its own claim", async () => {
    const cluster = await DevicesCluster.start({ pools: ["h100=1"] });
    await cluster.template("patient", patient(20));
    await cluster.template("one");
    await cluster.pod("a", { template: "patient" });
    await cluster.run(6);
    const device = devices(cluster)[0]?.split("/")[1];
    await cluster.api.create(rules, rule("r", { driver: "gpu.nvidia.com", device }));
    await cluster.run(1);
    await cluster.api.delete("/pods", "default/a", { gracePeriodSeconds: 0 });
    await cluster.run(8);
    // The new one does not tolerate the taint, so it gets another device, and stays.
    await cluster.pod("a", { template: "one" });
    await cluster.run(60);
    expect(cluster.phases()).toEqual(["a Running"]);
  });

  test("no-evict-template-no-status, no-evict-template-no-claim: a pod without its claim uses no device", async () => {
    const cluster = await DevicesCluster.start();
    await cluster.api.create(rules, rule("r", { driver: "gpu.nvidia.com" }));
    await cluster.pod("a", { template: "nobody-made-it" });
    await cluster.run(30);
    expect(cluster.phases()).toEqual(["a waits"]);
  });
});

describe("claims of PodGroups", () => {
  const groups = "scheduling.k8s.io/podgroups";
  const grouped = { schedulingGroup: { podGroupName: "g" } };

  async function makeGroup(cluster: DevicesCluster, claims: object[]): Promise<void> {
    await cluster.api.create(groups, {
      apiVersion: "scheduling.k8s.io/v1alpha2",
      kind: "PodGroup",
      metadata: { name: "g", namespace: "default" },
      spec: { schedulingPolicy: { basic: {} }, resourceClaims: claims },
    });
    await cluster.run(1);
  }

  async function start(claims: object[]): Promise<DevicesCluster> {
    const cluster = await DevicesCluster.start({ devices: { groupClaims: true } });
    await cluster.template("one");
    await makeGroup(cluster, claims);
    return cluster;
  }

  test("one claim is created for the group, reserved for it once, used by all its pods, and released with the group", async () => {
    const cluster = await start([{ name: "gpu", resourceClaimTemplateName: "one" }]);
    for (const name of ["a", "b", "c"]) await cluster.pod(name, { template: "one" }, grouped);
    await cluster.run(10);
    expect(cluster.phases()).toEqual(["a Running", "b Running", "c Running"]);
    expect(cluster.claims()).toHaveLength(1);
    const [claim] = cluster.claims();
    expect(claim?.metadata.ownerReferences).toMatchObject([{ kind: "PodGroup", name: "g", controller: true }]);
    expect(claim?.status?.reservedFor).toMatchObject([{ resource: "podgroups", name: "g" }]);
    // none-podgroup-rule: a trial counts the pods of the group.
    await cluster.api.create("resource.k8s.io/devicetaintrules", {
      apiVersion: "resource.k8s.io/v1",
      kind: "DeviceTaintRule",
      metadata: { name: "r" },
      spec: { deviceSelector: { driver: "gpu.nvidia.com" }, taint: { key: "broken", value: "yes", effect: "None" } },
    });
    await cluster.run(20);
    const [rule] = cluster.all<{ status?: { conditions?: { message: string }[] } }>("resource.k8s.io/devicetaintrules");
    expect(rule?.status?.conditions?.[0]?.message).toBe("with NoExecute 3 pods in 1 namespace would be evicted");
    for (const name of ["a", "b", "c"]) await cluster.api.delete("/pods", `default/${name}`);
    await cluster.run(60);
    expect(devices(cluster)).toHaveLength(1);
    await cluster.api.delete(groups, "default/g");
    await cluster.run(60);
    expect(devices(cluster)).toEqual([]);
    expect(cluster.log.errors).toEqual([]);
  });

  test("a pod of the group has claims of its own besides", async () => {
    const cluster = await start([]);
    await cluster.pod("a", { template: "one" }, grouped);
    await cluster.run(10);
    expect(cluster.phases()).toEqual(["a Running"]);
    expect(cluster.claims()[0]?.metadata.ownerReferences).toMatchObject([{ kind: "Pod", name: "a" }]);
  });

  test("a pod whose group does not exist yet waits for it", async () => {
    const cluster = await DevicesCluster.start({ devices: { groupClaims: true } });
    await cluster.template("one");
    await cluster.pod("a", { template: "one" }, grouped);
    await cluster.run(5);
    expect(cluster.phases()).toEqual(["a waits"]);
    expect(cluster.claims()).toEqual([]);
  });

  test("a pod with a claim by name is scheduled when its group appears, without an event of pod or claim", async () => {
    const cluster = await DevicesCluster.start({ devices: { groupClaims: true } });
    await cluster.claim("c");
    await cluster.pod("a", { claim: "c" }, grouped);
    await cluster.run(60);
    expect(cluster.phases()).toEqual(["a waits"]);
    await makeGroup(cluster, [{ name: "gpu", resourceClaimName: "c" }]);
    await cluster.run(60);
    expect(cluster.phases()).toEqual(["a Running"]);
    expect(cluster.claims()[0]?.status?.reservedFor).toMatchObject([{ resource: "podgroups", name: "g" }]);
  });
});
