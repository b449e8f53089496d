import { describe, expect, test } from "vitest";
import { testPod, testWorld } from "../../../testing/kubelet/nodeContext.ts";
import { unreadableKnobs } from "./unreadableKnobs.ts";

describe("what a pod asks of its node", () => {
  test.each([
    ["sim.muster.dev/run-duration", "5 minutes", "a duration such as 1m30s"],
    ["sim.muster.dev/run-duration.main", "-1s", "a duration such as 1m30s"],
    ["pod-ready.stage.kwok.x-k8s.io/delay", "1000", "a duration such as 1m30s"],
    ["sim.muster.dev/outcome", "Exploded", "one of Completed, Error"],
    ["sim.muster.dev/exit-code", "256", "a number from 0 to 255"],
    ["sim.muster.dev/failures", "some", "a whole number"],
  ])("%s of %j cannot be read: it has to be %s", (key, text, wanted) => {
    const problems = unreadableKnobs(testPod({ annotations: { [key]: text } }));
    expect(problems).toEqual([expect.stringContaining(`${key} is ${JSON.stringify(text)}, and has to be ${wanted}`)]);
  });

  test.each([
    { "sim.muster.dev/run-duration": "1m30s", "sim.muster.dev/outcome": "OOMKilled", "sim.muster.dev/exit-code": "0" },
    { "pod-ready.stage.kwok.x-k8s.io/delay": "5s", "sim.muster.dev/failures": "2", "example.com/other": "5 minutes" },
    // Of a container that the pod does not have, so it is never read.
    { "sim.muster.dev/outcome.other": "Exploded" },
  ])("%j is understood, or not about the node", (annotations) => {
    expect(unreadableKnobs(testPod({ annotations }))).toEqual([]);
  });

  test("is passed over when it cannot be read, and an Event says so", () => {
    const world = testWorld();
    world.add(testPod({ annotations: { "sim.muster.dev/run-duration": "5 minutes" } }));
    world.run(60_000);
    expect(world.pod("p").status?.phase).toBe("Running");
    expect(world.events).toMatchObject([{ reason: "AnnotationUnreadable" }, { reason: "Started" }]);
  });
});
