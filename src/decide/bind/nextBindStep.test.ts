import { describe, expect, test } from "vitest";
import { node, request, reserved, userPod } from "../../../testing/decide/bindCluster.ts";
import { partly } from "../../../testing/partly.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { annotationKeys, labelKeys } from "../../model/scheduling/keys.ts";
import { type BindView, nextBindStep } from "./nextBindStep.ts";
import { devicesAnnotation, newReservation, reservationDefaults, reservationName } from "./reservation.ts";

const waitingPod = userPod({ node: undefined, phase: "Pending", groups: [] });
const held = { "uid-f": "team/f" };
const options = { reservation: reservationDefaults, cdi: false };

function view(given: Partial<BindView> & { reserved?: readonly Pod[] } = {}): BindView {
  const { reserved: reservations = [], ...rest } = given;
  return {
    request: request(),
    pod: waitingPod,
    node: node(),
    commitSize: 0,
    reservations: (group) => reservations.filter(({ metadata }) => metadata.labels?.["runai-gpu-group"] === group),
    sharers: () => [],
    freeGpus: 8,
    isScalingUp: false,
    otherDevices: new Map(),
    done: new Set(),
    configured: undefined,
    hasLooked: false,
    confirmedAt: undefined,
    hasCounted: false,
    waitingSinceMs: undefined,
    podsRevision: "9",
    nowMs: 0,
    ...rest,
  };
}

const step = (given: Parameters<typeof view>[0] = {}) => nextBindStep(view(given), options);

