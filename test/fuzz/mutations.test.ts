import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { type Answer, HttpCaller, type KubeJson, patchTypes, tokenFile } from "../httpCaller.ts";
import { type Sample, samples } from "../validObjects.ts";
import { expectHonestAnswer, fuzzMsMax, fuzzRuns } from "./judge.ts";
import { type Mutation, mutate, mutations, type Value } from "./mutate.ts";

/*
 * Whatever is sent: no answer is a 5xx (but for two that upstream gives on purpose), every refusal is a Status and
 * writes nothing, and what is accepted can be read back as it was answered and written back without a change.
 */

let server: ApiServer;
let caller: HttpCaller;
const ours: unknown[] = [];
const kinds = samples();
let names = 0;

beforeAll(async () => {
  server = await startApiServer({
    clock: systemClock(),
    random: systemRandom(),
    tls: false,
    tokenFile,
    freeze: true,
    log: ({ error }) => ours.push(error),
  });
  caller = new HttpCaller(server.url);
});

afterAll(async () => {
  caller.close();
  await server.stop();
});

const kind = fc.nat(kinds.length - 1).map((at) => kinds[at] as Sample);
const runs = { numRuns: fuzzRuns };

test(
  "damaged objects that are created",
  async () => {
    await fc.assert(
      fc.asyncProperty(kind, mutations, async (sample, changes) => {
        const body = mutate(sample.object(nextName()) as Value, changes);
        await judge(sample, (manager) => caller.post(`${sample.path}?${manager}`, body));
      }),
      runs,
    );
  },
  fuzzMsMax,
);

test(
  "damaged objects that are written over good ones",
  async () => {
    await fc.assert(
      fc.asyncProperty(kind, mutations, fc.boolean(), async (sample, changes, atStatus) => {
        const path = await existing(sample);
        const current = await caller.get(path);
        const body = mutate(current.json as unknown as Value, changes);
        await judge(sample, (manager) =>
          caller.put(`${path}${atStatus && sample.type.hasStatus ? "/status" : ""}?${manager}`, body),
        );
        await remove(path);
      }),
      runs,
    );
  },
  fuzzMsMax,
);

test(
  "damaged patches of every type",
  async () => {
    const type = fc.constantFrom<keyof typeof patchTypes>("json", "merge", "strategic", "apply");
    await fc.assert(
      fc.asyncProperty(kind, mutations, type, async (sample, changes, patchType) => {
        const path = await existing(sample);
        const current = (await caller.get(path)).json as unknown as Value;
        const patch = patchType === "json" ? jsonPatchOf(changes) : mutate(patchOf(current, patchType), changes);
        await judge(sample, (manager) =>
          caller.call("PATCH", `${path}?${manager}`, patch, {
            headers: { "content-type": patchTypes[patchType] },
          }),
        );
        await remove(path);
      }),
      runs,
    );
  },
  fuzzMsMax,
);

test(
  "random bytes that claim to be protobuf",
  async () => {
    const envelope = fc.constantFrom([], [0x6b, 0x38, 0x73, 0]);
    await fc.assert(
      fc.asyncProperty(
        kind,
        envelope,
        fc.boolean(),
        fc.uint8Array({ maxLength: 200 }),
        async (sample, head, typed, rest) => {
          const raw = typed
            ? Buffer.from([...head, ...unknownMessage(sample, Buffer.from(rest))])
            : Buffer.from([...head, ...rest]);
          await judge(sample, (manager) =>
            caller.call("POST", `${sample.path}?${manager}`, undefined, {
              raw,
              headers: { "content-type": "application/vnd.kubernetes.protobuf" },
            }),
          );
        },
      ),
      runs,
    );
  },
  fuzzMsMax,
);

