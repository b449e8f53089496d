import type { Cluster } from "../../decide/schedule/cluster/cluster.ts";
import type { ActorSpec } from "../actor.ts";
import type { Scenario } from "../scenario.ts";
import { pod, podsRef, scheduleWith, user } from "./scenario.ts";

/** The decision about a pod with this request throws. */
const poisonedCpu = { milli: 13, text: "13m" };

/** Makes the decisions of a scheduler throw on poisoned pods. */
function poison({ fit }: Cluster): void {
  const { best } = fit;
  fit.best = (shape) => {
    if (shape.cpuMilli === poisonedCpu.milli) throw new Error("a pod is poisoned");
    return best.call(fit, shape);
  };
}

const both: ActorSpec = {
  ...user,
  run: async (ports) => {
    for (const queue of ["red", "blue"]) {
      const { spec, ...rest } = pod(`poisoned-${queue}`, { gpus: 1, queue });
      const containers = spec.containers.map((container) => ({
        ...container,
        resources: { ...container.resources, requests: { ...container.resources?.requests, cpu: poisonedCpu.text } },
      }));
      await ports.kube.create(podsRef, { ...rest, spec: { ...spec, containers } });
    }
    await user.run(ports);
  },
};

export const poisonedScenario: Scenario = {
  ...scheduleWith(undefined, both, poison),
  name: "schedule/poisoned",
  about: "the decision throws on some pods, and all others are scheduled as without them, under all faults",
  plantedErrors: "is poisoned",
};
