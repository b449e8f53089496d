import { expect, test } from "vitest";
import { startMs, testNode, testPod } from "../../../testing/kubelet/nodeContext.ts";
import { seededBelow } from "../../model/values/seeded.ts";
import { assignmentOf } from "../devices/devices.ts";
import { generalDelays } from "../pods/podPlan.ts";
import { drawFaults, type FaultKind, faultKinds } from "./faults.ts";

const kinds = (Object.keys(faultKinds) as FaultKind[]).filter(
  (kind) => kind !== "node-delete" && kind !== "mig-reconfigure",
);
const order = ["Pending", "Running", "Succeeded", "Failed"];
const faultMs = 10 * 60_000;

/** A node with pods under faults drawn from a seed; the invariants are checked at every step. */
function live(seed: string): string {
  const faults = drawFaults({
    seed,
    nodes: [{ name: "pool-0", gpus: 8 }],
    kinds,
    fromMs: startMs,
    untilMs: startMs + faultMs,
    count: 12,
    lastsMsMax: 120_000,
  });
  const testbed = testNode({ faults, options: { delays: generalDelays } });
  const holders = new Map<string, string>();
  for (let second = 0; second < 900; second += 5) {
    if (second % 30 === 0 && second < 600) {
      const i = second / 30;
      const gpus = seededBelow(4, seed, "gpus", i);
      const policy = ["Always", "OnFailure", "Never"][seededBelow(3, seed, "policy", i)] ?? "Always";
      const annotations: Record<string, string> =
        seededBelow(2, seed, "runs", i) === 0
          ? {}
          : { "sim.muster.dev/run-duration": `${seededBelow(60, seed, "run", i)}s` };
      testbed.add(testPod({ name: `p${i}`, gpus, spec: { restartPolicy: policy }, annotations }));
      const victim = testbed.pods.get(`p${i - 5}`);
      if (victim !== undefined && victim.metadata.deletionTimestamp === undefined) {
        testbed.remove(`p${i - 5}`, seededBelow(2, seed, "force", i) === 0 ? 30 : 0);
      }
    }
    testbed.run(5000);
    holders.clear();
    for (const pod of testbed.pods.values()) {
      const isOver = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
      for (const ids of isOver ? [] : Object.values(assignmentOf(pod)).flatMap((each) => Object.values(each))) {
        for (const id of ids) {
          expect(holders.has(id), `device ${id} has two holders`).toBe(false);
          holders.set(id, pod.metadata.uid);
        }
      }
    }
    for (const orphan of testbed.orphans) {
      if (orphan.untilMs <= testbed.nowMs) continue;
      for (const id of orphan.devices)
        expect(holders.has(id), `device ${id} is still in use by a deleted pod`).toBe(false);
    }
  }
  for (const phases of testbed.phases.values()) {
    const ranks = phases.map((phase) => Math.min(order.indexOf(phase), 2));
    expect(ranks).toEqual([...new Set(ranks)].sort((a, b) => a - b));
  }
  const { conditions, capacity, allocatable } = testbed.node?.status ?? {};
  expect(conditions?.find(({ type }) => type === "Ready")?.status).toBe("True");
  expect(allocatable).toEqual(capacity);
  for (const pod of testbed.pods.values()) expect(pod.metadata.deletionTimestamp).toBeUndefined();
  return JSON.stringify([
    [...testbed.pods.values()],
    testbed.node,
    testbed.lease,
    testbed.events.length,
    testbed.writes,
  ]);
}

test("under faults no device has two holders, phases never go back, and after them the node is healthy", () => {
  for (let seed = 0; seed < 15; seed++) live(`seed-${seed}`);
});

test("the same seed gives the same bytes", () => {
  expect(live("again")).toBe(live("again"));
});
