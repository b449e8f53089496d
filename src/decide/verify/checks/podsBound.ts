import { type Check, judged } from "../check.ts";
import { podName } from "../placement.ts";

export const podsBound: Check = {
  id: "S1",
  title: "every pod in scope has a node",
  byDefault: true,
  settles: true,
  needs: ["pods", "jobs"],
  run: ({ tally, config }) => {
    const short = config.strict ? [...tally.unscheduled, ...tally.settling] : tally.unscheduled;
    const evidence = [
      ...short.map((pod) => ({ object: podName(pod), problem: "has no node" })),
      ...tally.nowhere.map((pod) => ({
        object: podName(pod),
        problem: `says that it is ${pod.status?.phase}, and has no node`,
      })),
    ];
    return judged(evidence, `${tally.counts.total} pods in scope`);
  },
};
