import { expect, test } from "vitest";
import { custom, event, pod, refusedBy, type TestPodOptions } from "../../../test/verify/builders.ts";
import { snapshotWith } from "../../../test/verify/syntheticCluster.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { classify } from "./classify.ts";
import { eventsInAll, eventsOfPods, eventsToPrint } from "./podEvents.ts";

const group = [custom("scheduling.run.ai/v2alpha2", "PodGroup", "t/g", { spec: { minMember: 2 } })];
const inGang: TestPodOptions = { annotations: { "pod-group-name": "g" } };
const refused = refusedBy("0/2 nodes are available: 2 Insufficient cpu.");

const cases: { name: string; wish: TestPodOptions; others?: KubeObject[]; class: string; why: string }[] = [
  { name: "no attempt is recorded", wish: {}, class: "never tried", why: "no scheduling attempt" },
  { name: "a condition says no", wish: { status: refused }, class: "refused", why: "2 Insufficient cpu" },
  {
    name: "a gate holds it",
    wish: { spec: { schedulingGates: [{ name: "quota" }] } },
    class: "gated",
    why: "scheduling gate: quota",
  },
  {
    name: "it was refused, and room is being made since",
    wish: { status: { ...refused, nominatedNodeName: "n1" } },
    class: "nominated",
    why: "preemption makes room on n1",
  },
  {
    name: "its claim does not exist",
    wish: { status: refused, spec: { resourceClaims: [{ name: "gpu", resourceClaimName: "c" }] } },
    class: "waiting for claim",
    why: "the claim c does not exist",
  },
  {
    name: "its claim is not created",
    wish: { spec: { resourceClaims: [{ name: "gpu", resourceClaimTemplateName: "tpl" }] } },
    class: "waiting for claim",
    why: "from the template tpl",
  },
  {
    name: "its gang is not complete",
    wish: inGang,
    class: "waiting for gang",
    why: "podgroups/t/g: the gang has 1 of 2",
  },
  {
    name: "its gang is complete and was refused",
    wish: { ...inGang, status: refused },
    others: [pod("t/other", { node: "", ...inGang })],
    class: "refused",
    why: "Insufficient cpu",
  },
];

test.each(cases)("$name: $class", ({ wish, others = [], why, ...expected }) => {
  const waiting = pod("t/p", { node: "", ...wish });
  const snapshot = snapshotWith({
    pods: [waiting, ...others],
    podgroups: group,
    resourceclaims: [],
    resourceslices: [],
  });
  const found = classify(snapshot, waiting);
  expect(found.class).toBe(expected.class);
  expect(found.why).toContain(why);
});

test.each(["FailedScheduling", "Unschedulable"])("an event %s alone is an attempt", (reason) => {
  const waiting = pod("t/p", { node: "" });
  const events = [event(waiting, reason, "0/1 nodes are available: 1 Too many pods.", "2026-05-28T11:00:00Z")];
  const snapshot = snapshotWith({ pods: [waiting], events });
  const shown = eventsOfPods(snapshot, [waiting]).get(waiting.metadata.uid);
  expect(classify(snapshot, waiting, shown)).toMatchObject({
    class: "refused",
    reasons: [{ nodes: 1, reason: "Too many pods" }],
  });
});

test("the newer one of a refusal and a wait for a release is the reason", () => {
  const waiting = pod("t/p", { node: "", status: refused });
  const note = "waits for what is being released on n1";
  const at = (refusalMinute: number, releaseMinute: number): unknown => {
    const events = [
      event(waiting, "FailedScheduling", "0/1 nodes are available", `2026-05-28T11:0${refusalMinute}:00Z`),
      event(waiting, "Pipelined", note, `2026-05-28T11:0${releaseMinute}:00Z`),
    ];
    const snapshot = snapshotWith({ pods: [waiting], events });
    return classify(snapshot, waiting, eventsOfPods(snapshot, [waiting]).get(waiting.metadata.uid));
  };
  expect(at(1, 2)).toMatchObject({ class: "nominated", why: note });
  expect(at(2, 1)).toMatchObject({ class: "refused" });
});

test("the condition of a gate that was removed is no gate", () => {
  const status = { conditions: [{ type: "PodScheduled", status: "False", reason: "SchedulingGated" }] };
  const waiting = pod("t/p", { node: "", status });
  expect(classify(snapshotWith({ pods: [waiting] }), waiting).class).toBe("never tried");
});

test("events are of this pod and not of its namesake, and fifty in all are printed", () => {
  const pods = Array.from({ length: 20 }, (_, at) => pod(`t/p${at}`, { node: "" }));
  const namesake = { ...pods[0]!, metadata: { ...pods[0]!.metadata, uid: "an-earlier-life" } };
  const events = [...pods, namesake].flatMap((each) =>
    [1, 2, 3].map((minute) =>
      event(each, "FailedScheduling", `of ${each.metadata.uid}`, `2026-05-28T11:0${minute}:00Z`),
    ),
  );
  const byUid = eventsOfPods(snapshotWith({ pods, events }), pods);
  expect([...byUid.values()].flat()).toHaveLength(20 * 3);
  const shown = [...eventsToPrint(pods, byUid).values()].flat();
  expect(shown).toHaveLength(eventsInAll);
  expect(shown.some(({ message }) => message.includes("earlier"))).toBe(false);
  expect(byUid.get(pods[0]!.metadata.uid)?.map(({ at }) => at)).toEqual([
    "2026-05-28T11:03:00Z",
    "2026-05-28T11:02:00Z",
    "2026-05-28T11:01:00Z",
  ]);
});
