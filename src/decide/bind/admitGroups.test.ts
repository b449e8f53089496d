import { describe, expect, test } from "vitest";
import { userPod } from "../../../testing/decide/bindCluster.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { reservationNamespace } from "../../model/scheduling/keys.ts";
import { groupHook } from "./admitGroups.ts";

interface Marks {
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
  readonly node?: string;
}

function pod({ labels = {}, annotations = {}, node }: Marks): Pod {
  const plain = userPod({ name: "p", node, groups: [], annotations, spec: { schedulerName: "kai-scheduler" } });
  return { ...plain, metadata: { ...plain.metadata, labels, annotations } };
}

/** The fields that are refused. */
function refused(object: Pod, oldObject?: Pod, namespace = "default"): string[] {
  const operation = oldObject === undefined ? "CREATE" : "UPDATE";
  const user = { username: "tenant", groups: [] };
  const request = { uid: "u", operation, namespace, name: "p", object, oldObject, user, dryRun: false } as const;
  const verdict = groupHook.review(request, { get: () => undefined, list: () => [] });
  return verdict.allowed ? [] : (verdict.errors ?? []).map(({ field }) => field);
}

const group = { "runai-gpu-group": "g" };
const half = { "gpu-fraction": "0.5" };

describe("a new pod", () => {
  test.each<[string, Marks, string[]]>([
    ["without marks is admitted", { labels: { app: "a" } }, []],
    ["that asks for a share is admitted", { annotations: half }, []],
    ["on a node without a share is admitted", { node: "n" }, []],
    ["with a group is refused", { labels: group }, ["metadata.labels[runai-gpu-group]"]],
    [
      "with one of several groups is refused",
      { labels: { "runai-gpu-group/g": "g" } },
      ["metadata.labels[runai-gpu-group/g]"],
    ],
    ["with a share and a node is refused", { annotations: half, node: "n" }, ["spec.nodeName"]],
    [
      "with memory of a GPU and a node is refused",
      { annotations: { "gpu-memory": "1024" }, node: "n" },
      ["spec.nodeName"],
    ],
    [
      "with devices of the binder is refused",
      { annotations: { "muster.dev/gpu-devices": "{}" } },
      ["metadata.annotations[muster.dev/gpu-devices]"],
    ],
  ])("%s", (_, marks, fields) => {
    expect(refused(pod(marks))).toEqual(fields);
  });

  test("of the binder's own namespace has the group of its reservation", () => {
    expect(refused(pod({ labels: group, node: "n" }), undefined, reservationNamespace)).toEqual([]);
  });
});

describe("a pod that has no node yet", () => {
  test("gets its group, its devices and other ones, as the binder decides", () => {
    const marked = pod({ labels: group, annotations: { ...half, "muster.dev/gpu-devices": "{}" } });
    expect(refused(marked, pod({ annotations: half }))).toEqual([]);
    expect(refused(pod({ annotations: half }), marked)).toEqual([]);
  });
});

describe("a pod on a node", () => {
  const bound = pod({ labels: { ...group, app: "a" }, annotations: half, node: "n" });
  test.each<[string, Marks, string[]]>([
    ["may change its other labels", { labels: { ...group, app: "b" }, annotations: half, node: "n" }, []],
    ["does not leave its group", { annotations: half, node: "n" }, ["metadata.labels[runai-gpu-group]"]],
    [
      "does not enter another group",
      { labels: { "runai-gpu-group": "other" }, annotations: half, node: "n" },
      ["metadata.labels[runai-gpu-group]"],
    ],
    [
      "does not enter a second group",
      { labels: { ...group, "runai-gpu-group/other": "other" }, annotations: half, node: "n" },
      ["metadata.labels[runai-gpu-group/other]"],
    ],
    [
      "does not ask for another share",
      { labels: group, annotations: { "gpu-fraction": "0.9" }, node: "n" },
      ["metadata.annotations[gpu-fraction]"],
    ],
  ])("%s", (_, marks, fields) => {
    expect(refused(pod(marks), bound)).toEqual(fields);
  });
});
