/** The examples about claims through the real kubectl: the embedded server, simulated nodes, all components of `up`. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { controlPlane, usualComponents } from "../../src/control/assembly/controlPlane.ts";
import type { Pod, ResourceClaim } from "../../src/model/kubernetes.generated.ts";
import { hasKubectl, type LiveCluster, liveCluster } from "../nodes/liveCluster.ts";

describe.skipIf(!hasKubectl)("kubectl", { timeout: 60_000 }, () => {
  let cluster: LiveCluster;

  beforeAll(async () => {
    cluster = await liveCluster({
      pools: ["h100=2"],
      components: usualComponents(controlPlane({ scheduler: { allocatesDevices: true, readsShards: true } })),
    });
  }, 60_000);
  afterAll(() => cluster.stop());

  async function kubectl(...args: string[]): Promise<string> {
    const said = await cluster.kubectl(args);
    expect([said.code, said.stderr], args.join(" ")).toEqual([0, ""]);
    return said.stdout;
  }

  const file = (name: string): string => fileURLToPath(new URL(`../../examples/claim-${name}.yaml`, import.meta.url));
  const apply = (name: string): Promise<string> => kubectl("apply", "-f", file(name));
  const runs = (...pods: string[]): Promise<string> =>
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", "--timeout=30s", ...pods.map((name) => `pod/${name}`));

  /** `request pool/device` of the claims that a pod uses. */
  async function devicesOf(name: string): Promise<string[]> {
    const pod = JSON.parse(await kubectl("get", "pod", name, "-o", "json")) as Pod;
    const names = (pod.spec?.resourceClaims ?? []).map(
      (entry) =>
        entry.resourceClaimName ??
        pod.status?.resourceClaimStatuses?.find((each) => each.name === entry.name)?.resourceClaimName ??
        "",
    );
    const found: string[] = [];
    for (const each of names) {
      const claim = JSON.parse(await kubectl("get", "resourceclaim", each, "-o", "json")) as ResourceClaim;
      for (const { request, pool, device } of claim.status?.allocation?.devices?.results ?? [])
        found.push(`${request} ${pool}/${device}`);
    }
    return found;
  }

  test("a single GPU", async () => {
    await apply("single-gpu");
    await runs("single-gpu");
    expect(await devicesOf("single-gpu")).toHaveLength(1);
    expect(await kubectl("get", "resourceclaims")).toMatch(/single-gpu-gpu-\S+ +allocated,reserved/);
    expect(await kubectl("exec", "single-gpu", "--", "nvidia-smi", "-L")).toMatch(/^GPU 0: .*UUID: GPU-\S+\)\n$/);
  });

  test("two containers and a second pod share a claim", async () => {
    await apply("shared");
    await runs("shared-two-containers", "shared-second-pod");
    expect(await devicesOf("shared-two-containers")).toEqual(await devicesOf("shared-second-pod"));
  });

  test("the first available alternative", async () => {
    await apply("first-available");
    await runs("big-or-two");
    expect((await devicesOf("big-or-two")).map((each) => each.split(" ")[0])).toEqual(["gpu/two", "gpu/two"]);
  });

  test("a partition", async () => {
    await apply("partition");
    await runs("half-gpu");
    expect(await devicesOf("half-gpu")).toEqual(["half mig/gpu-0-half-0"]);
  });

  test("two shares of one card", async () => {
    await apply("share");
    await runs("share-a", "share-b");
    expect(await devicesOf("share-a")).toEqual(await devicesOf("share-b"));
  });

  test("a tainted device runs the pod for as long as it tolerates the taint, and then the pod is evicted", async () => {
    await apply("taint");
    await kubectl("wait", "--for=delete", "pod/evicted", "--timeout=40s");
    await cluster.until(async () =>
      (await kubectl("get", "devicetaintrule", "broken-card", "-o", "yaml")).includes("reason: Completed"),
    );
  });

  test("when the examples are deleted, nothing is left of them", async () => {
    for (const name of ["single-gpu", "shared", "first-available", "partition", "share", "taint"]) {
      await kubectl("delete", "--ignore-not-found", "-f", file(name));
    }
    await cluster.until(async () => (await kubectl("get", "resourceclaims", "-o", "name")) === "");
    expect(await kubectl("get", "pods", "-o", "name")).toBe("");
  });
});
