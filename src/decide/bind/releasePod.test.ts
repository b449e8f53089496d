import { expect, test } from "vitest";
import { userPod } from "../../../testing/decide/bindCluster.ts";
import { releasePod } from "./releasePod.ts";

const patchOf = (...args: Parameters<typeof releasePod>) => releasePod(...args).patch;

test("the label of a group is removed, and the patch has no other labels", () => {
  const pod = userPod({ node: undefined, groups: ["X"] });
  pod.metadata.labels = { ...pod.metadata.labels, team: "a" };
  expect(patchOf(pod, ["X"], "")).toMatchObject({ metadata: { labels: { "runai-gpu-group": null } } });
  expect(Object.keys((patchOf(pod, ["X"], "")["metadata"] as { labels: object }).labels)).toEqual(["runai-gpu-group"]);
});

test("the labels of a pod on several GPUs are removed in one write", () => {
  const pod = userPod({ node: undefined, groups: ["X", "Y", "Z"] });
  expect(patchOf(pod, ["X", "Y"], "")).toMatchObject({
    metadata: { labels: { "runai-gpu-group/X": null, "runai-gpu-group/Y": null } },
  });
});

test("the patch carries UID and version, so that another pod of the same name is not changed", () => {
  const { target, expected } = releasePod(userPod({ node: undefined }), ["X"], "");
  expect([target, expected]).toMatchObject([
    { plural: "pods", namespace: "team", name: "f" },
    { uid: "uid-f", resourceVersion: "5" },
  ]);
});

test("a pod without labels is written too, each time with a new value", () => {
  const bare = userPod({ node: undefined, groups: [] });
  const once = patchOf(bare, ["X"], "") as { metadata: { annotations: Record<string, string> } };
  const { annotations } = once.metadata;
  expect(annotations).toMatchObject({ "muster.dev/released-groups": "X", "muster.dev/releases": "1" });
  const released = userPod({
    node: undefined,
    groups: [],
    annotations: { "muster.dev/released-groups": "X", "muster.dev/releases": "1" },
  });
  expect(patchOf(released, ["X"], "")).toMatchObject({
    metadata: { annotations: { "muster.dev/released-groups": "X", "muster.dev/releases": "2" } },
  });
});
