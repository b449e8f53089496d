/** The page, the manifests and the alerts speak of the checks and metrics that there are. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { auditMetricWords } from "../../src/cli/audit/auditMetrics.ts";
import { auditChecks } from "../../src/decide/audit/auditChecks.ts";
import { auditLook } from "../../src/decide/audit/auditLook.ts";
import { auditRole } from "../../src/decide/audit/auditRole.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { snapshotWith } from "../verify/syntheticCluster.ts";

const read = (path: string): string => readFileSync(join(import.meta.dirname, "../..", path), "utf8");
const page = read("docs/audit.md");

test("docs/audit.md has a row for each check, in order, in the words of the report", () => {
  const rows = page.split("\n").filter((line) => /^\| `[a-z-]+` \| .+ \| .+ \| .+ \|$/.test(line));
  expect(rows).toEqual(
    auditChecks.map(({ name, meaning, cause, cure }) => `| \`${name}\` | ${meaning} | ${cause} | ${cure} |`),
  );
});

test("docs/audit.md has a row for each metric, with its help text", () => {
  const rows = [...page.matchAll(/^\| `(muster_audit_[a-z_]+)(?:\{check\})?` \| (.+) \|$/gm)];
  expect(rows.map(([, name, help]) => [name, help])).toEqual(
    Object.entries(auditMetricWords).map(([name, { help }]) => [name, help]),
  );
});

test("deploy/audit.yaml has the role that is printed, and no right besides", () => {
  const roles = parseAllDocuments(read("deploy/audit.yaml"))
    .map((document) => document.toJS() as { kind: string; rules?: unknown })
    .filter(({ kind }) => /Role$/.test(kind));
  expect(roles).toEqual([parse(auditRole(auditChecks))]);
});

test("alerts ask for metrics that are exported and checks that exist, and name a section of the page", () => {
  const alerts = parse(read("deploy/audit-alerts.yaml")) as {
    spec: { groups: { rules: { expr: string; annotations: { runbook: string } }[] }[] };
  };
  const anchors = [...page.matchAll(/^### (.+)$/gm)].map(([, title = ""]) => title.toLowerCase().replaceAll(" ", "-"));
  for (const { expr, annotations } of alerts.spec.groups.flatMap(({ rules }) => rules)) {
    const names = expr.match(/muster_audit_[a-z_]+/g) ?? [];
    expect(names.length).toBeGreaterThan(0);
    for (const name of names) expect(Object.keys(auditMetricWords)).toContain(name);
    for (const check of /check=~?"([^"]+)"/.exec(expr)?.[1]?.split("|") ?? []) {
      expect(auditChecks.map(({ name }) => name)).toContain(check);
    }
    expect(anchors.map((anchor) => `docs/audit.md#${anchor}`)).toContain(annotations.runbook);
  }
});

test("the rights of Muster on a cluster of its own are not too wide", () => {
  const objects = parseAllDocuments(read("deploy/muster.yaml")).map((document) => document.toJS() as KubeObject | null);
  const of = (kind: string): KubeObject[] =>
    objects.filter((each) => each !== null).filter((each) => each.kind === kind);
  const snapshot = snapshotWith({ clusterroles: of("ClusterRole"), clusterrolebindings: of("ClusterRoleBinding") });
  const checks = auditChecks.filter(({ name }) => name === "scheduler-rights");
  expect(of("ClusterRoleBinding").length).toBeGreaterThan(0);
  expect(auditLook(snapshot, checks).checks.flatMap(({ findings }) => findings)).toEqual([]);
});
