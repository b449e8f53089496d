import { expect, test } from "vitest";
import { Progress } from "../../src/cli/verify/verifyProgress.ts";

const counts = {
  total: 20,
  running: 19,
  pending: 1,
  unscheduled: 1,
  failed: 0,
  succeeded: 0,
  unknown: 0,
  ignoredJobs: 0,
  settling: 0,
  excusedFailures: 0,
};
const line = { attempt: 1, waitedMs: 0, counts, why: "1 unscheduled", pods: ["team/late"] };

function drawn(terminal: { isTTY?: boolean; columns?: number }, wanted = true): { written: string; isLive: boolean } {
  let written = "";
  const write = (text: string): void => {
    written += text;
  };
  const progress = new Progress({ ...terminal, write }, 60_000, wanted);
  progress.attempt(line);
  progress.end();
  return { written, isLive: progress.isLive };
}

test("on a terminal one line says what is missing and how much time is left, and is cleared at the end", () => {
  const { written } = drawn({ isTTY: true, columns: 200 });
  expect(written).toMatch(
    /^\r.*(59|60)s left: 20 total, 19 running, 1 pending \(1 unscheduled\), 0 failed; team\/late/,
  );
  expect(written.endsWith("\r\u001b[K")).toBe(true);
  expect(written).not.toContain("\n");
});

test("the line is never wider than the terminal", () => {
  const { written } = drawn({ isTTY: true, columns: 40 });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the sequence that clears a line
  expect(written.replace(/\r\u001b\[K/g, "").length).toBeLessThan(40);
});

test("a terminal without a size gets as much as fits on most", () => {
  expect(drawn({ isTTY: true, columns: 0 }).written).toContain("1 pending (1 unscheduled)");
});

test("without a terminal nothing is drawn", () => {
  expect(drawn({})).toEqual({ written: "", isLive: false });
  expect(drawn({ isTTY: true }, false)).toEqual({ written: "", isLive: false });
});