describe("a bind of a share", () => {
  test("creates the reservation first, with its pod as holder and without a node", () => {
    expect(step({ reserved: [reserved({ group: "Z" })] })).toMatchObject({
      type: "write",
      intent: {
        type: "create",
        object: {
          metadata: {
            name: reservationName("n1", "X"),
            annotations: { "muster.dev/holders": JSON.stringify(held), "muster.dev/reserves-on": "n1" },
          },
          spec: expect.not.objectContaining({ nodeName: expect.anything() }),
        },
      },
    });
  });

  test("binds the reservation on the version that it read, after request and pod were read at a revision that has it", () => {
    const made = reserved({ node: undefined, phase: "Pending", device: "", holders: held });
    expect(step({ reserved: [made] })).toEqual({ type: "confirm", since: "5" });
    expect(step({ reserved: [made], confirmedAt: "4" })).toEqual({ type: "confirm", since: "5" });
    expect(step({ reserved: [made], confirmedAt: "5" })).toMatchObject({
      type: "place",
      intent: { type: "bind", target: { name: "r" }, expected: { uid: "uid-r", resourceVersion: "5" }, node: "n1" },
    });
    // A reservation of another binder: a pod that relies on it is recorded on it first.
    const others = reserved({ node: undefined, phase: "Pending", device: "" });
    expect(step({ reserved: [others], confirmedAt: "5" })).toMatchObject({ type: "write", intent: { type: "patch" } });
    const elsewhere = request({ node: "n2" });
    expect(step({ request: elsewhere, node: node("n2"), reserved: [made] })).toMatchObject({
      type: "failed",
      why: "GPU group X is reserved on node n1, not on n2",
    });
  });

  test("waits where pods use the device of a lost reservation, until a new one requests it", () => {
    const sharers = () => [userPod({ name: "a", device: "GPU-1" })];
    const lost = { type: "wait", why: "the reservation of GPU group X was lost, and pods use its device" };
    expect(step({ sharers })).toEqual(lost);
    const made = reserved({ node: undefined, phase: "Pending", device: "", holders: held });
    expect(step({ sharers, reserved: [made], confirmedAt: "5" })).toEqual(lost);
    const annotations = { ...made.metadata.annotations, "muster.dev/pin-device": "GPU-1" };
    const asking = { ...made, metadata: { ...made.metadata, annotations } };
    expect(step({ sharers, reserved: [asking], confirmedAt: "5" })).toMatchObject({ type: "place" });
  });

  test("joins an existing reservation by recording its pod on it, on the version that it read", () => {
    expect(step({ reserved: [reserved()] })).toMatchObject({
      type: "write",
      intent: { type: "patch", target: { name: "r" }, expected: { uid: "uid-r", resourceVersion: "5" } },
    });
  });

  test("waits for a device as long as the node may take, and no longer", () => {
    const silent = reserved({ device: "", holders: held });
    expect(step({ reserved: [silent] })).toMatchObject({ type: "wait", untilMs: 40_000, forDevice: true });
    expect(step({ reserved: [silent], waitingSinceMs: 10_000, nowMs: 49_999 })).toMatchObject({ type: "wait" });
    expect(step({ reserved: [silent], waitingSinceMs: 10_000, nowMs: 50_000 })).toMatchObject({ type: "failed" });
  });

  test("labels its pod once the device is known", () => {
    const next = step({ reserved: [reserved({ device: "4", holders: held })] });
    expect(next).toMatchObject({
      type: "write",
      intent: {
        type: "patch",
        target: { name: "f" },
        expected: { uid: "uid-f", resourceVersion: "5" },
        patch: {
          metadata: { labels: { "runai-gpu-group": "X" }, annotations: { [devicesAnnotation]: '{"X":"4"}' } },
        },
      },
    });
  });

  test("removes labels of an earlier attempt", () => {
    const before = userPod({ node: undefined, phase: "Pending", groups: ["old"] });
    expect(step({ pod: before, reserved: [reserved({ holders: held })] })).toMatchObject({
      intent: { patch: { metadata: { labels: { "runai-gpu-group": "X" } } } },
    });
  });

  test("configures, then binds, with the UID and the version of the pod", () => {
    const labelled = userPod({
      node: undefined,
      phase: "Pending",
      device: "GPU-1",
      annotations: {
        [annotationKeys.receivedResourceType]: "Fraction",
        "runai/shared-gpu-configmap": "f-abc-shared-gpu",
      },
    });
    const ready = { pod: labelled, reserved: [reserved({ holders: held })] };
    const configure = step(ready);
    expect(configure).toMatchObject({ type: "configure" });
    expect(configure.type === "configure" && configure.maps.map(({ metadata }) => metadata.name)).toEqual([
      "f-abc-shared-gpu-0",
      "f-abc-shared-gpu-0-evar",
    ]);
    expect(step({ ...ready, configured: ["GPU-1"] })).toMatchObject({
      intent: { type: "bind", node: "n1", expected: { uid: "uid-f", resourceVersion: "5" } },
    });
    // Its reservation was deleted and created again meanwhile, on another device.
    expect(step({ ...ready, configured: ["GPU-0"] })).toMatchObject({ type: "configure", devices: ["GPU-1"] });
  });

  test("creates no reservation while the cluster is scaled up, and joins existing ones", () => {
    expect(step({ isScalingUp: true })).toMatchObject({ type: "failed" });
    expect(step({ isScalingUp: true, reserved: [reserved()] })).toMatchObject({ type: "write" });
  });

  test("fails at once where no GPU is free, instead of waiting for a device that cannot come", () => {
    const why = expect.stringContaining("no GPU left");
    expect(step({ freeGpus: 0, hasCounted: true })).toMatchObject({ type: "failed", why });
  });

  test("the cache alone never proves that no GPU is free: it may lag behind a deletion", () => {
    expect(step({ freeGpus: 0 })).toEqual({ type: "look", what: "gpus" });
  });

  test("a terminating reservation is not used", () => {
    expect(step({ reserved: [reserved({ isGoing: true })] })).toMatchObject({ type: "wait" });
  });

  test("a reservation that the node refused fails the attempt at once", () => {
    expect(step({ reserved: [reserved({ phase: "Failed" })] })).toMatchObject({ type: "failed" });
  });

  test("a reservation of that group on another node is not used", () => {
    expect(step({ reserved: [reserved({ node: "n2" })] })).toMatchObject({ type: "failed" });
  });

  test("a device that another group reports too fails the bind", () => {
    const next = step({ reserved: [reserved({ holders: held })], otherDevices: new Map([["GPU-1", "Z"]]) });
    expect(next).toMatchObject({ type: "failed", why: "GPU groups X and Z both have device GPU-1" });
  });

  test("of the old form without groups is discarded", () => {
    expect(step({ request: request({ groups: [] }) })).toMatchObject({ type: "discard" });
  });

  test("of several groups labels each by its own key", () => {
    const several = request({ groups: ["X", "Y"] });
    const both = [reserved({ holders: held }), reserved({ group: "Y", name: "s", device: "GPU-2", holders: held })];
    expect(step({ request: several, reserved: both })).toMatchObject({
      intent: { patch: { metadata: { labels: { "runai-gpu-group/X": "X", "runai-gpu-group/Y": "Y" } } } },
    });
  });
});

