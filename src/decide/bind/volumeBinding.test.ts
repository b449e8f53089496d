import { describe, expect, test } from "vitest";
import { node as nodeObject, userPod } from "../../../testing/decide/bindCluster.ts";
import type { PersistentVolume, PersistentVolumeClaim, StorageClass } from "../../model/kubernetes.generated.ts";
import { nextGiveBack, nextVolumeBinding, type VolumeBindingView } from "./volumeBinding.ts";

const meta = (name: string) => ({ name, uid: `uid-${name}`, resourceVersion: "5", creationTimestamp: "" });
const claimRef = { namespace: "team", name: "data", uid: "uid-data" };
const controlled = { "pv.kubernetes.io/bound-by-controller": "yes" };

function claim(spec: object = {}, status: object = {}, metadata: object = {}): PersistentVolumeClaim {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { ...meta("data"), namespace: "team", ...metadata },
    spec: {
      accessModes: ["ReadWriteOnce"],
      storageClassName: "disk",
      resources: { requests: { storage: "1Gi" } },
      ...spec,
    },
    status: { phase: "Pending", ...status },
  };
}

function volume(spec: object = {}, phase = "Available", host = "n1", annotations = {}): PersistentVolume {
  const expression = { key: "kubernetes.io/hostname", operator: "In", values: [host] };
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { ...meta("v"), annotations },
    spec: {
      accessModes: ["ReadWriteOnce"],
      capacity: { storage: "1Gi" },
      storageClassName: "disk",
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
      ...spec,
    },
    status: { phase },
  };
}

function storageClass(provisioner = "kubernetes.io/no-provisioner"): StorageClass {
  const kind = { apiVersion: "storage.k8s.io/v1", kind: "StorageClass" };
  return { ...kind, metadata: meta("disk"), provisioner, volumeBindingMode: "WaitForFirstConsumer" };
}

const labelled = nodeObject("n1");
const node = { ...labelled, metadata: { ...labelled.metadata, labels: { "kubernetes.io/hostname": "n1" } } };

function step(given: Partial<VolumeBindingView>) {
  const view = { pod: userPod(), node, claim: claim(), isEphemeral: false, storageClass: storageClass() };
  return nextVolumeBinding({ ...view, chosen: "v", volume: volume(), ...given });
}

describe("the volume of a claim that waited for its node", () => {
  test("is taken by the claim's UID, on the version that was read", () => {
    expect(step({})).toMatchObject({
      kind: "write",
      intent: { expected: { uid: "uid-v", resourceVersion: "5" }, patch: { spec: { claimRef } } },
    });
  });

  test.each([
    ["of another claim", { volume: volume({ claimRef: { ...claimRef, name: "other" } }) }],
    ["of an earlier claim of that name", { volume: volume({ claimRef: { ...claimRef, uid: "uid-before" } }) }],
    ["that is Released", { volume: volume({}, "Released") }],
    ["that is gone", { volume: undefined }],
    ["of another node", { volume: volume({}, "Available", "n2") }],
    ["that no decision names, of a class without a provisioner", { chosen: undefined, volume: undefined }],
  ])("fails the bind where it is one %s", (_, given) => {
    expect(step(given)).toMatchObject({ kind: "failed" });
  });

  test("is waited for once it is taken, and the pod is bound when the claim is", () => {
    expect(step({ volume: volume({ claimRef }) })).toMatchObject({ kind: "waiting" });
    const bound = claim({ volumeName: "v" }, { phase: "Bound" });
    expect(step({ claim: bound, volume: volume({ claimRef }, "Bound") })).toEqual({ kind: "ready" });
  });

  test("that a controller bound elsewhere fails the bind", () => {
    const bound = claim({ volumeName: "v" }, { phase: "Bound" });
    const elsewhere = volume({ claimRef }, "Bound", "n2");
    expect(step({ claim: bound, volume: elsewhere, chosen: undefined })).toEqual({
      kind: "failed",
      why: "node n1 cannot use PersistentVolume v of claim data: its node affinity excludes the node",
    });
  });

  test("is provisioned on the node, unless another node was selected before", () => {
    const given = { chosen: undefined, volume: undefined, storageClass: storageClass("disks.example.com") };
    const selected = (name: string) => claim({}, {}, { annotations: { "volume.kubernetes.io/selected-node": name } });
    expect(step(given)).toMatchObject({
      kind: "write",
      intent: { patch: { metadata: { annotations: { "volume.kubernetes.io/selected-node": "n1" } } } },
    });
    expect(step({ ...given, claim: selected("n1") })).toMatchObject({ kind: "waiting" });
    expect(step({ ...given, claim: selected("n2") })).toMatchObject({ kind: "failed" });
  });

  test("is not used for an ephemeral volume of another pod", () => {
    expect(step({ isEphemeral: true })).toEqual({
      kind: "failed",
      why: expect.stringContaining("was not created for pod"),
    });
  });
});

describe("a failed bind", () => {
  const given = { claim: claim(), chosen: "v", node: "n1", why: "it failed" };

  test("gives back the volume that it has taken", () => {
    const taken = volume({ claimRef }, "Available", "n1", controlled);
    expect(nextGiveBack({ ...given, volume: taken })).toMatchObject([{ patch: { spec: { claimRef: null } } }]);
  });

  test.each([
    ["that a controller is about to bind", volume({ claimRef }, "Bound", "n1", controlled), claim()],
    ["that a user has reserved", volume({ claimRef }), claim()],
    [
      "of another claim",
      volume({ claimRef: { ...claimRef, uid: "uid-before" } }, "Available", "n1", controlled),
      claim(),
    ],
    ["that the claim names", volume({ claimRef }, "Available", "n1", controlled), claim({ volumeName: "v" })],
  ])("leaves a volume alone %s", (_, found, of) => {
    expect(nextGiveBack({ ...given, claim: of, volume: found })).toEqual([]);
  });
});
