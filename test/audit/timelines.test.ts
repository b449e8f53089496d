/** What an audit reports of a cluster that changes while it looks: timelines with a scripted API and a virtual clock. */
import { describe, expect, test } from "vitest";
import { type AuditOptions, runAudit } from "../../src/control/audit/runAudit.ts";
import { auditChecks } from "../../src/decide/audit/auditChecks.ts";
import type { AuditResult } from "../../src/decide/audit/auditResult.ts";
import { refused } from "../../src/model/outcome.ts";
import { CancelSource } from "../../src/ports/cancelSource.ts";
import { auditText } from "../../src/reports/auditText.ts";
import { ManualClock } from "../../testing/apiserver/manualClock.ts";
import { node, pod, pods, startMs } from "../verify/builders.ts";
import { settled } from "../verify/play.ts";
import { type Script, ScriptedApi } from "../verify/scriptedApi.ts";

interface Played {
  readonly result: AuditResult;
  readonly api: ScriptedApi;
  /** Virtual seconds. */
  readonly tookS: number;
  readonly watched: readonly AuditResult[];
}

async function play(script: Script, options: Partial<AuditOptions> = {}, interruptAtS?: number): Promise<Played> {
  const clock = new ManualClock(startMs);
  const api = new ScriptedApi(clock, script);
  const cancel = new CancelSource();
  const watched: AuditResult[] = [];
  if (interruptAtS !== undefined) clock.after(interruptAtS * 1000, () => cancel.cancel());
  const running = runAudit(
    { kube: api, clock, monotonicMs: () => clock.nowMs() },
    {
      cluster: "scripted",
      checks: auditChecks,
      intervalMs: 15_000,
      retryMs: 60_000,
      cancel,
      ...options,
      ...(options.watch === undefined ? {} : { watch: (each: AuditResult) => void watched.push(each) }),
    },
  );
  const result = await settled(clock, running);
  return { result, api, tookS: (clock.nowMs() - startMs) / 1000, watched };
}

const failed = ({ checks }: AuditResult): string[] =>
  checks.filter(({ status }) => status === "failed").map(({ name }) => name);
const unknown = ({ checks }: AuditResult): string[] =>
  checks.filter(({ status }) => status === "unknown").map(({ name }) => name);

const nodes = [node("n1")];
const lost = pod("t/lost", { node: "gone" });

describe("a finding", () => {
  test("of a healthy cluster does not exist, after one snapshot", async () => {
    const { result, tookS } = await play({ moments: [{ atS: 0, nodes, pods: pods(3) }] });
    expect(result).toMatchObject({ verdict: "pass", exitCode: 0, looks: 1, waitedMs: 0 });
    expect(tookS).toBe(0);
  });

  test("is not reported when its component resolves it in time", async () => {
    const { result } = await play({
      moments: [
        { atS: 0, nodes, pods: [lost] },
        { atS: 70, pods: [] },
      ],
    });
    expect(result).toMatchObject({ verdict: "pass", exitCode: 0 });
    expect(result.waitedMs).toBeLessThanOrEqual(90_000);
  });

  test("is reported when it has held for the time of its check, and says for how long", async () => {
    const { result } = await play({ moments: [{ atS: 0, nodes, pods: [lost] }] });
    expect(result).toMatchObject({ verdict: "fail", exitCode: 1, waitedMs: 120_000 });
    expect(failed(result)).toEqual(["pod-on-missing-node"]);
    expect(auditText(result)).toContain("pods/t/lost: its node gone does not exist (held 120s)");
  });

  test("that comes and goes is not reported", async () => {
    const { result } = await play({
      moments: [
        { atS: 0, nodes, pods: [lost] },
        { atS: 40, nodes: [...nodes, node("gone")] },
        { atS: 55, nodes },
      ],
    });
    expect(result.verdict).toBe("pass");
  });

  test("is reported at once with a settle time of zero, with a warning", async () => {
    const { result, tookS } = await play({ moments: [{ atS: 0, nodes, pods: [lost] }] }, { settleMs: 0 });
    expect(result).toMatchObject({ verdict: "fail", looks: 1 });
    expect(tookS).toBe(0);
    expect(result.warnings.join()).toContain("whether they persist is not known");
  });
});

