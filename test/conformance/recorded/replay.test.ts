import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/adapters/systemClock.ts";
import { systemRandom } from "../../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../../src/apiserver/startApiServer.ts";
import { podAgent } from "../../../testing/apiserver/podAgent.ts";
import { type Expected, expected } from "./expected.ts";
import type { Recording } from "./recording.ts";
import { type Answer, replayRow } from "./replayRow.ts";

// The rows of the kubectl table without kubectl: what it sent is played again, and the answers are held against a table
// written by hand. `MUSTER_RECORD=1 npx vitest run --project whole test/conformance/kubectl` records anew.

const directory = new URL("./rows/", import.meta.url);
const recordings = readdirSync(directory)
  .filter((file) => file.endsWith(".json"))
  .map((file) => ({
    name: file.replace(".json", ""),
    rows: JSON.parse(readFileSync(new URL(file, directory), "utf8")) as Recording,
  }));

const agent = podAgent({
  async *log(_, { container }) {
    yield `a line of ${container}\n`;
  },
});

describe.each(recordings)("recorded requests of $name", ({ name, rows }) => {
  let server: ApiServer;
  beforeAll(async () => {
    server = await startApiServer({
      clock: systemClock(),
      random: systemRandom(),
      freeze: true,
      // Rows about pods without a node need a server without simulated nodes.
      ...(name === "observing" ? { agent } : {}),
    });
  });
  afterAll(() => server.stop());

  test.each(Object.entries(rows))("%s", async (title, steps) => {
    const number = Number(/^\[(\d+)\]/.exec(title)?.[1]);
    const wanted = expected[number] ?? [];
    const answers = await replayRow(server, `kubectl-${number}`, steps, (at, answer) => fits(wanted[at], answer));
    expect(answers.map((answer) => answer.line)).toEqual(wanted.map(lineOf));
    answers.forEach((answer, at) => {
      const fields = fieldsOf(wanted[at]);
      if (fields !== undefined) expect(answer.body, answer.line).toMatchObject(fields);
    });
  });
});

test("every row of the table has been recorded", () => {
  const recorded = recordings.flatMap(({ rows }) => Object.keys(rows)).map((title) => Number(/\d+/.exec(title)?.[0]));
  expect(recorded.sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, at) => at + 1));
});

function lineOf(one: Expected): string {
  return typeof one === "string" ? one : one[0];
}

function fieldsOf(one: Expected | undefined): object | undefined {
  return one === undefined || typeof one === "string" ? undefined : one[1];
}

function fits(one: Expected | undefined, answer: Answer): boolean {
  if (one === undefined || lineOf(one) !== answer.line) return false;
  const fields = fieldsOf(one);
  return fields === undefined || has(answer.body, fields);
}

/** Whether the value has everything that is expected, as `toMatchObject` does. */
function has(actual: unknown, wanted: unknown): boolean {
  if (typeof wanted !== "object" || wanted === null) return actual === wanted;
  if (typeof actual !== "object" || actual === null || Array.isArray(actual) !== Array.isArray(wanted)) return false;
  if (Array.isArray(wanted) && wanted.length !== (actual as unknown[]).length) return false;
  return Object.entries(wanted).every(([key, value]) => has((actual as Record<string, unknown>)[key], value));
}
