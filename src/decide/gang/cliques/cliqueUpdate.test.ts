/** When the update of a clique begins, and which pods it deletes: one decision from the stored objects. */
import { describe, expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import { labels } from "../../../model/gang/keys.ts";
import type { PodClique, PodCliqueSet, PodCliqueStatus } from "../../../model/gang/types.ts";
import type { Pod } from "../../../model/kubernetes.generated.ts";
import { cliqueUpdate } from "./cliqueUpdate.ts";

const nowMs = Date.UTC(2026, 0, 1);
const now = "2026-01-01T00:00:00Z";

const pod = (name: string, hash: string, isReady: boolean): Pod =>
  partly<Pod>({
    metadata: { name, uid: name, creationTimestamp: now, labels: { [labels.templateHash]: hash } },
    status: { conditions: [{ type: "Ready", status: isReady ? "True" : "False" }] },
  });

const clique = (status: PodCliqueStatus = {}): PodClique =>
  partly<PodClique>({
    metadata: { name: "c", labels: { [labels.templateHash]: "mu-new" } },
    spec: { replicas: 2, minAvailable: 1 },
    status,
  });

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
  }) as PodCliqueSet;

const realised: PodCliqueStatus = { currentPodCliqueSetGenerationHash: "mu-g1", currentPodTemplateHash: "mu-old" };
const progress = { updateStartedAt: now, podCliqueSetGenerationHash: "mu-g2", podTemplateHash: "mu-new" };

const look = (status: PodCliqueStatus, pods: Pod[], of = set(0), isObserved = true) => {
  const seen = { set: of, clique: clique(status), setReplica: 0, pods, isLost: () => false, isObserved };
  const { progress: next, victims } = cliqueUpdate(seen, nowMs);
  return { next, victims: victims.map(({ metadata }) => metadata.name) };
};

test("a clique whose replica is being updated begins, and pods that are not ready are deleted at once", () => {
  expect(look(realised, [pod("a", "mu-old", true), pod("b", "mu-old", false)])).toEqual({
    next: progress,
    victims: ["b"],
  });
});

test("a clique whose replica is not being updated waits", () => {
  expect(look(realised, [pod("a", "mu-old", true)], set(1))).toEqual({ next: undefined, victims: [] });
});

test("a new clique has nothing to update", () => {
  expect(look({}, [pod("a", "mu-new", true)])).toEqual({ next: undefined, victims: [] });
});

test("a new clique whose template was changed while its first pods were in flight is updated", () => {
  const { next } = look({}, [pod("a", "mu-old", true), pod("b", "mu-old", true)]);
  expect(next).toMatchObject({ podTemplateHash: "mu-new", readyPodsSelectedToUpdate: { current: "a" } });
});

test("a hash of another operator is not an older template", () => {
  expect(look({}, [pod("a", "7d9f5c", true)])).toEqual({ next: undefined, victims: [] });
});

test("the chosen pod is recorded before it is deleted, and the next one waits for its successor", () => {
  const chosen = { ...progress, readyPodsSelectedToUpdate: { current: "a" } };
  const status = { ...realised, updateProgress: chosen };
  expect(look(status, [pod("a", "mu-old", true), pod("b", "mu-old", true)])).toEqual({ next: chosen, victims: ["a"] });
  expect(look(status, [pod("b", "mu-old", true), pod("n", "mu-new", false)])).toEqual({ next: chosen, victims: [] });
  expect(look(status, [pod("b", "mu-old", true), pod("n", "mu-new", true)]).next).toMatchObject({
    readyPodsSelectedToUpdate: { current: "b", completed: ["a"] },
  });
});

test("of those that are ready the oldest is chosen, and none while fewer than the minimum are ready", () => {
  const status = { ...realised, updateProgress: progress };
  const young = pod("a", "mu-old", true);
  const old = { ...pod("z", "mu-old", true), metadata: { ...pod("z", "mu-old", true).metadata } };
  old.metadata.creationTimestamp = "2025-06-01T00:00:00Z";
  expect(look(status, [young, old])).toEqual({
    next: { ...progress, readyPodsSelectedToUpdate: { current: "z" } },
    victims: [],
  });
  const needsThree = { ...clique(status), spec: { replicas: 3, minAvailable: 3 } } as PodClique;
  const seen = {
    set: set(0),
    clique: needsThree,
    setReplica: 0,
    pods: [young, old],
    isLost: () => false,
    isObserved: true,
  };
  expect(cliqueUpdate(seen, nowMs)).toEqual({ progress, victims: [] });
});

test("an update ends when nothing old is left and the minimum is ready", () => {
  const status = { ...realised, updateProgress: progress };
  expect(look(status, [pod("m", "mu-new", false), pod("n", "mu-new", false)]).next?.updateEndedAt).toBeUndefined();
  expect(look(status, [pod("m", "mu-new", true), pod("n", "mu-new", false)]).next?.updateEndedAt).toBe(now);
});

test("with OnDelete the update is complete when it begins", () => {
  expect(look(realised, [pod("a", "mu-old", true)], set(undefined, "OnDelete"))).toEqual({
    next: { ...progress, updateEndedAt: now },
    victims: [],
  });
});

/** The status records the new template for all pods: without an update, or after one. */
const upToDate: PodCliqueStatus = { currentPodCliqueSetGenerationHash: "mu-g2", currentPodTemplateHash: "mu-new" };
const ended = { ...progress, updateStartedAt: "2025-12-31T00:00:00Z", updateEndedAt: "2025-12-31T00:00:00Z" };

describe.each<[string, PodCliqueStatus]>([
  ["before any of its pods was observed", upToDate],
  ["after an update", { ...upToDate, updateProgress: ended }],
])("a clique that was recorded as up to date %s", (_when, status) => {
  test("is updated when a pod of an older template is observed late", () => {
    expect(look(status, [pod("a", "mu-old", false), pod("b", "mu-new", true)])).toEqual({
      next: progress,
      victims: ["a"],
    });
  });

  test("stays up to date while all its pods are of the new template, or of another operator", () => {
    const { updateProgress } = status;
    expect(look(status, [pod("b", "mu-new", false)])).toEqual({ next: updateProgress, victims: [] });
    expect(look(status, [pod("b", "7d9f5c", false)])).toEqual({ next: updateProgress, victims: [] });
  });

  test("waits for its replica, and until set and clique have recorded the template", () => {
    const { updateProgress } = status;
    const late = [pod("a", "mu-old", false)];
    expect(look(status, late, set(1))).toEqual({ next: updateProgress, victims: [] });
    expect(look(status, late, set(0), false)).toEqual({ next: updateProgress, victims: [] });
  });

  test("keeps a pod of an older template with OnDelete", () => {
    const { updateProgress } = status;
    const late = [pod("a", "mu-old", false)];
    expect(look(status, late, set(undefined, "OnDelete"))).toEqual({ next: updateProgress, victims: [] });
  });
});
