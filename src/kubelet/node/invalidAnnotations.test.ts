import { describe, expect, test } from "vitest";
import { testNode, testPod } from "../../../testing/kubelet/nodeContext.ts";
import { invalidAnnotations } from "./invalidAnnotations.ts";

describe("annotations of a pod for its node", () => {
  test.each([
    ["sim.muster.dev/run-duration", "5 minutes", "a duration such as 1m30s"],
    ["sim.muster.dev/run-duration.main", "-1s", "a duration such as 1m30s"],
    ["pod-ready.stage.kwok.x-k8s.io/delay", "1000", "a duration such as 1m30s"],
    ["sim.muster.dev/outcome", "Exploded", "one of Completed, Error"],
    ["sim.muster.dev/exit-code", "256", "a number from 0 to 255"],
    ["sim.muster.dev/failures", "some", "a whole number"],
  ])("%s of %j is invalid: it has to be %s", (key, text, wanted) => {
    const problems = invalidAnnotations(testPod({ annotations: { [key]: text } }));
    expect(problems).toEqual([expect.stringContaining(`${key} is ${JSON.stringify(text)}, and has to be ${wanted}`)]);
  });

  test.each([
    { "sim.muster.dev/run-duration": "1m30s", "sim.muster.dev/outcome": "OOMKilled", "sim.muster.dev/exit-code": "0" },
    { "pod-ready.stage.kwok.x-k8s.io/delay": "5s", "sim.muster.dev/failures": "2", "example.com/other": "5 minutes" },
    // Of a container that the pod does not have, so it is never read.
    { "sim.muster.dev/outcome.other": "Exploded" },
  ])("%j is valid, or not for the node", (annotations) => {
    expect(invalidAnnotations(testPod({ annotations }))).toEqual([]);
  });

  test("are ignored when they are invalid, and an Event reports it", () => {
    const testbed = testNode();
    testbed.add(testPod({ annotations: { "sim.muster.dev/run-duration": "5 minutes" } }));
    testbed.run(60_000);
    expect(testbed.pod("p").status?.phase).toBe("Running");
    expect(testbed.events).toMatchObject([{ reason: "AnnotationUnreadable" }, { reason: "Started" }]);
  });
});
