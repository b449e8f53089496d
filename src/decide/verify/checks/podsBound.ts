import { type Check, passOrFail } from "../check.ts";
import { podName } from "../placement.ts";

export const podsBound: Check = {
  id: "S1",
  title: "every pod in scope has a node",
  byDefault: true,
  settles: true,
  needs: ["pods", "jobs"],
  run: ({ tally, config }) => {
    const failing = config.strict ? [...tally.unscheduled, ...tally.settling] : tally.unscheduled;
    const evidence = [
      ...failing.map((pod) => ({ object: podName(pod), problem: "has no node" })),
      ...tally.runningWithoutNode.map((pod) => ({
        object: podName(pod),
        problem: `is in phase ${pod.status?.phase}, but has no node`,
      })),
    ];
    return passOrFail(evidence, `${tally.counts.total} pods in scope`);
  },
};
