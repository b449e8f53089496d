import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { StatusError } from "../../model/objects/status.ts";
import type { ListNode, SchemaNode, StructNode } from "../schema/schemaNode.ts";
import { applyPatch } from "./applyPatch.ts";
import { describePath, difference, type FieldSet, fromFieldsV1, leaves, pathsOf } from "./fieldSet.ts";
import { isSameExceptTimes, neverTracked, updateManagedFields } from "./managedFields.ts";
import { extractItems } from "./removeItems.ts";
import { shapeOf } from "./shape.ts";
import { createdFields } from "./trackedFields.ts";

// Small schemas.

const scalar: SchemaNode = { kind: "scalar", type: "string" };
const number: SchemaNode = { kind: "scalar", type: "number" };

function struct(fields: Record<string, SchemaNode>, options: Partial<StructNode> = {}): StructNode {
  const entries = Object.entries(fields).map(([name, schema]) => {
    return [name, { name, schema, required: false, zero: "pointer" }] as const;
  });
  return { kind: "struct", name: "", fields: new Map(entries), atomic: false, preserveUnknown: false, ...options };
}

function list(items: SchemaNode, listType: ListNode["listType"], listKeys: string[] = []): ListNode {
  return { kind: "list", items, listType, listKeys, patchMerge: false, patchMergeKey: "", patchRetainKeys: false };
}

function map(values: SchemaNode, atomic = false): SchemaNode {
  return { kind: "map", values, atomic };
}

function kind(fields: Record<string, SchemaNode>, options: Partial<StructNode> = {}): StructNode {
  const metadata = struct({
    name: scalar,
    namespace: scalar,
    labels: map(scalar),
    annotations: map(scalar),
    finalizers: list(scalar, "set"),
    uid: scalar,
    resourceVersion: scalar,
    managedFields: list({ kind: "any", atomic: true }, "atomic"),
  });
  return struct({ apiVersion: scalar, kind: scalar, metadata, ...fields }, options);
}

const recursive: { kind: "map"; values: SchemaNode; atomic: boolean } = { kind: "map", values: scalar, atomic: false };
recursive.values = recursive;

const pair = struct({ name: scalar, value: number });
const ports: ListNode & { keyDefaults: Record<string, string> } = {
  ...list(struct({ port: number, protocol: scalar, name: scalar }), "map", ["port", "protocol"]),
  keyDefaults: { protocol: "TCP" },
};
const everything = {
  string: scalar,
  numeric: number,
  struct: pair,
  atomicStruct: struct({ name: scalar, value: number }, { atomic: true }),
  set: list(scalar, "set"),
  list: list(struct({ name: scalar, value: number, value2: number }), "map", ["name"]),
  atomicList: list(scalar, "atomic"),
  map: map(scalar),
  atomicMap: map(scalar, true),
  listOfLists: list(struct({ name: scalar, value: list(scalar, "set") }), "map", ["name"]),
  listOfMaps: list(struct({ name: scalar, value: map(scalar) }), "map", ["name"]),
  mapOfLists: map(list(scalar, "set")),
  mapOfMaps: map(map(scalar)),
  mapOfMapsRecursive: recursive,
  ports,
  any: { kind: "any", atomic: false },
  raw: { kind: "any", atomic: true },
} satisfies Record<string, SchemaNode>;

const thing = kind(everything);

// A history: writes to one object, as the verbs make them.

type Content = { [field: string]: Json };
type Step =
  | { update: string; to: Content; schema?: StructNode; subresource?: string; reset?: FieldSet }
  | {
      apply: string;
      to: Content;
      force?: true;
      refused?: string[];
      schema?: StructNode;
      subresource?: string;
      reset?: FieldSet;
    };

class World {
  object: KubeObject | undefined;
  readonly #schema: StructNode;
  #seconds = 0;

  constructor(schema: StructNode) {
    this.#schema = schema;
  }

