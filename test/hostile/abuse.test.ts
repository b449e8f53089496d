/**
 * Objects at the limits of every number, list and map of every namespaced kind, as the schema has them, sent to
 * `muster up` in a process with little memory: each is stored or refused with its field, /readyz is answered all the
 * time, and everything can be deleted afterwards.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Sample, samples } from "../validObjects.ts";
import { BoundedUp } from "./boundedUp.ts";

const isLong = process.env["MUSTER_LONG"] === "1";
const seed = Number(process.env["MUSTER_SEED"] ?? (isLong ? Date.now() % 1_000_000 : 27));
const objects = isLong ? 100_000 : 1_000;
const residentMiBMax = 1024;

const up = new BoundedUp();
beforeAll(() => up.start());
afterAll(() => up.end());

type Definition = { readonly fields: Readonly<Record<string, string | readonly [string, ...unknown[]]>> };
const schema = JSON.parse(
  readFileSync(new URL("../../src/apiserver/schema/schema.json", import.meta.url), "utf8"),
) as Readonly<Record<string, Definition>>;

let state = seed;
function below(bound: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * bound);
}
const oneOf = <T>(items: readonly T[]): T => items[below(items.length)] as T;

/** A number, list or map of a kind: the keys that lead to it, `[]` for the item of a list, and its type. */
interface Target {
  readonly path: readonly string[];
  readonly type: string;
}

const depthMax = 9;
const numbers = new Set(["int32", "int64", "number", "quantity", "intOrString"]);
/** The server's own, or not sent by tenants. */
const left = new Set(["status", "managedFields", "apiVersion", "kind"]);

function targetsOf(definition: string, path: readonly string[] = [], above: readonly string[] = []): Target[] {
  if (path.length > depthMax || above.includes(definition)) return [];
  const found: Target[] = [];
  for (const [name, field] of Object.entries(schema[definition]?.fields ?? {})) {
    if (left.has(name) || name === ".") continue;
    const type = typeof field === "string" ? field : field[0];
    const here = [...path, name];
    if (numbers.has(type) || type.startsWith("[]") || type.startsWith("{}")) found.push({ path: here, type });
    const ref = /^(\[\]|\{\})?#(.+)$/.exec(type);
    if (ref !== null) {
      const inside = ref[1] === "[]" ? [...here, "[]"] : ref[1] === "{}" ? [...here, "k"] : here;
      found.push(...targetsOf(ref[2] ?? "", inside, [...above, definition]));
    }
  }
  return found;
}

const integers = [0, -1, 1, 2_147_483_647, -2_147_483_648, 2_147_483_648, Number.MAX_SAFE_INTEGER];
const quantities = ["0", "-1", "9223372036854775807", "1e18", "0.0000000001", "999999999999999999999Ei"];
const counts = [0, 1_000, 4_000];

function extreme(type: string, before: unknown): unknown {
  if (type === "quantity") return oneOf(quantities);
  if (numbers.has(type)) return oneOf(integers);
  const count = oneOf(counts);
  const inner = type.slice(2);
  const base = Array.isArray(before) ? before[0] : Object.values((before as object | undefined) ?? {})[0];
  const item = (at: number): unknown => {
    if (inner.startsWith("#"))
      return { name: `n${at}`, ...(base as object | undefined), ...(at > 0 && { name: `n${at}` }) };
    if (inner === "string") return `s${at}`;
    return numbers.has(inner) ? extreme(inner, undefined) : (base ?? null);
  };
  const items = Array.from({ length: count }, (_, at) => item(at));
  return type.startsWith("[]") ? items : Object.fromEntries(items.map((value, at) => [`k${at}`, value]));
}

/** The object with the target set; lists and maps on the way to it are made where they are missing. */
function withExtreme(object: Record<string, unknown>, { path, type }: Target): Record<string, unknown> {
  let at: Record<string, unknown> | unknown[] = object;
  for (const [index, key] of path.entries()) {
    const name = key === "[]" ? 0 : key;
    const slots = at as Record<string | number, unknown>;
    if (index === path.length - 1) slots[name] = extreme(type, slots[name]);
    else {
      if (typeof slots[name] !== "object" || slots[name] === null) slots[name] = path[index + 1] === "[]" ? [] : {};
      at = slots[name] as Record<string, unknown>;
    }
  }
  return object;
}

const kinds = samples().filter(({ type }) => type.namespaced);
const targets = new Map<Sample, Target[]>(kinds.map((sample) => [sample, targetsOf(sample.type.definition)]));

function residentMiB(): number {
  const status = readFileSync(`/proc/${up.pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}

test("the schema has hundreds of numbers, lists and maps to play with", () => {
  const all = [...targets.values()].reduce((sum, each) => sum + each.length, 0);
  expect(kinds.length).toBeGreaterThan(20);
  expect(all).toBeGreaterThan(1_000);
});

test(`${objects} objects at the limits (seed ${seed}) are stored or refused with their field, and the server stays ready`, async () => {
  const tally = { stored: 0, refused: 0 };
  let next = 0;
  const sender = async (): Promise<void> => {
    while (next < objects) {
      const name = `abuse-${next++}`;
      const sample = oneOf(kinds);
      const target = oneOf(targets.get(sample) as Target[]);
      const object = withExtreme(sample.object(name), target);
      const { code, body } = await up.call("POST", sample.path, object);
      const where = `${sample.type.kind} ${target.path.join(".")} (${name})`;
      if (code === 201) tally.stored++;
      else {
        tally.refused++;
        expect({ where, code, reason: body.reason }).toMatchObject({
          code: expect.toBeOneOf([400, 403, 409, 413, 422]),
        });
        const named = body.details?.causes?.every(({ field = "" }: { field?: string }) => field !== "") === true;
        if (code === 422) expect({ where, message: body.message, named }).toMatchObject({ named: true });
      }
    }
  };
  await Promise.all([1, 2, 3, 4, 5, 6].map(sender));
  await up.stillReady();
  expect(up.readyCount).toBeGreaterThan(10);
  expect(tally.stored).toBeGreaterThan(objects / 10);
  expect(tally.refused).toBeGreaterThan(objects / 10);
  expect(residentMiB()).toBeLessThan(residentMiBMax);
  console.info(`${tally.stored} stored, ${tally.refused} refused, at most ${residentMiB().toFixed(0)} MiB`);
});

test("after a kill the same folder starts, and everything that was stored can be deleted", async () => {
  await up.stop("SIGKILL");
  await up.start();
  for (const { path } of kinds) {
    const { code } = await up.call("DELETE", `${path}?gracePeriodSeconds=0&propagationPolicy=Background`);
    expect(code, path).toBeOneOf([200, 405]);
  }
  await up.stillReady();
  expect(residentMiB()).toBeLessThan(residentMiBMax);
});
