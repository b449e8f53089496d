import { expect, test } from "vitest";
import { logText } from "./log.ts";

const decisions = [
  {
    atMs: 0,
    namespace: "team",
    object: "pod/a-0",
    reason: "Evicted",
    message: "preempted by team/b of higher priority",
  },
  { atMs: 4000, namespace: "team", object: "pod/b-0", reason: "Scheduled", message: "placed on h100-0" },
];

test("in a pipe each decision is one line, with its message", () => {
  expect(logText(decisions, { nowMs: 5000, namespace: undefined, isNarrow: false })).toBe(
    `AGE  DECISION   NAMESPACE  OBJECT   MESSAGE
5s   Evicted    team       pod/a-0  preempted by team/b of higher priority
1s   Scheduled  team       pod/b-0  placed on h100-0
`,
  );
});

test("on a terminal the message has a line of its own", () => {
  expect(logText(decisions, { nowMs: 5000, namespace: "team", isNarrow: true })).toBe(
    `AGE  DECISION   OBJECT
5s   Evicted    pod/a-0
      preempted by team/b of higher priority
1s   Scheduled  pod/b-0
      placed on h100-0
`,
  );
});
