/** The checks of `muster verify` as invariants of the simulated cluster. */
import type { ObjectStore } from "../../apiserver/storage/objectStore.ts";
import type { CheckId } from "../../decide/verify/check.ts";
import { chosenChecks } from "../../decide/verify/checks.ts";
import { type ClusterSnapshot, clusterSnapshot, type SnapshotKind } from "../../decide/verify/clusterSnapshot.ts";
import { judge } from "../../decide/verify/judge.ts";
import { allKinds, type KindName, readKind } from "../../decide/verify/readKinds.ts";
import { verifyConfig } from "../../decide/verify/verifyConfig.ts";
import type { Invariant } from "../invariant.ts";

/** The invariant of each check. */
const numbers = {
  S1: "I17",
  S2: "I7",
  S3: "I1",
  S4: "I5",
  S5: "I4",
  S6: "I1",
  S7: "I2",
  S8: "I3",
  S9: "I10",
  S10: "I15",
} as const satisfies Partial<Record<CheckId, string>>;

export type GuardedCheck = keyof typeof numbers;

/** Holds when everything has come to rest. */
export function checkAtRest(id: GuardedCheck): Invariant {
  return { ...about(id), begin: ({ store }) => ({ atRest: () => findingOf(id, store) }) };
}

/** Holds after every commit of a kind that the check reads; for facts that must hold at every revision. */
export function checkAlways(id: GuardedCheck): Invariant {
  const concerns = new Set(chosenChecks([id]).flatMap(({ needs }) => needs.map(storageKey)));
  return {
    ...about(id),
    begin: ({ store }) => ({
      commit: ({ event }) => (concerns.has(event.current.resource) ? findingOf(id, store) : undefined),
    }),
  };
}

function about(id: GuardedCheck): { id: string; fact: string } {
  const [check] = chosenChecks([id]);
  return { id: numbers[id], fact: `${id}: ${check?.title ?? ""}` };
}

function findingOf(id: GuardedCheck, store: ObjectStore): string | undefined {
  const config = verifyConfig({ checks: [id], excluded: [], allowEmpty: true });
  const found = judge(snapshotOf(store), config).checks.find((check) => check.id === id);
  return found?.status === "failed" ? found.message : undefined;
}

/** Everything in the store, as a snapshot has it. */
export function snapshotOf(store: ObjectStore): ClusterSnapshot {
  const revision = String(store.revision);
  const stored = new Set(store.resources());
  const kinds = new Map<KindName, SnapshotKind>();
  for (const name of allKinds) {
    const { group, versions, plural, builtin } = readKind(name);
    const key = storageKey(name);
    const objects = stored.has(key) ? [...store.collection(key).all()].map((version) => version.object()) : [];
    const served = builtin === true || stored.has(key);
    kinds.set(name, { group, version: versions[0], plural, revision, served, objects });
  }
  return clusterSnapshot(revision, 0, kinds);
}

function storageKey(name: KindName): string {
  const { group, plural } = readKind(name);
  return `${group}/${plural}`;
}
