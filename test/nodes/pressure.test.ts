/** A fault of the whole API: a share of calls is refused, all are slow, watches are late; health is spared. */
import { expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { startApiServer } from "../../src/apiserver/startApiServer.ts";
import { apiPressureAt, readFault } from "../../src/kubelet/node/faults.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";

test("under pressure a share of calls is refused with the status that was asked for, and none when it is over", async () => {
  const tokenFile = 'secret,admin,1,"system:masters"';
  const server = await startApiServer({ clock: systemClock(), random: systemRandom(), tls: false, tokenFile });
  const ask = async (path: string): Promise<number> => {
    const answer = await fetch(`${server.url}${path}`, { headers: { Authorization: "Bearer secret" } });
    await answer.arrayBuffer();
    return answer.status;
  };
  const fault = readFault(
    { kind: "api-pressure", status: 503, share: 0.5, fromMs: 0, untilMs: 100 },
    { nowMs: 0, id: "f" },
  );
  let nowMs = 50;
  server.faults.setPressure(() => apiPressureAt([fault], nowMs), seededRandom(7));
  const codes: number[] = [];
  for (let call = 0; call < 40; call++) codes.push(await ask("/api/v1/namespaces/default"));
  const refused = codes.filter((code) => code === 503).length;
  expect([refused > 10, refused < 30, refused + codes.filter((code) => code === 200).length]).toEqual([true, true, 40]);
  expect([await ask("/readyz"), await ask("/apis")]).toEqual([200, 200]);
  nowMs = 100;
  for (let call = 0; call < 10; call++) expect(await ask("/api/v1/namespaces/default")).toBe(200);
  await server.stop();
});

test("watches are late by the configured delay", async () => {
  const tokenFile = 'secret,admin,1,"system:masters"';
  const delays: number[] = [];
  const real = systemClock();
  // No real time passes: each delay is recorded and then skipped.
  const clock = {
    ...real,
    after: (ms: number, run: () => void) => {
      if (ms === 7_000) delays.push(ms);
      return real.after(ms === 7_000 ? 0 : ms, run);
    },
  };
  const server = await startApiServer({ clock, random: systemRandom(), tls: false, tokenFile });
  const fault = readFault({ kind: "api-pressure", share: 0, watchDelay: "7s" }, { nowMs: 0, id: "f" });
  server.faults.setPressure(() => apiPressureAt([fault], 1), seededRandom(7));
  const headers = { Authorization: "Bearer secret" };
  const stop = new AbortController();
  const answer = await fetch(`${server.url}/api/v1/namespaces?watch=true`, { headers, signal: stop.signal });
  const reader = answer.body?.getReader();
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toContain("ADDED");
  expect(delays.length).toBeGreaterThan(0);
  stop.abort();
  await server.stop();
});