describe("a kind that may not be listed", () => {
  const without = (kinds: readonly string[]) => ({
    moments: [{ atS: 0, nodes, pods: pods(3) }],
    refuse: ({ kind }: { kind: string }) =>
      kinds.includes(kind) ? refused("Forbidden", `${kind} is forbidden: cannot list`) : undefined,
  });

  test("makes the checks that read it unknown, and no other, and the run has no verdict", async () => {
    const { result } = await play(without(["resourceslices"]));
    expect(result).toMatchObject({ verdict: "unknown", exitCode: 3 });
    expect(unknown(result)).toEqual(["gpu-given-twice", "claim-not-allocated", "node-gpus-disagree"]);
    expect(auditText(result)).toContain("unknown: resourceslices may not be listed: resourceslices is forbidden");
  });

  test("does not hide what other checks find", async () => {
    const { result } = await play({ ...without(["queues"]), moments: [{ atS: 0, nodes, pods: [lost] }] });
    expect(result).toMatchObject({ verdict: "fail", exitCode: 1 });
    expect(unknown(result)).toEqual(["podgroup-stuck", "queue-quota", "queue-usage", "finalizer-unserved"]);
  });

  test("may be pods: the other kinds are read at one revision nevertheless", async () => {
    const { result } = await play(without(["pods"]));
    expect(result.snapshot?.coherent).toBe(true);
    expect(unknown(result)).toContain("pod-on-missing-node");
    expect(unknown(result)).not.toContain("webhook-without-backend");
  });

  test("is not asked for when no selected check reads it", async () => {
    const checks = auditChecks.filter(({ name }) => name === "queue-quota");
    const { result, api } = await play(without(["pods", "nodes"]), { checks });
    expect(Object.keys(api.listsByKind)).toEqual(["pods", "queues"]);
    expect(result.verdict).toBe("pass");
  });
});

test("kinds that a cluster does not serve are empty: a cluster without Muster passes", async () => {
  const { result, api } = await play({ moments: [{ atS: 0, nodes, pods: pods(3) }] });
  expect(api.listsByKind["bindrequests"]).toBe(1);
  expect(result.snapshot?.counts["bindrequests"]).toBeNull();
  expect(result.verdict).toBe("pass");
});

test("a finding from kinds of two revisions is unknown", async () => {
  const { result } = await play(
    {
      moments: [{ atS: 0, nodes, pods: [lost] }],
      revisionOf: { nodes: "99" },
      refuse: ({ kind, options }) =>
        kind === "nodes" && options.resourceVersionMatch === "Exact" ? refused("Expired", "compacted") : undefined,
    },
    { settleMs: 0 },
  );
  expect(result.verdict).toBe("unknown");
  expect(unknown(result)).toEqual(["pod-on-missing-node"]);
});

describe("an API that does not answer", () => {
  test("is asked again, and the run ends without a verdict after a minute", async () => {
    const { result, tookS } = await play({ moments: [], refuse: () => refused("Unavailable", "connection refused") });
    expect(result).toMatchObject({ verdict: "error", exitCode: 3, error: { class: "unreachable" } });
    expect(tookS).toBe(60);
  });

  test("and answers later gives a verdict", async () => {
    const { result } = await play({
      moments: [{ atS: 0, nodes, pods: pods(3) }],
      refuse: ({ atS }) => (atS < 20 ? refused("Unavailable", "connection refused") : undefined),
    });
    expect(result.verdict).toBe("pass");
  });
});

test("pages of a list are of one revision, and all of them are read", async () => {
  const { result, api } = await play({ moments: [{ atS: 0, nodes, pods: pods(25) }], pageSize: 10 });
  expect(result.snapshot?.counts["pods"]).toBe(25);
  expect(api.listsByKind["pods"]).toBe(3);
});

test("a watch reports a finding from the moment on that it persists, until it is gone", async () => {
  const { result, watched } = await play(
    {
      moments: [
        { atS: 0, nodes, pods: [lost] },
        { atS: 200, pods: [] },
      ],
    },
    { watch: () => {} },
    300,
  );
  expect(result.error).toMatchObject({ class: "interrupted" });
  const found = watched.map((each) => failed(each).length);
  expect(found.slice(0, 8)).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
  expect(found[8]).toBe(1);
  expect(found.at(-1)).toBe(0);
});
