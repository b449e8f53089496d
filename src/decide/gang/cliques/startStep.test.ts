/** When a pod that starts after others may start: its predecessors must be ready on nodes that run them. */
import { expect, test } from "vitest";
import { initContainerName, labels } from "../../../model/gang/keys.ts";
import { startWaitAnnotation, startWaitPending } from "../../../model/gang/settings.ts";
import type { Node, Pod } from "../../../model/kubernetes.generated.ts";
import { decideStart } from "./startStep.ts";

const nowMs = Date.UTC(2026, 0, 1, 12);

const pod = (name: string, clique: string, more: { metadata?: object; spec?: object; isReady?: boolean }): Pod =>
  ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: "default",
      uid: name,
      resourceVersion: "1",
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: { [labels.clique]: clique },
      ...more.metadata,
    },
    spec: { containers: [], nodeName: `node-of-${name}`, ...more.spec },
    status: { conditions: [{ type: "Ready", status: more.isReady ? "True" : "False" }] },
  }) as Pod;

const waiting = pod("w", "s-0-second", {
  metadata: { annotations: { [startWaitAnnotation]: startWaitPending } },
  spec: { initContainers: [{ name: initContainerName, args: ["--podcliques=s-0-first:1"] }] },
});

const unreachable = {
  metadata: { name: "n" },
  status: { conditions: [{ type: "Ready", status: "Unknown", lastTransitionTime: "2026-01-01T01:00:00Z" }] },
} as Node;

test.each<{ first: string; predecessor: Pod; node?: Node | "gone"; starts: boolean }>([
  { first: "ready", predecessor: pod("p", "s-0-first", { isReady: true }), starts: true },
  { first: "not ready", predecessor: pod("p", "s-0-first", {}), starts: false },
  {
    first: "ready and being deleted",
    predecessor: pod("p", "s-0-first", { isReady: true, metadata: { deletionTimestamp: "2026-01-01T11:00:00Z" } }),
    starts: false,
  },
  {
    first: "ready by its last status, on a node that is unreachable",
    predecessor: pod("p", "s-0-first", { isReady: true }),
    node: unreachable,
    starts: false,
  },
  {
    first: "ready by its last status, on a node that is deleted",
    predecessor: pod("p", "s-0-first", { isReady: true }),
    node: "gone",
    starts: false,
  },
])("a predecessor that is $first: starts $starts", ({ predecessor, node, starts }) => {
  const nodeOf = (of: Pod) => (of === predecessor ? node : undefined);
  const { intents } = decideStart({ absentAtRevision: () => "1", pods: [predecessor, waiting], nodeOf }, nowMs);
  expect(intents.map(({ type, target }) => `${type} ${target.name}`)).toEqual(starts ? ["patch w"] : []);
});
