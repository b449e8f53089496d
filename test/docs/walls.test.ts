/**
 * A file imports only from rooms that its own room's tsconfig.json names. The compiler also lets through rooms that those name,
 * so this holds the direct ones. Inside `decide` and `control` the sub-rooms have walls too: the table below.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const outerRooms = ["races", "bench", "testing"];
const rooms = [...readdirSync(join(root, "src")).map((room) => `src/${room}`), ...outerRooms];

/** What each sub-room may import of its neighbours. None imports another that is not named here. */
const subRooms: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  "src/decide": {
    audit: ["devices", "verify"],
    bind: ["devices"],
    devices: [],
    gang: ["workloads"],
    inventory: [],
    schedule: ["bind", "devices", "verify"],
    verify: ["devices"],
    window: ["devices", "gang", "schedule"],
    workloads: [],
  },
  "src/control": {
    agent: ["runtime"],
    assembly: ["bind", "devices", "gang", "runtime", "schedule", "workloads"],
    audit: ["verify"],
    bind: ["cache", "devices", "runtime"],
    cache: [],
    devices: ["cache", "runtime"],
    gang: ["cache", "runtime"],
    inventory: [],
    runtime: ["cache"],
    schedule: ["cache", "devices", "runtime"],
    verify: [],
    webhooks: ["cache", "runtime"],
    window: ["cache", "runtime", "schedule"],
    workloads: ["cache", "runtime"],
  },
};

/** Every import of the program's files: from which file, to which. */
function* imports(): Generator<{ readonly from: string; readonly to: string }> {
  for (const room of rooms) {
    const files = readdirSync(join(root, room), { recursive: true, encoding: "utf8" });
    for (const file of files.filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))) {
      const from = posix.join(room, file);
      for (const [, path = ""] of readFileSync(join(root, from), "utf8").matchAll(/(?:from|import\() ?"(\.[^"]+)"/g)) {
        yield { from, to: posix.normalize(posix.join(posix.dirname(from), path)) };
      }
    }
  }
}

const roomOf = (path: string): string => path.split("/", path.startsWith("src/") ? 2 : 1).join("/");
const subRoomOf = (path: string, room: string): string => path.slice(room.length + 1).split("/")[0] ?? "";

function allowed(room: string): ReadonlySet<string> {
  const { references } = JSON.parse(readFileSync(join(root, room, "tsconfig.json"), "utf8")) as {
    references: { path: string }[];
  };
  return new Set(references.map(({ path }) => posix.normalize(posix.join(room, path))));
}

test("rooms import only rooms that their tsconfig.json names", () => {
  const mayImport = new Map(rooms.map((room) => [room, allowed(room)]));
  let count = 0;
  const found: string[] = [];
  for (const { from, to } of imports()) {
    const [room, other] = [roomOf(from), roomOf(to)];
    if (room === other) continue;
    count++;
    if (mayImport.get(room)?.has(other) !== true) found.push(`${from} imports ${to}`);
  }
  expect(count).toBeGreaterThan(2_000);
  expect(found).toEqual([]);
});

test("sub-rooms of decide and control import only the neighbours that the table names, and no circle", () => {
  const found: string[] = [];
  for (const { from, to } of imports()) {
    const room = roomOf(from);
    const table = subRooms[room];
    if (table === undefined || roomOf(to) !== room) continue;
    const [own, other] = [subRoomOf(from, room), subRoomOf(to, room)];
    if (own !== other && table[own]?.includes(other) !== true) found.push(`${from} imports ${to}`);
  }
  expect(found).toEqual([]);
  for (const [room, table] of Object.entries(subRooms)) {
    const folders = readdirSync(join(root, room), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.map(({ name }) => name).sort()).toEqual(Object.keys(table).sort());
    const reaches = (name: string, seen: readonly string[]): void => {
      expect(seen, `a circle in ${room}`).not.toContain(name);
      for (const next of table[name] ?? []) reaches(next, [...seen, name]);
    };
    for (const name of Object.keys(table)) reaches(name, []);
  }
});