  get time(): string {
    return new Date(1_700_000_000_000 + this.#seconds * 1000).toISOString().replace(".000", "");
  }

  /** Returns the conflicting paths, if the step was refused. */
  play(step: Step): string[] {
    this.#seconds++;
    const schema = step.schema ?? this.#schema;
    const { metadata, ...rest } = step.to;
    const sent = {
      apiVersion: "v1",
      kind: "Thing",
      metadata: { name: "x", ...(metadata as object) },
      ...rest,
    } as KubeObject;
    const common = {
      schema,
      live: this.object,
      apiVersion: "v1",
      subresource: step.subresource ?? "",
      time: this.time,
      ...(step.reset === undefined ? {} : { resetFields: step.reset }),
    };
    if ("update" in step) {
      const managedFields = updateManagedFields({ ...common, next: sent, manager: step.update });
      if (managedFields === undefined) delete sent.metadata.managedFields;
      else sent.metadata.managedFields = managedFields;
      this.object = sent;
      return [];
    }
    try {
      this.object = applyPatch({ ...common, config: sent, manager: step.apply, force: step.force === true }).object;
      return [];
    } catch (error) {
      if (!(error instanceof StatusError) || error.status.code !== 409) throw error;
      return (error.status.details?.causes ?? []).map(({ field, message }) => `${message}: ${field}`);
    }
  }

  content(): Json {
    const { apiVersion: _, kind: __, metadata, ...rest } = this.object ?? { apiVersion: "", kind: "", metadata: {} };
    const { name: ___, managedFields: ____, ...meta } = metadata as KubeObject["metadata"];
    return { ...(Object.keys(meta).length > 0 ? { metadata: meta } : {}), ...rest } as Json;
  }

  owners(): Record<string, string[]> {
    const owners: Record<string, string[]> = {};
    for (const entry of this.object?.metadata.managedFields ?? []) {
      const name = entry.subresource === undefined ? `${entry.manager}` : `${entry.manager}/${entry.subresource}`;
      owners[name] = pathsOf(fromFieldsV1(entry.fieldsV1)).map(describePath);
    }
    return owners;
  }
}

const byName = (name: string, ...rest: string[]) => rest.map((field) => `.list[name="${name}"]${field}`);

const histories: { name: string; steps: Step[]; object: Json; owners: Record<string, string[]> }[] = [
  // Leaves.
  {
    name: "applying again replaces what was applied before",
    steps: [
      { apply: "a", to: { numeric: 1, string: "x" } },
      { apply: "a", to: { numeric: 2, string: "y" } },
    ],
    object: { numeric: 2, string: "y" },
    owners: { a: [".numeric", ".string"] },
  },
  {
    name: "an update of other fields does not stand in the applier's way",
    steps: [
      { apply: "a", to: { numeric: 1 } },
      { update: "controller", to: { numeric: 1, string: "y" } },
      { apply: "a", to: { numeric: 2 } },
    ],
    object: { numeric: 2, string: "y" },
    owners: { a: [".numeric"], controller: [".string"] },
  },
  {
    name: "an applier may not change what somebody else wrote since",
    steps: [
      { apply: "a", to: { numeric: 1, string: "x" } },
      { update: "controller", to: { numeric: 1, string: "theirs" } },
      { apply: "a", to: { numeric: 2, string: "mine" }, refused: ['conflict with "controller" using v1: .string'] },
    ],
    object: { numeric: 1, string: "theirs" },
    owners: { a: [".numeric"], controller: [".string"] },
  },
  {
    name: "with force the applier takes the field and its owner loses it",
    steps: [
      { apply: "a", to: { numeric: 1, string: "x" } },
      { update: "controller", to: { numeric: 1, string: "theirs" } },
      { apply: "a", to: { numeric: 2, string: "mine" }, force: true },
    ],
    object: { numeric: 2, string: "mine" },
    owners: { a: [".numeric", ".string"] },
  },
  {
    name: "a field that is no longer applied is removed",
    steps: [
      { apply: "a", to: { numeric: 1, string: "x" } },
      { apply: "a", to: { string: "x" } },
    ],
    object: { string: "x" },
    owners: { a: [".string"] },
  },
  {
    name: "what an updater wrote stays when an applier never mentions it",
    steps: [
      { update: "controller", to: { string: "y" } },
      { apply: "a", to: {} },
    ],
    object: { string: "y" },
    owners: { controller: [".string"] },
  },
  {
    name: "an updater that removes everything owns nothing and is forgotten",
    steps: [
      { update: "controller", to: { string: "y" } },
      { update: "controller", to: {} },
    ],
    object: {},
    owners: {},
  },
  {
    name: "an applier of nothing owns nothing and is forgotten",
    steps: [
      { apply: "a", to: { string: "y" } },
      { apply: "a", to: {} },
    ],
    object: {},
    owners: {},
  },
  // Several appliers.
  {
    name: "equal values make two appliers share a field",
    steps: [
      { apply: "one", to: { list: [{ name: "a", value: 0 }] } },
      { apply: "two", to: { list: [{ name: "a", value: 0 }] } },
    ],
    object: { list: [{ name: "a", value: 0 }] },
    owners: { one: byName("a", "", ".name", ".value"), two: byName("a", "", ".name", ".value") },
  },
  {
    name: "an item of one's own goes, the items of others stay",
    steps: [
      { apply: "one", to: { list: [{ name: "a" }, { name: "b" }] } },
      { apply: "two", to: { list: [{ name: "c" }] } },
      { apply: "one", to: { list: [{ name: "a" }] } },
    ],
    object: { list: [{ name: "a" }, { name: "c" }] },
    owners: { one: byName("a", "", ".name"), two: byName("c", "", ".name") },
  },
  {
    name: "a shared item stays when one of its appliers drops it",
    steps: [
      { apply: "one", to: { list: [{ name: "a" }, { name: "b" }, { name: "c" }] } },
      { apply: "two", to: { list: [{ name: "c" }, { name: "d" }] } },
      { apply: "one", to: { list: [{ name: "a" }] } },
    ],
    object: { list: [{ name: "a" }, { name: "c" }, { name: "d" }] },
    owners: {
      one: byName("a", "", ".name"),
      two: ['.list[name="c"]', '.list[name="d"]', '.list[name="c"].name', '.list[name="d"].name'],
    },
  },
  {
    name: "another value in a shared item is a conflict in that field alone",
    steps: [
      { apply: "one", to: { list: [{ name: "a", value: 0 }] } },
      {
        apply: "two",
        to: { list: [{ name: "a", value: 1 }] },
        refused: ['conflict with "one": .list[name="a"].value'],
      },
    ],
    object: { list: [{ name: "a", value: 0 }] },
    owners: { one: byName("a", "", ".name", ".value") },
  },
  {
    name: "a field shared with an applier outlives its first applier",
    steps: [
      { apply: "one", to: { struct: { name: "a", value: 1 } } },
      { apply: "two", to: { struct: { value: 1 } } },
      { apply: "one", to: { struct: { name: "a" } } },
    ],
    object: { struct: { name: "a", value: 1 } },
    owners: { one: [".struct.name"], two: [".struct.value"] },
  },
  {
    name: "a field shared with an updater outlives its applier",
    steps: [
      { update: "updater", to: { struct: { name: "a", value: 1 } } },
      { apply: "applier", to: { struct: { name: "a", value: 1 } } },
      { apply: "applier", to: { struct: { name: "a" } } },
    ],
    object: { struct: { name: "a", value: 1 } },
    owners: { applier: [".struct.name"], updater: [".struct", ".struct.name", ".struct.value"] },
  },
  {
    name: "an updater that changes an applied field takes it",
    steps: [
      { apply: "applier", to: { struct: { name: "a", value: 1 } } },
      { update: "updater", to: { struct: { name: "a", value: 2 } } },
    ],
    object: { struct: { name: "a", value: 2 } },
    owners: { applier: [".struct.name"], updater: [".struct.value"] },
  },
  {
    name: "a dropped item loses what its applier put there and keeps what another applier did",
    steps: [
      { apply: "one", to: { listOfLists: [{ name: "a" }, { name: "b", value: ["c"] }] } },
      { apply: "two", to: { listOfLists: [{ name: "b", value: ["d"] }] } },
      { apply: "one", to: { listOfLists: [{ name: "a" }] } },
    ],
    object: { listOfLists: [{ name: "a" }, { name: "b", value: ["d"] }] },
    owners: {
      one: ['.listOfLists[name="a"]', '.listOfLists[name="a"].name'],
      two: ['.listOfLists[name="b"]', '.listOfLists[name="b"].name', '.listOfLists[name="b"].value[="d"]'],
    },
  },
  {
    name: "what an updater put into a shared item stays with the item",
    steps: [
      { apply: "one", to: { listOfLists: [{ name: "a" }, { name: "b", value: ["c"] }] } },
      { apply: "two", to: { listOfLists: [{ name: "b", value: ["d"] }] } },
      { update: "controller", to: { listOfLists: [{ name: "a" }, { name: "b", value: ["c", "d", "e"] }] } },
      { apply: "one", to: { listOfLists: [{ name: "a" }] } },
    ],
    object: { listOfLists: [{ name: "a" }, { name: "b", value: ["d", "e"] }] },
    owners: {
      one: ['.listOfLists[name="a"]', '.listOfLists[name="a"].name'],
      two: ['.listOfLists[name="b"]', '.listOfLists[name="b"].name', '.listOfLists[name="b"].value[="d"]'],
      controller: ['.listOfLists[name="b"].value[="e"]'],
    },
  },
  {
    name: "an item that only its applier owned takes an updater's additions with it",
    steps: [
      { apply: "one", to: { listOfLists: [{ name: "a" }, { name: "b", value: ["c"] }] } },
      { apply: "two", to: { listOfLists: [{ name: "a", value: ["b"] }] } },
      {
        update: "controller",
        to: {
          listOfLists: [
            { name: "a", value: ["b"] },
            { name: "b", value: ["c", "d"] },
          ],
        },
      },
      { apply: "one", to: { listOfLists: [{ name: "a" }] } },
    ],
    object: { listOfLists: [{ name: "a", value: ["b"] }] },
    owners: {
      one: ['.listOfLists[name="a"]', '.listOfLists[name="a"].name'],
      two: ['.listOfLists[name="a"]', '.listOfLists[name="a"].name', '.listOfLists[name="a"].value[="b"]'],
    },
  },
  {
    name: "in maps of maps each level has its owners",
    steps: [
      { apply: "one", to: { mapOfMapsRecursive: { a: { b: null }, c: { d: null } } } },
      { apply: "two", to: { mapOfMapsRecursive: { a: null, c: { d: null } } } },
      { update: "c1", to: { mapOfMapsRecursive: { a: { b: { c: null } }, c: { d: { e: null } } } } },
      { update: "c2", to: { mapOfMapsRecursive: { a: { b: { c: { d: null } } }, c: { d: { e: { f: null } } } } } },
      {
        update: "c1",
        to: { mapOfMapsRecursive: { a: { b: { c: { d: { e: null } } } }, c: { d: { e: { f: { g: null } } } } } },
      },
      { apply: "one", to: { mapOfMapsRecursive: null } },
    ],
    object: { mapOfMapsRecursive: { a: {}, c: { d: { e: { f: { g: null } } } } } },
    owners: {
      one: [".mapOfMapsRecursive"],
      two: [".mapOfMapsRecursive.a", ".mapOfMapsRecursive.c", ".mapOfMapsRecursive.c.d"],
      c1: [".mapOfMapsRecursive.c.d.e", ".mapOfMapsRecursive.c.d.e.f.g"],
      c2: [".mapOfMapsRecursive.c.d.e.f"],
    },
  },
  // Nested types.
  {
    name: "a set in a keyed item is replaced by what is applied",
    steps: [
      { apply: "a", to: { listOfLists: [{ name: "a", value: ["b", "c"] }] } },
      { apply: "a", to: { listOfLists: [{ name: "a", value: ["a", "c"] }] } },
    ],
    object: { listOfLists: [{ name: "a", value: ["a", "c"] }] },
    owners: {
      a: [
        '.listOfLists[name="a"]',
        '.listOfLists[name="a"].name',
        '.listOfLists[name="a"].value[="a"]',
        '.listOfLists[name="a"].value[="c"]',
      ],
    },
  },
  {
    name: "a keyed item under another key is another item",
    steps: [
      { apply: "a", to: { listOfMaps: [{ name: "a", value: { b: "x", c: "y" } }] } },
      { apply: "a", to: { listOfMaps: [{ name: "b", value: { a: "x", c: "z" } }] } },
    ],
    object: { listOfMaps: [{ name: "b", value: { a: "x", c: "z" } }] },
    owners: {
      a: [
        '.listOfMaps[name="b"]',
        '.listOfMaps[name="b"].name',
        '.listOfMaps[name="b"].value.a',
        '.listOfMaps[name="b"].value.c',
      ],
    },
  },
  {
    name: "a map of sets changes key by key and item by item",
    steps: [
      { apply: "a", to: { mapOfLists: { a: ["b", "c"] } } },
      { apply: "a", to: { mapOfLists: { a: ["a", "c"] } } },
    ],
    object: { mapOfLists: { a: ["a", "c"] } },
    owners: { a: [".mapOfLists.a", '.mapOfLists.a[="a"]', '.mapOfLists.a[="c"]'] },
  },
  {
    name: "a map of maps drops the key that is no longer applied",
    steps: [
      { apply: "a", to: { mapOfMaps: { a: { b: "x", c: "y" } } } },
      { apply: "a", to: { mapOfMaps: { b: { a: "x", c: "z" } } } },
    ],
    object: { mapOfMaps: { b: { a: "x", c: "z" } } },
    owners: { a: [".mapOfMaps.b", ".mapOfMaps.b.a", ".mapOfMaps.b.c"] },
  },
  {
    name: "a struct vanishes with the last field that was applied in it",
    steps: [
      { apply: "a", to: { struct: { name: "a", value: 1 } } },
      { apply: "a", to: {} },
    ],
    object: {},
    owners: {},
  },
  {
    name: "a struct applied as null stays as null and is owned",
    steps: [
      { apply: "a", to: { struct: { name: "a" } } },
      { apply: "a", to: { struct: null } },
    ],
    object: { struct: null },
    owners: { a: [".struct"] },
  },
  {
    name: "a struct keeps what an updater added when its applier leaves",
    steps: [
      { apply: "a", to: { struct: { name: "a" } } },
      { update: "controller", to: { struct: { name: "a", value: 1 } } },
      { apply: "a", to: {} },
    ],
    object: { struct: { value: 1 } },
    owners: { controller: [".struct.value"] },
  },
  {
    name: "a struct applied as empty keeps what an updater added",
    steps: [
      { apply: "a", to: { struct: { name: "a" } } },
      { update: "controller", to: { struct: { name: "a", value: 1 } } },
      { apply: "a", to: { struct: {} } },
    ],
    object: { struct: { value: 1 } },
    owners: { a: [".struct"], controller: [".struct.value"] },
  },
  {
    name: "a field that an updater took over stays when its applier drops it",
    steps: [
      { apply: "a", to: { struct: { name: "a" } } },
      { update: "controller", to: { struct: { name: "b", value: 1 } } },
      { apply: "a", to: { struct: null } },
    ],
    object: { struct: { name: "b", value: 1 } },
    owners: { a: [".struct"], controller: [".struct.name", ".struct.value"] },
  },
  // Sets and order.
  {
    name: "the applier decides the order of a set",
    steps: [
      { apply: "a", to: { set: ["a", "b", "c", "d"] } },
      { apply: "a", to: { set: ["a", "d", "c", "b"] } },
    ],
    object: { set: ["a", "d", "c", "b"] },
    owners: { a: ['.set[="a"]', '.set[="b"]', '.set[="c"]', '.set[="d"]'] },
  },
  {
    name: "an update that only reorders takes nothing, and applying restores the order",
    steps: [
      { apply: "a", to: { set: ["a", "b", "c", "d"] } },
      { update: "controller", to: { set: ["a", "d", "c", "b"] } },
      { apply: "a", to: { set: ["a", "b", "c", "d"] } },
    ],
    object: { set: ["a", "b", "c", "d"] },
    owners: { a: ['.set[="a"]', '.set[="b"]', '.set[="c"]', '.set[="d"]'] },
  },
  {
    name: "items of others keep their place among the applied ones",
    steps: [
      { apply: "a", to: { set: ["a", "c"] } },
      { update: "controller", to: { set: ["a", "b", "c", "d"] } },
      { apply: "a", to: { set: ["a", "aprime", "c", "cprime"] } },
    ],
    object: { set: ["a", "b", "aprime", "c", "d", "cprime"] },
    owners: {
      a: ['.set[="a"]', '.set[="aprime"]', '.set[="c"]', '.set[="cprime"]'],
      controller: ['.set[="b"]', '.set[="d"]'],
    },
  },
  {
    name: "an item that both have is shared, and stays when the applier drops it",
    steps: [
      { update: "controller", to: { set: ["a", "b"] } },
      { apply: "a", to: { set: ["b", "c"] } },
      { apply: "a", to: { set: ["c"] } },
    ],
    object: { set: ["a", "b", "c"] },
    owners: { a: ['.set[="c"]'], controller: [".set", '.set[="a"]', '.set[="b"]'] },
  },
  // Atomic parts.
  {
    name: "an atomic list has one owner, and another list is a conflict",
    steps: [
      { apply: "one", to: { atomicList: ["a", "b"] } },
      { apply: "two", to: { atomicList: ["a", "c"] }, refused: ['conflict with "one": .atomicList'] },
      { apply: "two", to: { atomicList: ["a", "b"] } },
    ],
    object: { atomicList: ["a", "b"] },
    owners: { one: [".atomicList"], two: [".atomicList"] },
  },
  {
    name: "an atomic map and an atomic struct are replaced whole",
    steps: [
      { apply: "one", to: { atomicMap: { a: "1", b: "2" }, atomicStruct: { name: "a", value: 1 } } },
      { apply: "one", to: { atomicMap: { c: "3" }, atomicStruct: { name: "b" } } },
    ],
    object: { atomicMap: { c: "3" }, atomicStruct: { name: "b" } },
    owners: { one: [".atomicMap", ".atomicStruct"] },
  },
  {
    name: "an updater of one key of an atomic map takes all of it",
    steps: [
      { apply: "one", to: { atomicMap: { a: "1", b: "2" } } },
      { update: "two", to: { atomicMap: { a: "1", b: "3" } } },
    ],
    object: { atomicMap: { a: "1", b: "3" } },
    owners: { two: [".atomicMap"] },
  },
  // Keys with defaults.
  {
    name: "a port without protocol is the TCP port",
    steps: [{ apply: "a", to: { ports: [{ port: 80 }, { port: 80, protocol: "UDP" }] } }],
    object: { ports: [{ port: 80 }, { port: 80, protocol: "UDP" }] },
    owners: {
      a: [
        '.ports[port=80,protocol="TCP"]',
        '.ports[port=80,protocol="UDP"]',
        '.ports[port=80,protocol="TCP"].port',
        '.ports[port=80,protocol="UDP"].port',
        '.ports[port=80,protocol="UDP"].protocol',
      ],
    },
  },
  {
    name: "a port that another applier names in full is the same port",
    steps: [
      { apply: "one", to: { ports: [{ port: 80, protocol: "TCP", name: "foo" }] } },
      {
        apply: "two",
        to: { ports: [{ port: 80, name: "bar" }] },
        refused: ['conflict with "one": .ports[port=80,protocol="TCP"].name'],
      },
    ],
    object: { ports: [{ port: 80, protocol: "TCP", name: "foo" }] },
    owners: {
      one: [
        '.ports[port=80,protocol="TCP"]',
        '.ports[port=80,protocol="TCP"].name',
        '.ports[port=80,protocol="TCP"].port',
        '.ports[port=80,protocol="TCP"].protocol',
      ],
    },
  },
  {
    name: "an item may leave out a key that has no default",
    steps: [{ apply: "a", to: { ports: [{ protocol: "TCP", name: "A" }] } }],
    object: { ports: [{ protocol: "TCP", name: "A" }] },
    owners: { a: ['.ports[protocol="TCP"]', '.ports[protocol="TCP"].name', '.ports[protocol="TCP"].protocol'] },
  },
  {
    name: "ports are listed by number, not by their text",
    steps: [{ apply: "a", to: { ports: [{ port: 443 }, { port: 80 }] } }],
    object: { ports: [{ port: 443 }, { port: 80 }] },
    owners: {
      a: [
        '.ports[port=80,protocol="TCP"]',
        '.ports[port=443,protocol="TCP"]',
        '.ports[port=80,protocol="TCP"].port',
        '.ports[port=443,protocol="TCP"].port',
      ],
    },
  },
  // Duplicates that updates may bring in.
  {
    name: "a duplicate in a set belongs to the one who added it",
    steps: [
      { update: "one", to: { set: ["1", "3", "4"] } },
      { update: "two", to: { set: ["1", "1", "3", "4"] } },
    ],
    object: { set: ["1", "1", "3", "4"] },
    owners: { one: [".set", '.set[="3"]', '.set[="4"]'], two: ['.set[="1"]'] },
  },
  {
    name: "who removes a duplicate owns the one that is left",
    steps: [
      { update: "one", to: { set: ["1", "1", "3", "4"] } },
      { update: "two", to: { set: ["1", "3", "4"] } },
    ],
    object: { set: ["1", "3", "4"] },
    owners: { one: [".set", '.set[="3"]', '.set[="4"]'], two: ['.set[="1"]'] },
  },
  {
    name: "applying an item that is there twice is a conflict, and with force leaves one",
    steps: [
      { update: "updater", to: { set: ["1", "1", "3", "4"] } },
      { apply: "applier", to: { set: ["1"] }, refused: ['conflict with "updater" using v1: .set[="1"]'] },
      { apply: "applier", to: { set: ["1"] }, force: true },
    ],
    object: { set: ["1", "3", "4"] },
    owners: { applier: ['.set[="1"]'], updater: [".set", '.set[="3"]', '.set[="4"]'] },
  },
  {
    name: "duplicates that nobody applies stay as they are",
    steps: [
      { update: "updater", to: { set: ["1", "1", "3", "4"] } },
      { apply: "applier", to: { set: ["5"] } },
    ],
    object: { set: ["1", "1", "3", "4", "5"] },
    owners: { applier: ['.set[="5"]'], updater: [".set", '.set[="1"]', '.set[="3"]', '.set[="4"]'] },
  },
  {
    name: "keyed items of one key are owned together, by key alone",
    steps: [
      {
        update: "updater",
        to: {
          list: [
            { name: "a", value: 1 },
            { name: "a", value: 2 },
            { name: "b", value: 3 },
          ],
        },
      },
    ],
    object: {
      list: [
        { name: "a", value: 1 },
        { name: "a", value: 2 },
        { name: "b", value: 3 },
      ],
    },
    owners: { updater: [".list", ...byName("a", ""), ...byName("b", "", ".name", ".value")] },
  },
  {
    name: "a change in one of several items of one key takes the key",
    steps: [
      {
        update: "one",
        to: {
          list: [
            { name: "a", value: 1 },
            { name: "a", value: 2 },
            { name: "b", value: 3 },
          ],
        },
      },
      {
        update: "two",
        to: {
          list: [
            { name: "a", value: 1 },
            { name: "a", value: 2, value2: 3 },
            { name: "b", value: 3 },
          ],
        },
      },
    ],
    object: {
      list: [
        { name: "a", value: 1 },
        { name: "a", value: 2, value2: 3 },
        { name: "b", value: 3 },
      ],
    },
    owners: { one: [".list", ...byName("b", "", ".name", ".value")], two: byName("a", "") },
  },
  {
    name: "a second item of a key takes the key from its owner",
    steps: [
      {
        update: "one",
        to: {
          list: [
            { name: "a", value: 1 },
            { name: "b", value: 3 },
          ],
        },
      },
      {
        update: "two",
        to: {
          list: [
            { name: "a", value: 1 },
            { name: "a", value2: 3 },
            { name: "b", value: 3 },
          ],
        },
      },
    ],
    object: {
      list: [
        { name: "a", value: 1 },
        { name: "a", value2: 3 },
        { name: "b", value: 3 },
      ],
    },
    owners: { one: [".list", ...byName("b", "", ".name", ".value")], two: byName("a", "") },
  },
  {
    name: "an item beside duplicates is tracked in full",
    steps: [
      {
        update: "one",
        to: {
          list: [
            { name: "a", value: 1 },
            { name: "a", value: 2 },
          ],
        },
      },
      {
        update: "two",
        to: {
          list: [
            { name: "a", value: 1 },
            { name: "a", value: 2 },
            { name: "b", value: 3 },
          ],
        },
      },
    ],
    object: {
      list: [
        { name: "a", value: 1 },
        { name: "a", value: 2 },
        { name: "b", value: 3 },
      ],
    },
    owners: { one: [".list", ...byName("a", "")], two: byName("b", "", ".name", ".value") },
  },
  // Content without a schema.
  {
    name: "objects without a schema are tracked by key, lists in them are atomic",
    steps: [
      { apply: "one", to: { any: { a: 1, b: ["x"], c: { d: true } } } },
      { update: "two", to: { any: { a: 1, b: ["x", "y"], c: { d: true, e: "f" } } } },
    ],
    object: { any: { a: 1, b: ["x", "y"], c: { d: true, e: "f" } } },
    owners: { one: [".any.a", ".any.c", ".any.c.d"], two: [".any.b", ".any.c.e"] },
  },
  {
    name: "raw JSON is one leaf",
    steps: [
      { update: "one", to: { raw: { a: 1, b: 2 } } },
      { update: "two", to: { raw: { a: 1, b: 3 } } },
    ],
    object: { raw: { a: 1, b: 3 } },
    owners: { two: [".raw"] },
  },
  {
    name: "a place that turns from an object into a scalar belongs to who turned it",
    steps: [
      { update: "one", to: { any: { a: { b: 1 } } } },
      { update: "two", to: { any: { a: "flat" } } },
    ],
    object: { any: { a: "flat" } },
    owners: { one: [".any"], two: [".any.a"] },
  },
  // Never tracked, and fields that an endpoint resets.
  {
    name: "identity is nobody's, labels and finalizers are somebody's",
    steps: [
      {
        update: "one",
        to: { metadata: { namespace: "n", uid: "u", resourceVersion: "7", labels: { a: "b" }, finalizers: ["x/y"] } },
      },
    ],
    object: { metadata: { namespace: "n", uid: "u", resourceVersion: "7", labels: { a: "b" }, finalizers: ["x/y"] } },
    owners: {
      one: [".metadata.finalizers", ".metadata.labels", '.metadata.finalizers[="x/y"]', ".metadata.labels.a"],
    },
  },
  {
    name: "applied labels are owned one by one",
    steps: [
      { apply: "one", to: { metadata: { labels: { a: "b", c: "d" } } } },
      { apply: "one", to: { metadata: { labels: { c: "d" } } } },
    ],
    object: { metadata: { labels: { c: "d" } } },
    owners: { one: [".metadata.labels.c"] },
  },
  {
    name: "reset fields are neither taken nor lost by an update",
    steps: [
      { update: "status-writer", to: { struct: { name: "a" } }, subresource: "status" },
      { update: "one", to: { struct: { name: "b" }, string: "x" }, reset: { "f:struct": {} } },
    ],
    object: { struct: { name: "b" }, string: "x" },
    owners: { "status-writer/status": [".struct", ".struct.name"], one: [".string"] },
  },
  {
    name: "reset fields are not taken by an apply",
    steps: [
      { update: "status-writer", to: { struct: { name: "a" } }, subresource: "status" },
      { apply: "one", to: { struct: { name: "b" }, string: "x" }, reset: { "f:struct": {} } },
    ],
    object: { struct: { name: "b" }, string: "x" },
    owners: { "status-writer/status": [".struct", ".struct.name"], one: [".string"] },
  },
  {
    name: "one manager on two endpoints is two owners, and can conflict with itself",
    steps: [
      { update: "m", to: { string: "x" } },
      { update: "m", to: { string: "x", numeric: 1 }, subresource: "status" },
      {
        apply: "other",
        to: { numeric: 2 },
        refused: ['conflict with "m" with subresource "status" using v1: .numeric'],
      },
    ],
    object: { string: "x", numeric: 1 },
    owners: { m: [".string"], "m/status": [".numeric"] },
  },
  {
    name: "an apply to a subresource is an owner of its own",
    steps: [
      { apply: "m", to: { string: "x" } },
      { apply: "m", to: { numeric: 1 }, subresource: "status" },
      { apply: "m", to: { string: "y" } },
    ],
    object: { string: "y", numeric: 1 },
    owners: { m: [".string"], "m/status": [".numeric"] },
  },
  // A schema that changes.
  {
    name: "who owned a field in a struct that became atomic owns the struct",
    steps: [
      { apply: "one", to: { struct: { value: 1 } } },
      {
        apply: "two",
        to: { struct: { name: "x" } },
        schema: kind({ ...everything, struct: struct({ name: scalar, value: number }, { atomic: true }) }),
        refused: ['conflict with "one": .struct'],
      },
      {
        apply: "two",
        to: { struct: { name: "x" } },
        schema: kind({ ...everything, struct: struct({ name: scalar, value: number }, { atomic: true }) }),
        force: true,
      },
    ],
    object: { struct: { name: "x" } },
    owners: { two: [".struct"] },
  },
];

describe("a history of writes", () => {
  test.each(histories)("$name", ({ steps, object, owners }) => {
    const world = new World(thing);
    for (const step of steps) {
      const refused = world.play(step);
      expect(refused).toEqual("refused" in step ? step.refused : []);
    }
    expect(world.content()).toEqual(object);
    expect(world.owners()).toEqual(owners);
  });

  test("unknown fields are tracked where they are data", () => {
    const world = new World(kind({ known: scalar }, { preserveUnknown: true }));
    world.play({ apply: "one", to: { known: "a", unknown: { deep: 1, list: [1, 2] } } });
    world.play({ apply: "one", to: { known: "a", unknown: { deep: 1 } } });
    expect(world.content()).toEqual({ known: "a", unknown: { deep: 1 } });
    expect(world.owners()).toEqual({ one: [".known", ".unknown", ".unknown.deep"] });
  });

  test.each([
    {
      name: "two items of one key",
      to: { list: [{ name: "a" }, { name: "a" }] },
      why: '.list: duplicate entries for key [name="a"]',
    },
    { name: "one value twice in a set", to: { set: ["a", "a"] }, why: '.set: duplicate entries for key [="a"]' },
    {
      name: "two items that a default makes equal",
      to: { ports: [{ port: 80 }, { port: 80, protocol: "TCP" }] },
      why: '.ports: duplicate entries for key [port=80,protocol="TCP"]',
    },
    {
      name: "an item without any key",
      to: { list: [{ value: 1 }] },
      why: '.list: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn\'t have default values for any key fields)',
    },
    { name: "a field that nobody declared", to: { foo: 1 }, why: ".foo: field not declared in schema" },
  ])("nobody can apply $name", ({ to, why }) => {
    const error = refusal(() => new World(thing).play({ apply: "a", to: to }));
    expect(error.status).toMatchObject({
      code: 500,
      message: `failed to create typed patch object (/x; /v1, Kind=Thing): ${why}`,
    });
  });

  test.each([undefined, null, "x", []])("nobody can create by apply with metadata %j", (metadata) => {
    // What a client may send against all types.
    const config = { apiVersion: "v1", kind: "Thing", metadata } as unknown as KubeObject;
    const request = { schema: thing, live: undefined, config, manager: "a", force: false } as const;
    const error = refusal(() => applyPatch({ ...request, apiVersion: "v1", subresource: "", time: "" }));
    expect(error.status.code).toBe(400);
  });

  test("a configuration with managedFields cannot be applied", () => {
    const error = refusal(() => new World(thing).play({ apply: "a", to: { metadata: { managedFields: [] } } }));
    expect(error.status).toMatchObject({ code: 400, message: "metadata.managedFields must be nil" });
  });
});

function refusal(act: () => unknown): StatusError {
  try {
    act();
  } catch (error) {
    if (error instanceof StatusError) return error;
    throw error;
  }
  throw new Error("was not refused");
}

describe("conflict texts", () => {
  function refusedText(steps: Step[], last: Step): StatusError {
    const world = new World(thing);
    for (const step of steps) world.play(step);
    const sent = { apiVersion: "v1", kind: "Thing", metadata: { name: "x" }, ...last.to } as KubeObject;
    const { time, object: live } = world;
    return refusal(() =>
      applyPatch({
        schema: thing,
        live,
        config: sent,
        manager: "apply" in last ? last.apply : "",
        force: false,
        apiVersion: "v1",
        subresource: "",
        time,
      }),
    );
  }

  test("one conflict fits on a line", () => {
    const error = refusedText([{ update: "kubectl-edit", to: { numeric: 1 } }], { apply: "a", to: { numeric: 2 } });
    expect(error.status).toEqual({
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message: 'Apply failed with 1 conflict: conflict with "kubectl-edit" using v1: .numeric',
      reason: "Conflict",
      details: {
        causes: [
          { reason: "FieldManagerConflict", message: 'conflict with "kubectl-edit" using v1', field: ".numeric" },
        ],
      },
      code: 409,
    });
  });

  test("several conflicts are listed by owner", () => {
    const steps: Step[] = [
      { update: "m", to: { numeric: 1, string: "x" } },
      { apply: "n", to: { list: [{ name: "c", value: 1 }] } },
    ];
    const last: Step = { apply: "a", to: { numeric: 2, string: "y", list: [{ name: "c", value: 2 }] } };
    expect(refusedText(steps, last).status.message).toBe(
      [
        'Apply failed with 3 conflicts: conflicts with "m" using v1:',
        "- .numeric",
        "- .string",
        'conflicts with "n":',
        '- .list[name="c"].value',
      ].join("\n"),
    );
  });
});

// Properties.

const name = fc.constantFrom("a", "b", "c");
const text = fc.constantFrom("x", "y", "constructor", "__proto__");
const small = fc.integer({ min: 0, max: 2 });
const optional = { requiredKeys: [] as never[] };
const uniqueByName = <T extends { name: string }>(item: fc.Arbitrary<T>) =>
  fc.uniqueArray(item, { selector: (value) => value.name, maxLength: 3 });
const dictionary = (values: fc.Arbitrary<Json>) => fc.dictionary(fc.oneof(name, text), values, { maxKeys: 3 });
const content = fc.record(
  {
    string: text,
    numeric: small,
    struct: fc.record({ name, value: small }, optional),
    atomicStruct: fc.record({ name, value: small }, optional),
    set: fc.uniqueArray(name, { maxLength: 3 }),
    list: uniqueByName(fc.record({ name, value: small, value2: small }, { requiredKeys: ["name"] })),
    atomicList: fc.array(name, { maxLength: 2 }),
    map: dictionary(text),
    listOfLists: uniqueByName(
      fc.record({ name, value: fc.uniqueArray(name, { maxLength: 2 }) }, { requiredKeys: ["name"] }),
    ),
    mapOfMaps: dictionary(dictionary(text)),
    any: dictionary(fc.oneof(text, small, fc.array(small, { maxLength: 2 }), dictionary(text))),
  },
  optional,
);
const manager = fc.constantFrom("m", "n", "o");
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ update: manager, to: content }),
  fc.record({ apply: manager, to: content, force: fc.constant<true>(true) }),
);

