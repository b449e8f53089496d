/** When the update of a clique begins, and which pods it takes: one look, from what is stored. */
import { expect, test } from "vitest";
import { labels } from "../../model/gang/keys.ts";
import type { PodClique, PodCliqueSet, PodCliqueStatus } from "../../model/gang/types.ts";
import type { Pod } from "../../model/kubernetes.generated.ts";
import { cliqueUpdate } from "./cliqueUpdate.ts";

const nowMs = Date.UTC(2026, 0, 1);
const now = "2026-01-01T00:00:00Z";

const pod = (name: string, hash: string, isReady: boolean): Pod =>
  ({
    metadata: { name, uid: name, creationTimestamp: now, labels: { [labels.templateHash]: hash } },
    status: { conditions: [{ type: "Ready", status: isReady ? "True" : "False" }] },
  }) as unknown as Pod;

const clique = (status: PodCliqueStatus = {}): PodClique =>
  ({
    metadata: { name: "c", labels: { [labels.templateHash]: "mu-new" } },
    spec: { replicas: 2, minAvailable: 1 },
    status,
  }) as unknown as PodClique;

const set = (updating: number | undefined, strategy = "RollingRecreate"): PodCliqueSet =>
  ({
    spec: { updateStrategy: { type: strategy } },
    status: {
      currentGenerationHash: "mu-g2",
      updateProgress: {
        updateStartedAt: now,
        ...(updating === undefined ? {} : { currentlyUpdating: [{ replicaIndex: updating, updateStartedAt: now }] }),
      },
    },
  }) as unknown as PodCliqueSet;

const realised: PodCliqueStatus = { currentPodCliqueSetGenerationHash: "mu-g1", currentPodTemplateHash: "mu-old" };
const progress = { updateStartedAt: now, podCliqueSetGenerationHash: "mu-g2", podTemplateHash: "mu-new" };

const look = (status: PodCliqueStatus, pods: Pod[], of = set(0)) => {
  const { progress: next, victims } = cliqueUpdate({ set: of, clique: clique(status), setReplica: 0, pods }, nowMs);
  return { next, victims: victims.map(({ metadata }) => metadata.name) };
};

test("a clique whose turn it is begins, and what is not ready goes at once", () => {
  expect(look(realised, [pod("a", "mu-old", true), pod("b", "mu-old", false)])).toEqual({
    next: progress,
    victims: ["b"],
  });
});

test("a clique whose turn it is not waits", () => {
  expect(look(realised, [pod("a", "mu-old", true)], set(1))).toEqual({ next: undefined, victims: [] });
});

test("a new clique has nothing to update", () => {
  expect(look({}, [pod("a", "mu-new", true)])).toEqual({ next: undefined, victims: [] });
});

test("a new clique whose template was changed while its first pods were on their way is updated all the same", () => {
  const { next } = look({}, [pod("a", "mu-old", true), pod("b", "mu-old", true)]);
  expect(next).toMatchObject({ podTemplateHash: "mu-new", readyPodsSelectedToUpdate: { current: "a" } });
});

test("a foreign hash is no older template", () => {
  expect(look({}, [pod("a", "7d9f5c", true)])).toEqual({ next: undefined, victims: [] });
});

test("the chosen pod is on record before it goes, and the next one waits for its successor", () => {
  const chosen = { ...progress, readyPodsSelectedToUpdate: { current: "a" } };
  const status = { ...realised, updateProgress: chosen };
  expect(look(status, [pod("a", "mu-old", true), pod("b", "mu-old", true)])).toEqual({ next: chosen, victims: ["a"] });
  expect(look(status, [pod("b", "mu-old", true), pod("n", "mu-new", false)])).toEqual({ next: chosen, victims: [] });
  expect(look(status, [pod("b", "mu-old", true), pod("n", "mu-new", true)]).next).toMatchObject({
    readyPodsSelectedToUpdate: { current: "b", completed: ["a"] },
  });
});

test("an update ends when nothing old is left and the minimum is ready", () => {
  const status = { ...realised, updateProgress: progress };
  expect(look(status, [pod("m", "mu-new", false), pod("n", "mu-new", false)]).next?.updateEndedAt).toBeUndefined();
  expect(look(status, [pod("m", "mu-new", true), pod("n", "mu-new", false)]).next?.updateEndedAt).toBe(now);
});

test("on delete it is over as it begins", () => {
  expect(look(realised, [pod("a", "mu-old", true)], set(undefined, "OnDelete"))).toEqual({
    next: { ...progress, updateEndedAt: now },
    victims: [],
  });
});
