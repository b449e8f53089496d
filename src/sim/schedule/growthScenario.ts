import { podGroupApiVersion, podGroupRef } from "../../model/scheduling/podGroup.ts";
import type { ActorPorts, ActorSpec } from "../actor.ts";
import type { Scenario } from "../scenario.ts";
import { plain, pod, podsRef, scheduleWith } from "./scenario.ts";

const subGroups = [
  { name: "a", minMember: 2 },
  { name: "b", minMember: 3 },
];
const turns = 12;

/** Running jobs with one subgroup get another one later, which starts completely or not at all. */
const user: ActorSpec = {
  name: "user",
  finite: true,
  isExemptFromFaults: true,
  run: async (ports) => {
    for (let turn = 0; turn < turns; turn++) {
      await ports.sleep(900);
      // 0: nothing. 1 to 5: a job; 6 to 10: an earlier one grows; 11 and 12: a job of the other queue.
      const what = ports.choose("turn", (dice) => dice.between(1, 12));
      const queue = turn % 2 === 0 ? "red" : "blue";
      if (what === 0) continue;
      if (what <= 5) await begin(ports, `w${turn}`, queue);
      else if (what <= 10) await grow(ports, `w${Math.max(0, turn - (what - 5))}`);
      else await ports.kube.create(podsRef, pod(`w${turn}`, { gpus: 2, queue }));
    }
  },
};

async function begin({ kube }: ActorPorts, name: string, queue: string): Promise<void> {
  const group = { ...plain(podGroupApiVersion, "PodGroup", name), spec: { queue, minSubGroup: 1, subGroups } };
  const metadata = { name, namespace: "default" };
  await kube.create(podGroupRef, { ...group, metadata });
  await members({ kube }, name, "a", 2);
}

async function grow({ kube }: ActorPorts, name: string): Promise<void> {
  const found = await kube.get({ ...podGroupRef, namespace: "default", name });
  // The group of a pod that is alone has another name.
  if (found.ok) await members({ kube }, name, "b", 3);
}

async function members({ kube }: Pick<ActorPorts, "kube">, group: string, subGroup: string, count: number) {
  for (let at = 0; at < count; at++) {
    await kube.create(podsRef, pod(`${group}-${subGroup}${at}`, { gpus: 1, group, subGroup }));
  }
}

export const growthScenario: Scenario = {
  ...scheduleWith(undefined, user),
  name: "schedule/growth",
  about: "jobs of two queues start with one subgroup and grow by another, under all faults",
};