function tracked(object: KubeObject): FieldSet | undefined {
  return createdFields(shapeOf(thing), object, true, neverTracked);
}

describe("for all histories", () => {
  test("owners own only what is there", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 6 }), (steps) => {
        const world = new World(thing);
        for (const one of steps) {
          world.play(one);
          const there = tracked(world.object as KubeObject);
          for (const entry of world.object?.metadata.managedFields ?? []) {
            expect(pathsOf(difference(fromFieldsV1(entry.fieldsV1), there)).map(describePath)).toEqual([]);
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  test("after updates every leaf has exactly one owner", () => {
    const updates = fc.array(fc.record({ update: manager, to: content }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(updates, (steps) => {
        const world = new World(thing);
        for (const one of steps) world.play(one);
        // Ownership that was emptied is not taken up again by updates.
        if (world.object?.metadata.managedFields === undefined) return;
        const owned = world.object.metadata.managedFields.flatMap((entry) => pathsOf(fromFieldsV1(entry.fieldsV1)));
        const texts = owned.map(describePath);
        expect(new Set(texts).size).toBe(texts.length);
        const there = new Set(texts);
        for (const path of pathsOf(leaves(tracked(world.object)))) expect(there).toContain(describePath(path));
      }),
      { numRuns: 300 },
    );
  });

  test("applying twice changes nothing the second time, not even times", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 4 }), manager, content, (steps, who, to) => {
        const world = new World(thing);
        for (const one of steps) world.play(one);
        world.play({ apply: who, to, force: true });
        const before = JSON.stringify(world.object);
        world.play({ apply: who, to });
        expect(JSON.stringify(world.object)).toBe(before);
      }),
      { numRuns: 300 },
    );
  });

  test("what an applier owns is what it applied", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 4 }), content, (steps, to) => {
        const world = new World(thing);
        for (const one of steps) world.play(one);
        world.play({ apply: "p", to, force: true });
        const entry = world.object?.metadata.managedFields?.find((one) => one.manager === "p");
        const extracted = extractItems(shapeOf(thing), world.object, fromFieldsV1(entry?.fieldsV1)) ?? {};
        expect(canonical(extracted as Json)).toEqual(canonical(to));
      }),
      { numRuns: 300 },
    );
  });

  test("an applier that leaves an object that it alone applied leaves nothing behind", () => {
    fc.assert(
      fc.property(content, content, (first, second) => {
        const world = new World(thing);
        world.play({ apply: "p", to: first });
        world.play({ apply: "p", to: second });
        const fresh = new World(thing);
        fresh.play({ apply: "p", to: second });
        expect(canonical(world.content())).toEqual(canonical(fresh.content()));
        world.play({ apply: "p", to: {} });
        expect(canonical(world.content())).toEqual({});
      }),
      { numRuns: 300 },
    );
  });
});

/** Sets and keyed lists in one order; empty lists gone, since nobody can own one by applying it. */
function canonical(value: Json): Json {
  if (Array.isArray(value))
    return value.map(canonical).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value)
    .map(([key, below]) => [key, canonical(below)] as const)
    .filter(([, below]) => !(Array.isArray(below) && below.length === 0));
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

test("a write that differs only in times is not stored", () => {
  const world = new World(thing);
  world.play({ apply: "a", to: { string: "x" } });
  const before = world.object as KubeObject;
  const later = structuredClone(before);
  later.metadata.managedFields![0]!.time = "2030-01-01T00:00:00Z";
  expect(isSameExceptTimes(before, later)).toBe(true);
  later["string"] = "y";
  expect(isSameExceptTimes(before, later)).toBe(false);
});
