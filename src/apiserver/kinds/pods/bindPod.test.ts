import { expect, test } from "vitest";
import { nowMs, nowText } from "../../../../test/fixtures/kindWrites.ts";
import { partly } from "../../../../testing/partly.ts";
import type { Binding, Node, Pod } from "../../../model/kubernetes.generated.ts";
import { StatusError } from "../../../model/objects/status.ts";
import { bindPod } from "./bindPod.ts";

const pod = (edit: (pod: Pod) => void = () => {}): Pod => {
  const made: Pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: "p",
      namespace: "ns",
      uid: "u1",
      resourceVersion: "5",
      creationTimestamp: nowText,
      labels: { a: "1" },
    },
    spec: { containers: [{ name: "c", image: "i" }] },
    status: {
      phase: "Pending",
      nominatedNodeName: "n9",
      conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: "0/1 nodes" }],
    },
  };
  edit(made);
  return made;
};
const binding = (target: Binding["target"], metadata: Partial<Binding["metadata"]> = {}): Binding =>
  ({ apiVersion: "v1", kind: "Binding", metadata: { name: "p", ...metadata }, target }) as Binding;
const node = partly<Node>({
  metadata: { name: "n1", labels: { "topology.kubernetes.io/zone": "z1", other: "x" } },
});

test("binding sets the node, merges labels and annotations, and sets PodScheduled", () => {
  const before = pod();
  const frozen = JSON.stringify(before);
  const sent = binding({ kind: "Node", name: "n1" }, { annotations: { why: "fits" }, labels: { a: "2" } });
  const bound = bindPod({ pod: before, binding: sent, node, nowMs }) as Pod;
  expect(bound.spec?.nodeName).toBe("n1");
  expect(bound.metadata.annotations).toEqual({ why: "fits" });
  expect(bound.metadata.labels).toEqual({ a: "2", "topology.kubernetes.io/zone": "z1" });
  expect(bound.status).toEqual({
    phase: "Pending",
    conditions: [{ type: "PodScheduled", status: "True", lastTransitionTime: nowText }],
  });
  expect(JSON.stringify(before)).toBe(frozen);
});

test("a pod can be bound to a node that does not exist yet", () => {
  expect(bindPod({ pod: pod(), binding: binding({ name: "ghost" }), node: undefined, nowMs })).not.toBeInstanceOf(
    StatusError,
  );
});

const terminating = (p: Pod): void => {
  p.metadata.deletionTimestamp = nowText;
};
const gated = (p: Pod): void => {
  if (p.spec) p.spec.schedulingGates = [{ name: "g" }];
};
const placed = (p: Pod): void => {
  if (p.spec) p.spec.nodeName = "n1";
};

test.each<[string, Pod, Binding, number, string]>([
  ["no target", pod(), binding({}), 422, 'Binding "p" is invalid: target.name: Required value'],
  [
    "another kind of target",
    pod(),
    binding({ kind: "Pod", name: "x" }),
    422,
    'Binding "p" is invalid: target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
  ],
  [
    "a pod on its way out",
    pod(terminating),
    binding({ name: "n1" }),
    409,
    'Operation cannot be fulfilled on pods/binding "p": pod p is being deleted, cannot be assigned to a host',
  ],
  [
    "a pod that has a node, even the same",
    pod(placed),
    binding({ name: "n1" }),
    409,
    'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"',
  ],
  [
    "a gated pod",
    pod(gated),
    binding({ name: "n1" }),
    409,
    'Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates',
  ],
  [
    "another pod of the name",
    pod(),
    binding({ name: "n1" }, { uid: "u2" }),
    409,
    'Operation cannot be fulfilled on pods "p": Precondition failed: UID in precondition: u2, UID in object meta: u1',
  ],
  [
    "an older pod",
    pod(),
    binding({ name: "n1" }, { resourceVersion: "4" }),
    409,
    'Operation cannot be fulfilled on pods "p": Precondition failed: ResourceVersion in precondition: 4, ResourceVersion in object meta: 5',
  ],
])("binding is refused: %s", (_name, target, sent, code, message) => {
  const refused = bindPod({ pod: target, binding: sent, node, nowMs });
  expect(refused).toBeInstanceOf(StatusError);
  expect((refused as StatusError).status).toMatchObject({ code, message });
});