describe("a bind", () => {
  test("reads the API before it concludes that its pod is gone", () => {
    expect(step({ pod: undefined })).toEqual({ type: "look", what: "pod" });
    expect(step({ node: undefined })).toEqual({ type: "look", what: "node" });
  });

  test("for another pod of that name fails, once a consistent read has shown it", () => {
    const other = userPod({ uid: "other", node: undefined, groups: [] });
    expect(step({ pod: other })).toEqual({ type: "look", what: "pod" });
    expect(step({ pod: other, hasLooked: true })).toMatchObject({ type: "failed" });
  });

  test("of a bound pod has succeeded, and reports a node other than its own", () => {
    expect(step({ pod: userPod() })).toEqual({ type: "succeeded", node: "n1" });
    expect(step({ pod: userPod({ node: "n2" }) })).toEqual({ type: "succeeded", node: "n2" });
  });

  test("of a gang does not begin before all of its BindRequests exist", () => {
    const gang = request({ annotations: { [annotationKeys.commit]: "c", [annotationKeys.commitSize]: "3" } });
    expect(step({ request: gang, commitSize: 2 })).toMatchObject({ type: "wait" });
    expect(step({ request: gang, commitSize: 3 })).toMatchObject({ type: "write" });
  });

  test("of an earlier scheduler leader is not carried out, once the pod was read", () => {
    const late = request({ annotations: { [annotationKeys.decidedIn]: "none" } });
    const { annotations, ...metadata } = waitingPod.metadata;
    const marked = {
      ...waitingPod,
      metadata: { ...metadata, annotations: { ...annotations, [annotationKeys.schedulerEpoch]: "e2" } },
    };
    expect(step({ request: late, pod: waitingPod })).toMatchObject({ type: "write" });
    expect(step({ request: late, pod: marked })).toEqual({ type: "look", what: "pod" });
    expect(step({ request: late, pod: marked, hasLooked: true })).toMatchObject({ type: "failed" });
    const own = request({ annotations: { [annotationKeys.decidedIn]: "e2" } });
    expect(step({ request: own, pod: marked })).toMatchObject({ type: "write" });
  });

  test.each([
    ["Succeeded", request({ phase: "Succeeded" }), "done"],
    ["Failed without retries", request({ phase: "Failed" }), "done"],
    ["Failed with its retries used up", request({ phase: "Failed", attempts: 4, limit: 3 }), "done"],
    ["Failed with retries left", request({ phase: "Failed", attempts: 3, limit: 3 }), "write"],
  ])("that has %s is %s", (_, given, type) => {
    expect(step({ request: given })).toMatchObject({ type });
  });

  test("of a whole-GPU pod is one write, which also records the allocation", () => {
    const predictedNUMAZones = [{ id: 1 }];
    const plain = request({ type: "Regular", groups: [], spec: { predictedNUMAZones } as never });
    const annotations = {
      [annotationKeys.receivedResourceType]: "Regular",
      "kai.scheduler/numa-placement-predicted": JSON.stringify(predictedNUMAZones),
    };
    const pod = userPod({ node: undefined, groups: [] });
    expect(step({ request: plain, pod })).toMatchObject({ intent: { type: "bind", annotations } });
  });

  test("of a whole-GPU pod removes what an earlier share left, before the bind", () => {
    const pod = userPod({ node: undefined, groups: ["old"] });
    expect(step({ request: request({ type: "Regular", groups: [] }), pod })).toMatchObject({
      intent: { type: "patch", patch: { metadata: { labels: { [labelKeys.gpuGroup]: null } } } },
    });
  });

  test.each([
    ["claims", { spec: { resourceClaimAllocations: [{ name: "gpu" }] } }, {}],
    ["volumes", {}, { spec: { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "c" } }] } }],
  ])("with %s writes to the pod first, and so fails if the pod was replaced", (_, more, ofPod) => {
    const pod = userPod({ node: undefined, groups: [], ...ofPod });
    expect(step({ request: request({ type: "Regular", groups: [], ...more } as never), pod })).toMatchObject({
      intent: {
        type: "patch",
        expected: { uid: "uid-f", resourceVersion: pod.metadata.resourceVersion },
        patch: { metadata: { annotations: { [annotationKeys.receivedResourceType]: "Regular" } } },
      },
    });
  });

  test("with claims and volumes writes those first", () => {
    const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "c" } }];
    const annotations = { [annotationKeys.receivedResourceType]: "Regular" };
    const pod = userPod({ node: undefined, groups: [], annotations, spec: { volumes } });
    const given = request({ type: "Regular", groups: [], spec: { resourceClaimAllocations: [{ name: "gpu" }] } });
    expect(step({ request: given, pod })).toEqual({ type: "claim" });
    expect(step({ request: given, pod, done: new Set(["claimed"]) })).toEqual({ type: "volumes" });
    expect(step({ request: given, pod, done: new Set(["claimed", "volumes"]) })).toMatchObject({
      intent: { type: "bind" },
    });
  });
});

describe("a reservation pod", () => {
  const tolerations = [{ key: "gpu", operator: "Exists" }];
  const make = (given: object = {}) =>
    partly<Pod>(
      newReservation({
        node: "n1",
        group: "X",
        users: [userPod({ spec: { tolerations } })],
        options: { ...reservationDefaults, ...given },
      }),
    );

  test("has the tolerations of its pod", () => {
    expect(make().spec?.tolerations).toEqual(tolerations);
  });

  test("requests one GPU, whatever its options, and their CPU and memory", () => {
    const podResources = { requests: { cpu: "10m", "nvidia.com/gpu": "4" }, limits: { "nvidia.com/gpu": "4" } };
    expect(make({ podResources }).spec?.containers[0]?.resources).toEqual({
      requests: { cpu: "10m", "nvidia.com/gpu": "1" },
      limits: { "nvidia.com/gpu": "1" },
    });
  });

  test("has the security contexts of its options, or none", () => {
    expect(make().spec).not.toHaveProperty("securityContext");
    expect(make({ podSecurityContext: { runAsUser: 7 } }).spec?.securityContext).toEqual({ runAsUser: 7 });
  });

  test("is not moved by a cluster autoscaler", () => {
    expect(make().metadata.annotations?.["karpenter.sh/do-not-disrupt"]).toBe("true");
  });
});
