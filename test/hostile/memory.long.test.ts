/** More objects than fit into memory: the server refuses what it cannot hold, lives, and can be emptied. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BoundedUp } from "./boundedUp.ts";

const up = new BoundedUp(mkdtempSync(join(tmpdir(), "muster-hostile-")), 112);
const maps = "/api/v1/namespaces/default/configmaps";
beforeAll(() => up.run("apiserver"));
afterAll(() => up.end());

test("small objects are refused before the heap is full, and accepted again after some were deleted", async () => {
  let made = 0;
  let refusal: { code: number; message: string } | undefined;
  const client = async (): Promise<void> => {
    while (refusal === undefined) {
      const { code, body } = await up.call("POST", maps, { metadata: { name: `c${made++}` } });
      if (code !== 201) refusal ??= { code, message: String(body.message) };
    }
  };
  await Promise.all(Array.from({ length: 16 }, client));
  expect(refusal).toMatchObject({ code: 503, message: expect.stringContaining("delete objects") });
  await up.stillReady();
  expect((await up.call("GET", `${maps}/c0`)).code).toBe(200);
  // A small change of what is there is no growth.
  expect((await up.call("PATCH", `${maps}/c0`, { metadata: { labels: { a: "b" } } })).code).toBe(200);
  expect((await up.call("PATCH", `${maps}/c1`, { data: { a: "x".repeat(100_000) } })).code).toBe(503);
  let deleted = 0;
  await up.until(async () => {
    for (let each = 0; each < 500 && deleted < made; each++) await up.call("DELETE", `${maps}/c${deleted++}`);
    return (await up.call("POST", maps, { metadata: { name: `again-${deleted}` } })).code === 201;
  });
  expect(up.ended).toBeUndefined();
});
