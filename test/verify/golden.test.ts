/** Reports as files. A change of wording is a change for every script that reads them, so it shows here. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { reportFormats } from "../../src/cli/verify/verifyFlags.ts";
import { reportText } from "../../src/cli/verify/verifyReports.ts";
import { defaultChecks } from "../../src/decide/verify/checks.ts";
import type { ClusterSnapshot } from "../../src/decide/verify/clusterSnapshot.ts";
import { judge, resultOf, resultWithout } from "../../src/decide/verify/judge.ts";
import { parseSnapshot, snapshotText } from "../../src/decide/verify/snapshotFile.ts";
import { verifyConfig } from "../../src/decide/verify/verifyConfig.ts";
import type { VerifyResult } from "../../src/decide/verify/verifyResult.ts";
import { githubAnnotations } from "../../src/reports/github.ts";
import { startMs } from "./builders.ts";
import { brokenCluster, healthyCluster } from "./syntheticCluster.ts";

const config = verifyConfig({ checks: defaultChecks });
const looked = { cluster: "https://127.0.0.1:6443", attempts: 1, waitedMs: 0, wallMs: 0, history: [] };
const context = { startedAtMs: startMs, endedAtMs: startMs + 1_500, version: "0.1.0" };
const saved = (snapshot: ClusterSnapshot): string => [...snapshotText(snapshot)].join("");

/** Through the file and back, as `muster verify --snapshot` does. */
const resultFor = (snapshot: ClusterSnapshot): VerifyResult => {
  const read = parseSnapshot(saved(snapshot), "cluster.json");
  return resultOf(read, judge(read, config), config, looked);
};

const unreachable = {
  class: "unreachable",
  message: "Failed to list pods: connect ECONNREFUSED 127.0.0.1:6443",
} as const;
const cases = [
  { name: "healthy", result: resultFor(healthyCluster), exitCode: 0 },
  { name: "broken", result: resultFor(brokenCluster), exitCode: 1 },
  { name: "unreachable", result: resultWithout(unreachable, 3, config, looked), exitCode: 3 },
];
const endings = { text: "txt", json: "json", ctrf: "ctrf.json", junit: "junit.xml", github: "md" } as const;

describe.each(cases)("$name", ({ name, result, exitCode }) => {
  test(`ends with ${exitCode}`, () => {
    expect(result.exitCode).toBe(exitCode);
  });

  test.each([...reportFormats])("%s", async (format) => {
    const text = reportText(format, result, context);
    await expect(text).toMatchFileSnapshot(`golden/${name}.${endings[format]}`);
  });

  test("annotations", async () => {
    await expect(githubAnnotations(result)).toMatchFileSnapshot(`golden/${name}.annotations.txt`);
  });

  test("the summary of the CTRF report is what its tests say", () => {
    const { results } = JSON.parse(reportText("ctrf", result, context)) as {
      results: { summary: Record<string, number>; tests: { status: string }[] };
    };
    expect(results.summary["tests"]).toBe(results.tests.length);
    for (const status of ["passed", "failed", "skipped", "other"]) {
      expect(results.summary[status]).toBe(results.tests.filter((each) => each.status === status).length);
    }
  });
});

test("the saved cluster is a file that is read back as it was", async () => {
  await expect(saved(brokenCluster)).toMatchFileSnapshot("golden/cluster.json");
  const file = readFileSync(new URL("./golden/cluster.json", import.meta.url), "utf8");
  expect(parseSnapshot(file, "cluster.json")).toEqual(brokenCluster);
});

test.each([
  ["is not JSON", "{"],
  ["is not a ClusterSnapshot", `{"kind":"List"}`],
  ["lacks revision", `{"apiVersion":"muster.dev/v1","kind":"ClusterSnapshot"}`],
  [
    "lacks name or objects",
    `{"apiVersion":"muster.dev/v1","kind":"ClusterSnapshot","revision":"1","takenAt":"2026-01-01T00:00:00Z","kinds":[{}]}`,
  ],
  ["has no name", saved(healthyCluster).replace(`"name":"worker-0"`, `"nome":"worker-0"`)],
  ["has no list of pods", saved(healthyCluster).replace(`"name":"pods"`, `"name":"cods"`)],
])("a file that %s is refused", (problem, text) => {
  expect(() => parseSnapshot(text, "f.json")).toThrow(problem);
});