/** Sends, and holds the answer against the rules. */
async function judge(sample: Sample, send: (manager: string) => Promise<Answer>): Promise<void> {
  // Controllers write at the same time; what this request wrote would bear its manager.
  const manager = `judged-${names++}`;
  let written = 0;
  const forget = server.core.store.onEvent(({ current }) => {
    if (current.object().metadata.managedFields?.some((entry) => entry.manager === manager) === true) written++;
  });
  const answer = await send(`fieldManager=${manager}`);
  forget();
  const { code, json, text } = answer;
  expectHonestAnswer(answer, ours);
  if (code >= 400) {
    expect(written, text).toBe(0);
    return;
  }
  expect([200, 201]).toContain(code);
  const { name, namespace } = json.metadata;
  expect(namespace ?? "").toBe(sample.type.namespaced ? "default" : "");
  const path = `${sample.path}/${encodeURIComponent(name)}`;
  await expectStable(path, json);
  await remove(path);
}

/**
 * The object reads as it was answered, and writing it back changes nothing; controllers may have been there meanwhile.
 */
async function expectStable(path: string, answered: KubeJson): Promise<void> {
  const read = await caller.get(path);
  if (read.code === 404) {
    // The write took the last finalizer off an object that was going.
    expect(answered.metadata["deletionTimestamp"]).toBeDefined();
    return;
  }
  expect(read.code).toBe(200);
  if (read.json.metadata.resourceVersion === answered.metadata.resourceVersion) expect(read.json).toEqual(answered);
  for (let attempt = 0; attempt < 20; attempt++) {
    const current = await caller.get(path);
    const written = await caller.put(path, current.json);
    if (written.code === 409) continue;
    expect({ code: written.code, text: written.text }).toMatchObject({ code: 200 });
    // A job without labels takes those of its pods, which it has only after it was created.
    if (attempt === 0 && current.json.kind === "Job" && current.json.metadata.labels === undefined) continue;
    expect(written.json).toEqual(current.json);
    return;
  }
  throw new Error(`${path} never comes to rest`);
}

async function existing(sample: Sample): Promise<string> {
  const created = await caller.post(sample.path, sample.object(nextName()));
  expect({ code: created.code, text: created.text }).toMatchObject({ code: 201 });
  return `${sample.path}/${created.json.metadata.name}`;
}

async function remove(path: string): Promise<void> {
  await caller.delete(path, { gracePeriodSeconds: 0 });
  await caller.patch(path, "merge", { metadata: { finalizers: null } });
}

function nextName(): string {
  return `fuzz-${names++}`;
}

/** What a client would send to change this object. */
function patchOf(current: Value, type: keyof typeof patchTypes): Value {
  const object = structuredClone(current) as Record<string, Value>;
  const { name, labels } = object["metadata"] as Record<string, Value>;
  object["metadata"] = { name: name ?? null, labels: labels ?? null };
  if (type !== "apply") delete object["status"];
  return object;
}

function jsonPatchOf(changes: readonly Mutation[]): Value {
  const roots = ["/metadata/labels", "/metadata/annotations", "/spec", "/data", "/metadata/finalizers", "", "/status"];
  return changes.map(({ steps, change }): Value => {
    const [first = 0, ...rest] = steps;
    const key = change.kind === "add" || change.kind === "rename" ? `/${change.key}` : "";
    const path = `${roots[first % roots.length]}${rest.length > 0 ? `/${rest[0]}` : ""}${key}`;
    if (change.kind === "remove") return { op: "remove", path };
    if (change.kind === "rename") return { op: "move", from: "/metadata/labels/app", path };
    if (change.kind === "repeat") return { op: "copy", from: "/metadata", path };
    return { op: change.kind === "add" ? "add" : "replace", path, value: change.value };
  });
}

/** The envelope of protobuf bodies: type, then the bytes of the object. */
function unknownMessage({ type }: Sample, raw: Buffer): Buffer {
  const apiVersion = type.group === "" ? type.version : `${type.group}/${type.version}`;
  const typeMeta = Buffer.concat([field(1, Buffer.from(apiVersion)), field(2, Buffer.from(type.kind))]);
  return Buffer.concat([field(1, typeMeta), field(2, raw)]);
}

function field(number: number, bytes: Buffer): Buffer {
  const length = bytes.length < 128 ? [bytes.length] : [(bytes.length & 0x7f) | 0x80, bytes.length >> 7];
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), bytes]);
}
