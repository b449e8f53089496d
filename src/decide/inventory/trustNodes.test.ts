import { describe, expect, test } from "vitest";
import { node, nowMs } from "../../sim/inventory/builders.ts";
import { nodeRulesDefault } from "./schedulableNode.ts";
import { heartbeatClockMs, whyNodesNotTrusted } from "./trustNodes.ts";

const minuteMs = 60_000;
const beating = (name: string, agoMinutes: number, ready = "True") =>
  node(name, "h100", { ready, heartbeat: new Date(nowMs - agoMinutes * minuteMs).toISOString() });
const machines = new Set(["i-a", "i-b", "i-c"]);

describe("a list of nodes is trusted or not", () => {
  test.each([
    { fact: "nodes on machines in service that report", nodes: [beating("a", 1), beating("b", 4)], doubt: undefined },
    { fact: "no nodes while machines are in service", nodes: [], doubt: "no nodes while 3 instances" },
    { fact: "nodes of another cluster", nodes: [beating("x", 1)], doubt: "none of the 1 nodes" },
    { fact: "no nodes and no machines", nodes: [], inService: new Set<string>(), doubt: undefined },
    { fact: "no nodes, and the cloud is unknown", nodes: [], inService: undefined, doubt: undefined },
    { fact: "every heartbeat is old", nodes: [beating("a", 20), beating("b", 24)], doubt: "20 minutes old" },
    { fact: "one of three is silent", nodes: [beating("a", 1), beating("b", 2), beating("c", 30)], doubt: undefined },
    {
      fact: "most are silent, and one kubelet's clock is ahead",
      nodes: [beating("a", -60), beating("b", 20), beating("c", 21)],
      doubt: "2 of 3 ready nodes",
    },
    {
      fact: "nodes that are not ready are silent for a reason",
      nodes: [beating("a", 1), beating("b", 300, "Unknown"), beating("c", 300, "Unknown")],
      doubt: undefined,
    },
    { fact: "nodes that tell no heartbeat", nodes: [node("a", "h100")], doubt: undefined },
  ])("$fact", (row) => {
    const inService = "inService" in row ? row.inService : machines;
    const why = whyNodesNotTrusted(row.nodes, inService, nodeRulesDefault, nowMs);
    if (row.doubt === undefined) expect(why).toBeUndefined();
    else expect(why).toContain(row.doubt);
  });

  test("heartbeats count for nothing where no limit is set", () => {
    const rules = { ...nodeRulesDefault, heartbeatMsMax: 0 };
    expect(whyNodesNotTrusted([beating("a", 999)], machines, rules, nowMs)).toBeUndefined();
  });
});

test("heartbeats are compared with the newest of them, or with the database's clock if that is behind", () => {
  expect(heartbeatClockMs([beating("a", 12), beating("b", 20)], nowMs)).toBe(nowMs - 12 * minuteMs);
  expect(heartbeatClockMs([beating("a", -5)], nowMs)).toBe(nowMs);
  expect(heartbeatClockMs([], nowMs)).toBe(nowMs);
});
