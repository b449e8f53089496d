import { expect, test } from "vitest";
import { node, pod } from "../../../test/verify/builders.ts";
import { snapshotWith } from "../../../test/verify/syntheticCluster.ts";
import { type ClusterSnapshot, clusterSnapshot } from "../verify/clusterSnapshot.ts";
import type { KindName } from "../verify/readKinds.ts";
import { parseSnapshot, snapshotText } from "../verify/snapshotFile.ts";
import type { AuditCheck } from "./auditCheck.ts";
import { auditChecks } from "./auditChecks.ts";
import { auditLook, findingKey } from "./auditLook.ts";
import { auditResult } from "./auditResult.ts";
import { auditRole } from "./auditRole.ts";
import { Persistence } from "./persistence.ts";

const lost = { pods: [pod("t/a", { node: "gone" })], nodes: [node("n1")] };
const named = (name: string): readonly AuditCheck[] => auditChecks.filter((check) => check.name === name);
const progress = { cluster: "c", looks: 1, waitedMs: 0, wallMs: 0 };

function without(snapshot: ClusterSnapshot, kind: KindName, refused?: string): ClusterSnapshot {
  const kinds = new Map(snapshot.kinds);
  const known = kinds.get(kind);
  kinds.delete(kind);
  if (refused !== undefined && known !== undefined) kinds.set(kind, { ...known, served: false, refused, objects: [] });
  return clusterSnapshot(snapshot.revision, snapshot.takenAtMs, kinds);
}

test("a snapshot of an older version lacks kinds: the checks that read them are unknown", () => {
  const look = auditLook(without(snapshotWith(lost), "services"), auditChecks);
  const unknown = look.checks.filter((each) => each.unknown !== undefined);
  expect(unknown.map(({ check }) => check.name)).toEqual(["webhook-without-backend", "finalizer-unserved"]);
  expect(unknown[0]?.unknown).toBe("the snapshot was taken without services");
});

test("a kind that could not be listed is still unknown after it was saved and read back", () => {
  const snapshot = without(snapshotWith(lost), "queues", "queues is forbidden");
  const [look] = auditLook(parseSnapshot([...snapshotText(snapshot)].join(""), "file"), named("queue-quota")).checks;
  expect(look?.unknown).toBe("queues may not be listed: queues is forbidden");
});

test("a check that ends with an error is unknown, and the others go on", () => {
  const broken: AuditCheck = {
    ...(named("pod-terminating")[0] as AuditCheck),
    find: () => {
      throw new Error("no such field");
    },
  };
  const look = auditLook(snapshotWith(lost), [broken, ...named("pod-on-missing-node")]);
  const persistence = new Persistence(0);
  persistence.record(look, 0);
  const result = auditResult(look, persistence.findings, progress);
  expect(result.checks.map(({ status }) => status)).toEqual(["unknown", "failed"]);
  expect(result).toMatchObject({ verdict: "fail", exitCode: 1 });
});

test("a finding is the same one when only its numbers differ", () => {
  const [check] = named("pod-terminating") as [AuditCheck];
  const key = (problem: string): string => findingKey(check, { object: "pods/t/a-1", problem });
  expect(key("should have been deleted 600 s ago")).toBe(key("should have been deleted 615 s ago"));
  expect(findingKey(check, { object: "pods/t/a-2", problem: "x" })).not.toBe(key("x"));
});

test("what a check had found keeps its time while the check is unknown", () => {
  const checks = named("pod-on-missing-node");
  const persistence = new Persistence();
  persistence.record(auditLook(snapshotWith(lost), checks), 0);
  persistence.record(auditLook(without(snapshotWith(lost), "nodes", "no"), checks), 60_000);
  expect(persistence.findings).toEqual([]);
  persistence.record(auditLook(snapshotWith(lost), checks), 120_000);
  expect(persistence.findings).toMatchObject([{ heldMs: 120_000, persists: true }]);
});

test("the role has no verb but list, and names each kind once", () => {
  const role = auditRole(auditChecks);
  expect(role.match(/verbs: .*/g)?.every((verbs) => verbs === "verbs: [list]")).toBe(true);
  expect(auditRole(named("queue-quota"))).toContain('- apiGroups: ["scheduling.run.ai"]\n    resources: [queues]');
});
