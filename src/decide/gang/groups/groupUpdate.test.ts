/** When the update of a scaling group begins again: only when a clique of an older template is observed late. */
import { expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import type {
  PodCliqueScalingGroup,
  PodCliqueScalingGroupStatus,
  PodCliqueSet,
  UpdateStrategyType,
} from "../../../model/gang/types.ts";
import { generationHash } from "../sets/hashes.ts";
import type { GroupReplica } from "./groupFacts.ts";
import { groupUpdate } from "./groupUpdate.ts";

const nowMs = Date.UTC(2026, 0, 1);
const now = "2026-01-01T00:00:00Z";
const template = { name: "g", cliqueNames: ["m"], replicas: 2, minAvailable: 1 };
const spec = {
  replicas: 1,
  template: { cliques: [{ name: "m", spec: { podSpec: { containers: [] } } }], podCliqueScalingGroups: [template] },
};
const generation = generationHash(partly<PodCliqueSet>({ spec }));

const set = (changes: { strategy?: UpdateStrategyType; noted?: string; updating?: number } = {}): PodCliqueSet =>
  partly<PodCliqueSet>({
    metadata: { name: "s" },
    spec: { ...spec, updateStrategy: { type: changes.strategy ?? "RollingRecreate" } },
    status: {
      currentGenerationHash: changes.noted ?? generation,
      ...(changes.updating !== undefined && {
        updateProgress: {
          updateStartedAt: now,
          currentlyUpdating: [{ replicaIndex: changes.updating, updateStartedAt: now }],
        },
      }),
    },
  });

const replica = (index: number, isOld: boolean): GroupReplica => ({
  index,
  cliques: partly<GroupReplica["cliques"]>([{ metadata: { name: `s-0-g-${index}-m`, uid: `m${index}` } }]),
  isComplete: true,
  isScheduled: false,
  isBreached: false,
  isAvailable: false,
  isUpdated: !isOld,
  isOld,
});

const realised: PodCliqueScalingGroupStatus = { currentPodCliqueSetGenerationHash: generation };
const earlier = "2025-12-31T00:00:00Z";
const ended = { updateStartedAt: earlier, updateEndedAt: earlier, podCliqueSetGenerationHash: generation };

const look = (status: PodCliqueScalingGroupStatus, isOld: boolean, of = set()) => {
  const group = partly<PodCliqueScalingGroup>({ metadata: { name: "s-0-g" }, spec: template, status });
  const home = { set: of, setReplica: 0, template };
  const { progress, terminations } = groupUpdate(group, home, [replica(0, isOld), replica(1, false)], nowMs);
  return { begins: progress?.updateStartedAt === now, goes: terminations.map(({ replicaIndex }) => replicaIndex) };
};

test.each<[string, PodCliqueScalingGroupStatus]>([
  ["before any of its cliques was observed", realised],
  ["after an update", { ...realised, updateProgress: ended }],
])(
  "a group that was recorded as up to date %s is updated when a clique of an older template is observed late",
  (_, status) => {
    expect(look(status, true)).toEqual({ begins: true, goes: [0] });
    expect(look(status, false)).toEqual({ begins: false, goes: [] });
    expect(look(status, true, set({ updating: 0 }))).toEqual({ begins: true, goes: [0] });
  },
);

test.each<[string, PodCliqueSet]>([
  ["until its set has recorded the template", set({ noted: "mu-before" })],
  ["until its set replica is being updated", set({ updating: 1 })],
  ["where cliques are patched in place", set({ strategy: "OnDelete" })],
])("that waits %s", (_when, of) => {
  for (const status of [realised, { ...realised, updateProgress: ended }]) {
    // A set that has not recorded the template has the older generation hash, and so has the group.
    const { currentGenerationHash = "" } = of.status ?? {};
    const said = { ...status, currentPodCliqueSetGenerationHash: currentGenerationHash };
    expect(look(said, true, of)).toMatchObject({ goes: [] });
    expect(look(said, true, of).begins).toBe(false);
  }
});
