import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type Admission, noAdmission } from "../../src/apiserver/admission/admission.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { HttpCaller, tokenFile } from "../httpCaller.ts";
import { type Sample, samples } from "../validObjects.ts";
import { expectHonestAnswer, fuzzMsMax, fuzzRuns } from "./judge.ts";
import { type Mutation, mutate, mutations, type Value } from "./mutate.ts";

/* What a mutating webhook makes of an object is as little to be trusted as what a client sends. */

let server: ApiServer;
let caller: HttpCaller;
const mistakes: unknown[] = [];
const kinds = samples();
let names = 0;

/** What is done to the next object that is written. */
let damage: Mutation[] | undefined;
let changed = 0;

const damaging: Admission = {
  ...noAdmission,
  mutate: ({ object, user }) => {
    if (damage === undefined || object === undefined || user.username !== "admin") return undefined;
    const next = mutate(object as unknown as Value, damage);
    damage = undefined;
    // A patch cannot turn an object into something else than an object.
    if (typeof next !== "object" || next === null || Array.isArray(next)) return undefined;
    changed++;
    return Promise.resolve(next as unknown as KubeObject);
  },
};

beforeAll(async () => {
  server = await startApiServer({
    clock: systemClock(),
    random: systemRandom(),
    tls: false,
    tokenFile,
    freeze: true,
    admission: () => damaging,
    log: ({ error }) => mistakes.push(error),
  });
  caller = new HttpCaller(server.url);
});

afterAll(async () => {
  caller.close();
  await server.stop();
});

test(
  "objects that a webhook damaged are refused, or kept under their own name and stamps",
  async () => {
    const kind = fc.nat(kinds.length - 1).map((at) => kinds[at] as Sample);
    await fc.assert(
      fc.asyncProperty(kind, mutations, fc.boolean(), async (sample, changes, updating) => {
        const { name } = sample.object(`hook-${names++}`)["metadata"] as { name: string };
        const sent = sample.object(`hook-${names - 1}`);
        const path = `${sample.path}/${name}`;
        if (!updating) damage = changes;
        const created = await caller.post(sample.path, sent);
        damage = undefined;
        expectHonestAnswer(created, mistakes);
        if (created.code === 201) {
          expect(created.json.metadata.name).toBe(name);
          expect(created.json.kind).toBe(sample.type.kind);
          if (updating) {
            await server.controllers.idle();
            damage = changes;
            const patched = await caller.patch(path, "merge", { metadata: { labels: { touched: "yes" } } });
            damage = undefined;
            expectHonestAnswer(patched, mistakes);
            if (patched.code === 200) {
              const { uid, creationTimestamp, name: kept } = patched.json.metadata;
              const { uid: bornWith, creationTimestamp: bornAt } = created.json.metadata;
              expect({ uid, creationTimestamp, kept }).toEqual({
                uid: bornWith,
                creationTimestamp: bornAt,
                kept: name,
              });
            }
          }
          const read = await caller.get(path);
          expect(read.code).toBe(200);
        }
        await caller.delete(path, { gracePeriodSeconds: 0 });
        await caller.patch(path, "merge", { metadata: { finalizers: null } });
      }),
      { numRuns: fuzzRuns },
    );
    expect(changed).toBeGreaterThan(fuzzRuns / 2);
  },
  fuzzMsMax,
);
