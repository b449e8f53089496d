import { expect, test } from "vitest";
import { ManualClock } from "../../../testing/apiserver/manualClock.ts";
import type { Log } from "../../ports/log.ts";
import { CredentialKeeper } from "./credentialKeeper.ts";

const log: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

function keeper(...tokens: string[]): { keeper: CredentialKeeper; clock: ManualClock; asked: boolean[] } {
  const asked: boolean[] = [];
  const clock = new ManualClock();
  const source = async ({ refused }: { refused: boolean }) => {
    const authorization = tokens[Math.min(asked.length, tokens.length - 1)] ?? "";
    asked.push(refused);
    return { authorization };
  };
  return { keeper: new CredentialKeeper(source, clock, log), clock, asked };
}

test("a call that was on its way while credentials changed does not ask again, however late it is refused", async () => {
  const { keeper: kept, clock, asked } = keeper("one", "two", "three");
  const old = await kept.current();
  const renewed = await kept.afterRefusal(old);
  await clock.advance(3_600_000);
  expect(await kept.afterRefusal(old)).toBe(renewed);
  expect(asked).toEqual([false, true]);
});

test("credentials that are the same as before are the same generation", async () => {
  const { keeper: kept, clock } = keeper("one");
  const old = await kept.current();
  await clock.advance(10_000);
  expect((await kept.afterRefusal(old)).generation).toBe(old.generation);
});

test("a source that failed is called again by the next call", async () => {
  let asked = 0;
  const source = async () => {
    if (asked++ === 0) throw new Error("not yet");
    return { authorization: "one" };
  };
  const kept = new CredentialKeeper(source, new ManualClock(), log);
  await expect(kept.current()).rejects.toThrow("not yet");
  expect((await kept.current()).credentials).toEqual({ authorization: "one" });
});
