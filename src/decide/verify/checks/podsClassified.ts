import type { Check } from "../check.ts";
import { classify } from "../classify.ts";
import { podName } from "../placement.ts";
import { eventsOfPods } from "../podEvents.ts";

/** Always passes: it explains the pods for which S1 fails. */
export const podsClassified: Check = {
  id: "S12",
  title: "every unscheduled pod has a class and its reasons",
  byDefault: true,
  settles: false,
  needs: ["pods", "resourceclaims", "podgroups", "podgangs"],
  run: ({ snapshot, tally }) => {
    const pods = [...tally.unscheduled, ...tally.settling];
    const events = eventsOfPods(snapshot, pods);
    const counts = new Map<string, number>();
    const evidence = pods.map((pod) => {
      const found = classify(snapshot, pod, events.get(pod.metadata.uid));
      counts.set(found.class, (counts.get(found.class) ?? 0) + 1);
      return { object: podName(pod), problem: `${found.class}: ${found.why}` };
    });
    const summary = [...counts].map(([name, count]) => `${count} ${name}`).join(", ");
    return { status: "passed", message: pods.length === 0 ? "no pod is unscheduled" : summary, evidence };
  },
};
