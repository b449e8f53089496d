import { describe, expect, test } from "vitest";
import { userPod } from "../../../testing/decide/bindCluster.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { readGpuRequest } from "../../model/scheduling/gpuRequest.ts";
import { fractionErrors, fractionHooks, fractionRules, sharedPod } from "./admitFraction.ts";

function asking(annotations: Record<string, string>, spec: object = {}, name = "f"): Pod {
  return userPod({ name, node: undefined, groups: [], annotations, spec: { schedulerName: "kai-scheduler", ...spec } });
}

const wholeGpu = { resources: { limits: { "nvidia.com/gpu": "1" } } };
const withGpu = {
  containers: [
    { name: "main", image: "i" },
    { name: "side", image: "i", ...wholeGpu },
  ],
};
const withInit = {
  containers: [{ name: "main", image: "i" }],
  initContainers: [{ name: "init", image: "i", ...wholeGpu }],
};

describe("a share of a GPU", () => {
  test.each(["0", "1", "1.5", "-0.5", "0.0099", "1e-10", "NaN", "0x1p-1", "abc", ""])("%s is refused", (fraction) => {
    expect(fractionErrors(asking({ "gpu-fraction": fraction }), fractionRules)).toMatchObject([
      { field: "metadata.annotations[gpu-fraction]" },
    ]);
  });

  test.each(["0.5", "5e-1", "0.01"])("%s is accepted", (fraction) => {
    expect(fractionErrors(asking({ "gpu-fraction": fraction }), fractionRules)).toEqual([]);
  });

  test.each(["0.5", ".5", "+.5", "+0.5", "5.e-1", "5e-1", "0.999999", "1e-2"])(
    "every accepted notation is understood by the scheduler as well: %s",
    (fraction) => {
      const pod = asking({ "gpu-fraction": fraction });
      expect(fractionErrors(pod, fractionRules)).toEqual([]);
      expect(readGpuRequest(pod, 0)).toMatchObject({ gpu: { type: "fraction" } });
    },
  );

  test.each([
    ["0", 1],
    ["-1", 1],
    ["1.5", 1],
    ["10Gi", 1],
    ["99999999999999999999", 1],
    ["99", 1],
    ["100", 0],
    ["1024", 0],
  ])("a memory of %s has %i errors", (memory, errors) => {
    expect(fractionErrors(asking({ "gpu-memory": memory }), fractionRules)).toHaveLength(errors);
  });

  test.each([
    ["devices without a share", { "gpu-fraction-num-devices": "2" }, {}],
    ["no devices", { "gpu-fraction": "0.5", "gpu-fraction-num-devices": "0" }, {}],
    ["a number of devices that is not a number", { "gpu-fraction": "0.5", "gpu-fraction-num-devices": "x" }, {}],
    ["a fraction and an amount of memory", { "gpu-fraction": "0.5", "gpu-memory": "1024" }, {}],
    ["MPS without a share", { mps: "true" }, {}],
    ["a share beside a whole GPU of another container", { "gpu-fraction": "0.5" }, withGpu],
    ["memory beside a whole GPU of an init container", { "gpu-memory": "1024" }, withInit],
    ["a container that does not exist", { "gpu-fraction": "0.5", "gpu-fraction-container-name": "x" }, {}],
  ])("%s is refused", (_, annotations, spec) => {
    expect(fractionErrors(asking(annotations as Record<string, string>, spec), fractionRules)).toHaveLength(1);
  });

  test("where GPU sharing is disabled a share is refused, and a whole GPU is not", () => {
    const rules = { ...fractionRules, gpuSharing: false };
    expect(fractionErrors(asking({ "gpu-fraction": "0.5" }), rules)).toHaveLength(1);
    expect(fractionErrors(asking({}, withGpu), rules)).toEqual([]);
  });
});

describe("a pod that shares", () => {
  test("gets its variables and its volume once, however often it is admitted", () => {
    const once = sharedPod(asking({ "gpu-fraction": "0.5" }), fractionRules, "request-1") as Pod;
    const prefix = once.metadata.annotations?.["runai/shared-gpu-configmap"];
    expect(prefix).toMatch(/^f-[0-9a-z]{7}-shared-gpu$/);
    const map = `${prefix}-0`;
    expect(once.spec?.containers[0]).toMatchObject({
      env: [{ name: "NVIDIA_VISIBLE_DEVICES" }, { name: "RUNAI_NUM_OF_GPUS" }, { name: "GPU_PORTION" }],
      envFrom: [{ configMapRef: { name: `${map}-evar`, optional: false } }],
    });
    expect(once.spec?.volumes).toEqual([{ name: `${map}-vol`, configMap: { name: map } }]);
    expect(sharedPod(once, fractionRules, "request-2")).toEqual(once);
  });

  test("of a controller has a ConfigMap of its own, though it has neither name nor UID yet", () => {
    const { name: _, uid: __, ...metadata } = asking({ "gpu-fraction": "0.5" }).metadata;
    const pod = { ...asking({}), metadata: { ...metadata, generateName: "job-" } } as Pod;
    const prefixes = ["request-1", "request-2"].map(
      (uid) => sharedPod(pod, fractionRules, uid)?.metadata.annotations?.["runai/shared-gpu-configmap"],
    );
    expect(new Set(prefixes).size).toBe(2);
  });

  test("has valid names, whatever its own is", () => {
    const dotted = sharedPod(asking({ "gpu-fraction": "0.5" }, {}, "a.b.c"), fractionRules, "request-1") as Pod;
    expect(dotted.spec?.volumes?.[0]?.name).toMatch(/^[a-z0-9-]+$/);
    const long = sharedPod(
      asking({ "gpu-fraction": "0.5" }, {}, `${"a".repeat(33)}.-b${"c".repeat(100)}`),
      fractionRules,
      "request-1",
    ) as Pod;
    const prefix = long.metadata.annotations?.["runai/shared-gpu-configmap"] ?? "";
    expect(prefix).toMatch(/^a{33}-[0-9a-z]{7}-shared-gpu$/);
    expect(long.spec?.volumes?.[0]?.name.length).toBeLessThanOrEqual(63);
  });

  test("the name distinguishes an init container", () => {
    const spec = { containers: [{ name: "main", image: "i" }], initContainers: [{ name: "init", image: "i" }] };
    const pod = sharedPod(
      asking({ "gpu-fraction": "0.5", "gpu-fraction-container-name": "init" }, spec),
      fractionRules,
      "request-1",
    ) as Pod;
    expect(pod.spec?.initContainers?.[0]?.envFrom?.[0]?.configMapRef?.name).toMatch(/-i0-evar$/);
    expect(pod.spec?.containers[0]).not.toHaveProperty("env");
  });

  test("of another scheduler is left alone, and so is one that shares nothing", () => {
    const [mutating, validating] = fractionHooks();
    const review = (pod: Pod) => {
      const about = { operation: "CREATE" as const, namespace: "team", name: "f", oldObject: undefined, dryRun: false };
      const request = {
        ...about,
        uid: "request-1",
        object: pod,
        user: { username: "u", groups: [] },
      };
      const lookup = { get: () => undefined, list: () => [] };
      return [mutating?.review(request, lookup), validating?.review(request, lookup)];
    };
    const other = userPod({ annotations: { "gpu-fraction": "7" }, spec: { schedulerName: "default-scheduler" } });
    expect(review(other)).toEqual([{ allowed: true }, { allowed: true }]);
    expect(review(asking({}))).toEqual([{ allowed: true }, { allowed: true }]);
    expect(review(asking({ "gpu-fraction": "7" }))).toMatchObject([{ allowed: true }, { allowed: false }]);
  });
});
