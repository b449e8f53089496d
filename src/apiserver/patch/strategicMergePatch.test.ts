import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyJson, equalJson, isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { schemaFor } from "../schema/builtinSchemas.ts";
import type { ListNode, MapNode, ScalarNode, SchemaNode, StructField, StructNode } from "../schema/schemaNode.ts";
import { strategicMergePatch } from "./strategicMergePatch.ts";

const string: ScalarNode = { kind: "scalar", type: "string" };
const int: ScalarNode = { kind: "scalar", type: "int32" };
const any: SchemaNode = { kind: "any", atomic: true };
const strings: MapNode = { kind: "map", values: string, atomic: false };

function struct(fields: Record<string, SchemaNode>, more: Partial<StructNode> = {}): StructNode {
  const entries = Object.entries(fields).map(([name, schema]): [string, StructField] => [
    name,
    { name, schema, required: false, zero: "drop" },
  ]);
  return { kind: "struct", name: "Thing", fields: new Map(entries), atomic: false, preserveUnknown: false, ...more };
}
function list(items: SchemaNode, mergeKey?: string): ListNode {
  const merge = { patchMerge: mergeKey !== undefined, patchMergeKey: mergeKey ?? "", patchRetainKeys: false };
  return { kind: "list", items, listType: "atomic", listKeys: [], ...merge };
}

/** The corner of a Deployment where every rule occurs. */
const env = struct({
  name: string,
  value: string,
  valueFrom: struct({ fieldRef: struct({ fieldPath: string }), secretKeyRef: struct({ name: string, key: string }) }),
});
const port = struct({ containerPort: int, protocol: string, name: string });
const mount = struct({ mountPath: string, name: string, subPath: string });
const container = struct({
  name: string,
  image: string,
  args: list(string),
  env: list(env, "name"),
  ports: list(port, "containerPort"),
  volumeMounts: list(mount, "mountPath"),
  resources: struct({ limits: strings, requests: strings }),
});
const volume = struct({
  name: string,
  emptyDir: struct({ medium: string }),
  hostPath: struct({ path: string }),
  configMap: struct({ name: string }),
});
const podSpec = struct({
  containers: list(container, "name"),
  volumes: list(volume, "name"),
  nodeSelector: strings,
  tolerations: list(struct({ key: string, operator: string })),
  imagePullSecrets: list(struct({ name: string }), "name"),
});
const deployment = struct({
  metadata: struct({
    name: string,
    labels: strings,
    annotations: strings,
    finalizers: list(string, ""),
    ownerReferences: list(struct({ uid: string, name: string }), "uid"),
  }),
  spec: struct({
    replicas: int,
    selector: struct({ matchLabels: strings }, { replace: true }),
    strategy: struct({ type: string, rollingUpdate: struct({ maxSurge: int }) }, { retainKeys: true }),
    template: struct({ spec: podSpec }),
    data: any,
  }),
});

const patchOf = (target: Json, patch: Json): Json => strategicMergePatch(target as JsonObject, patch, deployment);
const pod = (spec: Json): Json => ({ spec: { template: { spec } } });
/** Patches the pod spec and returns it. */
function patchPod(target: Json, patch: Json): Json {
  const before = copyJson([target, patch]);
  const result = patchOf(pod(target), pod(patch)) as { spec: { template: { spec: Json } } };
  expect([target, patch], "neither input changes").toEqual(before);
  return result.spec.template.spec;
}

describe("patches that kubectl sends", () => {
  test("set image changes one container and keeps the other", () => {
    const target = {
      containers: [
        { name: "a", image: "a:1", args: ["x"] },
        { name: "b", image: "b:1" },
      ],
    };
    expect(patchPod(target, { containers: [{ name: "b", image: "b:2" }] })).toEqual({
      containers: [
        { name: "a", image: "a:1", args: ["x"] },
        { name: "b", image: "b:2" },
      ],
    });
  });
  test("apply with an order, an added container first", () => {
    const target = { containers: [{ name: "a", image: "a:1" }] };
    const patch = {
      "$setElementOrder/containers": [{ name: "new" }, { name: "a" }],
      containers: [{ name: "new", image: "n:1" }],
    };
    expect(patchPod(target, patch)).toEqual({
      containers: [
        { name: "new", image: "n:1" },
        { name: "a", image: "a:1" },
      ],
    });
  });
  test("apply that removes a container and changes env in another", () => {
    const target = {
      containers: [
        {
          name: "a",
          env: [
            { name: "X", value: "1" },
            { name: "Y", value: "2" },
            { name: "Z", value: "3" },
          ],
        },
        { name: "b" },
      ],
    };
    const patch = {
      "$setElementOrder/containers": [{ name: "a" }],
      containers: [
        {
          name: "a",
          "$setElementOrder/env": [{ name: "Z" }, { name: "X" }],
          env: [
            { name: "X", value: "9" },
            { $patch: "delete", name: "Y" },
          ],
        },
        { $patch: "delete", name: "b" },
      ],
    };
    expect(patchPod(target, patch)).toEqual({
      containers: [
        {
          name: "a",
          env: [
            { name: "Z", value: "3" },
            { name: "X", value: "9" },
          ],
        },
      ],
    });
  });
  test("env from a value to a reference: null drops the value", () => {
    const target = { containers: [{ name: "a", env: [{ name: "X", value: "1" }] }] };
    const patch = {
      containers: [{ name: "a", env: [{ name: "X", value: null, valueFrom: { fieldRef: { fieldPath: "p" } } }] }],
    };
    expect(patchPod(target, patch)).toEqual({
      containers: [{ name: "a", env: [{ name: "X", valueFrom: { fieldRef: { fieldPath: "p" } } }] }],
    });
  });
  test("a volume changes its source: $retainKeys drops the old one", () => {
    const target = {
      volumes: [
        { name: "v", emptyDir: {} },
        { name: "w", emptyDir: {} },
      ],
    };
    const patch = {
      "$setElementOrder/volumes": [{ name: "v" }, { name: "w" }],
      volumes: [{ $retainKeys: ["name", "hostPath"], name: "v", hostPath: { path: "/x" } }],
    };
    expect(patchPod(target, patch)).toEqual({
      volumes: [
        { name: "v", hostPath: { path: "/x" } },
        { name: "w", emptyDir: {} },
      ],
    });
  });
  test("a new volume keeps no $retainKeys", () => {
    expect(
      patchPod({}, { volumes: [{ $retainKeys: ["name", "emptyDir"], name: "v", emptyDir: { medium: null } }] }),
    ).toEqual({ volumes: [{ name: "v", emptyDir: {} }] });
  });
  test("strategy to Recreate drops rollingUpdate", () => {
    const target = { spec: { strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1 } } } };
    expect(
      patchOf(target, { spec: { strategy: { $retainKeys: ["type"], rollingUpdate: null, type: "Recreate" } } }),
    ).toEqual({ spec: { strategy: { type: "Recreate" } } });
  });
  test("a finalizer removed and another added", () => {
    const target = { metadata: { finalizers: ["a", "b"] } };
    const patch = {
      metadata: {
        "$deleteFromPrimitiveList/finalizers": ["a"],
        "$setElementOrder/finalizers": ["b", "c"],
        finalizers: ["c"],
      },
    };
    expect(patchOf(target, patch)).toEqual({ metadata: { finalizers: ["b", "c"] } });
  });
  test("finalizers are a union without repeats", () => {
    expect(patchOf({ metadata: { finalizers: ["a", "b"] } }, { metadata: { finalizers: ["b", "c"] } })).toEqual({
      metadata: { finalizers: ["a", "b", "c"] },
    });
    expect(patchOf({ metadata: {} }, { metadata: { finalizers: ["b"] } })).toEqual({ metadata: { finalizers: ["b"] } });
    expect(patchOf({ metadata: {} }, { metadata: { "$deleteFromPrimitiveList/finalizers": ["b"] } })).toEqual({
      metadata: {},
    });
  });
  test("label and annotate", () => {
    const target = { metadata: { labels: { a: "1", b: "2" }, name: "x" } };
    expect(patchOf(target, { metadata: { labels: { a: null, c: "3" } } })).toEqual({
      metadata: { labels: { b: "2", c: "3" }, name: "x" },
    });
  });
  test("scale sends one number", () => {
    expect(patchOf({ spec: { replicas: 1 } }, { spec: { replicas: 0 } })).toEqual({ spec: { replicas: 0 } });
  });
  test("set resources merges limits", () => {
    const target = { containers: [{ name: "a", resources: { limits: { cpu: "1", memory: "1Gi" } } }] };
    expect(patchPod(target, { containers: [{ name: "a", resources: { limits: { cpu: "2" } } }] })).toEqual({
      containers: [{ name: "a", resources: { limits: { cpu: "2", memory: "1Gi" } } }],
    });
  });
  test("taking over an orphan adds an owner by uid", () => {
    const target = { metadata: { ownerReferences: [{ uid: "1", name: "a" }] } };
    expect(patchOf(target, { metadata: { ownerReferences: [{ uid: "2", name: "b" }] } })).toEqual({
      metadata: {
        ownerReferences: [
          { uid: "2", name: "b" },
          { uid: "1", name: "a" },
        ],
      },
    });
    expect(patchOf(target, { metadata: { ownerReferences: [{ $patch: "delete", uid: "1" }] } })).toEqual({
      metadata: { ownerReferences: [] },
    });
  });
});

describe("directives", () => {
  test("$patch: replace in a map replaces it, delete empties it, merge changes nothing about merging", () => {
    const target = { spec: { template: { spec: { nodeSelector: { a: "1" } } } } };
    const sent = (nodeSelector: Json) => patchOf(target, pod({ nodeSelector }));
    expect(sent({ $patch: "replace", b: "2" })).toEqual(pod({ nodeSelector: { b: "2" } }));
    expect(sent({ $patch: "delete" })).toEqual(pod({ nodeSelector: {} }));
    expect(sent({ $patch: "merge", b: "2" })).toEqual(pod({ nodeSelector: { a: "1", b: "2" } }));
    expect(() => sent({ $patch: "frob" })).toThrow("unknown patch type: frob in map: map[$patch:frob]");
  });
  test("$patch: replace among items replaces the whole list", () => {
    const target = { containers: [{ name: "a" }, { name: "b" }] };
    expect(patchPod(target, { containers: [{ name: "c", image: "c:1" }, { $patch: "replace" }] })).toEqual({
      containers: [{ name: "c", image: "c:1" }],
    });
    expect(patchPod(target, { containers: [{ $patch: "replace" }] })).toEqual({ containers: [] });
  });
  test("deleting an item that is not there does nothing", () => {
    expect(patchPod({ containers: [{ name: "a" }] }, { containers: [{ $patch: "delete", name: "z" }] })).toEqual({
      containers: [{ name: "a" }],
    });
    expect(patchPod({}, { containers: [{ $patch: "delete", name: "z" }, { name: "a" }] })).toEqual({
      containers: [{ name: "a" }],
    });
  });
  test("a list without a strategy is replaced", () => {
    expect(patchPod({ tolerations: [{ key: "a" }] }, { tolerations: [{ key: "b" }] })).toEqual({
      tolerations: [{ key: "b" }],
    });
    expect(
      patchPod({ containers: [{ name: "a", args: ["x", "y"] }] }, { containers: [{ name: "a", args: ["z"] }] }),
    ).toEqual({ containers: [{ name: "a", args: ["z"] }] });
  });
  test("a struct with strategy replace is replaced", () => {
    const target = { spec: { selector: { matchLabels: { a: "1" } } } };
    expect(patchOf(target, { spec: { selector: { matchLabels: { b: "2" } } } })).toEqual({
      spec: { selector: { matchLabels: { b: "2" } } },
    });
  });
  test("null deletes a list, a map, a scalar, and what is not there", () => {
    const target = { spec: { replicas: 1, template: { spec: { containers: [{ name: "a" }], nodeSelector: {} } } } };
    expect(
      patchOf(target, {
        spec: { replicas: null, selector: null, template: { spec: { containers: null, nodeSelector: null } } },
      }),
    ).toEqual(pod({}));
  });
  test("nulls vanish from what is new", () => {
    expect(patchPod({}, { nodeSelector: { a: null, b: "1" }, containers: [{ name: "a", image: null }] })).toEqual({
      nodeSelector: { b: "1" },
      containers: [{ name: "a" }],
    });
  });
  test("raw JSON is data: a $patch in a new one stays", () => {
    const data = { spec: { $patch: "replace", x: null } };
    expect(patchOf({ spec: {} }, { spec: { data } })).toEqual({ spec: { data } });
  });
  test("ports are matched by containerPort alone: the first of two takes the patch", () => {
    const ports = [
      { containerPort: 53, protocol: "TCP" },
      { containerPort: 53, protocol: "UDP" },
    ];
    expect(
      patchPod(
        { containers: [{ name: "a", ports }] },
        { containers: [{ name: "a", ports: [{ containerPort: 53, name: "dns" }] }] },
      ),
    ).toEqual({
      containers: [
        {
          name: "a",
          ports: [
            { containerPort: 53, protocol: "TCP", name: "dns" },
            { containerPort: 53, protocol: "UDP" },
          ],
        },
      ],
    });
    expect(patchPod({ containers: [{ name: "a" }] }, { containers: [{ name: "a", ports }] })).toEqual({
      containers: [{ name: "a", ports: [{ containerPort: 53, protocol: "UDP" }] }],
    });
  });
  test("the number 80 and the text 80 are different keys", () => {
    const merged = patchPod(
      { containers: [{ name: "a", ports: [{ containerPort: 80 }] }] },
      { containers: [{ name: "a", ports: [{ containerPort: "80" }] }] },
    );
    expect(merged).toEqual({ containers: [{ name: "a", ports: [{ containerPort: "80" }, { containerPort: 80 }] }] });
  });
});

describe("order", () => {
  const names = (spec: Json) => (spec as { containers: { name: string }[] }).containers.map((c) => c.name).join("");
  const containers = (text: string) => [...text].map((name) => ({ name }));
  test.each([
    ["new items go first when no order is given, as upstream does it", "ab", "c", undefined, "cab"],
    ["a patched item pulls those before it along", "abc", "bn", undefined, "abnc"],
    ["items of the server stay before those they stood before", "abc", "", "ca", "bca"],
    ["the patch may reverse", "abc", "", "cba", "cba"],
    ["an item of the server between two keeps its left neighbour", "axb", "", "ab", "axb"],
    ["an item that came on the server stays at the end", "abx", "c", "abc", "abcx"],
    ["an item that came first on the server stays first", "xab", "c", "cab", "cxab"],
    ["new items in front", "ab", "n", "nab", "nab"],
    ["order without any server list", "", "ba", "ba", "ba"],
  ])("%s", (_fact, server, patch, order, expected) => {
    const change: JsonObject = {};
    if (patch !== "") change["containers"] = containers(patch);
    if (order !== undefined) change["$setElementOrder/containers"] = containers(order);
    const target = server === "" ? {} : { containers: containers(server) };
    expect(names(patchPod(target, change))).toBe(expected);
  });
});

test("with an order, a new item takes the place of a removed one", () => {
  const target = { containers: [{ name: "a" }, { name: "b" }, { name: "server" }] };
  const patch = {
    "$setElementOrder/containers": [{ name: "b" }, { name: "new" }],
    containers: [{ name: "new" }, { $patch: "delete", name: "a" }],
  };
  expect(patchPod(target, patch)).toEqual({ containers: [{ name: "b" }, { name: "server" }, { name: "new" }] });
});

test("a patch that only orders primitives keeps repeated ones", () => {
  const target = { metadata: { finalizers: ["a", "b", "c", "b"] } };
  const patch = { metadata: { "$setElementOrder/finalizers": ["b", "a", "c"] } };
  expect(patchOf(target, patch)).toEqual({ metadata: { finalizers: ["b", "b", "a", "c"] } });
});

describe("with the schemas of the real kinds", () => {
  const real = (definition: string, target: Json, patch: Json) =>
    strategicMergePatch(target as JsonObject, patch, schemaFor(`io.k8s.api.${definition}`));
  test("a Deployment: containers by name, ports by number, mounts by path, strategy with retained keys", () => {
    const target = {
      spec: {
        strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1 } },
        template: {
          spec: {
            containers: [
              {
                name: "a",
                ports: [{ containerPort: 80 }],
                volumeMounts: [{ mountPath: "/x", name: "v" }],
                command: ["old"],
              },
            ],
            volumes: [{ name: "v", emptyDir: {} }],
            tolerations: [{ key: "t" }],
          },
        },
      },
    };
    const patch = {
      spec: {
        strategy: { $retainKeys: ["type"], type: "Recreate" },
        template: {
          spec: {
            containers: [
              {
                name: "a",
                ports: [{ containerPort: 80, name: "web" }],
                volumeMounts: [{ mountPath: "/x", readOnly: true }],
                command: ["new"],
              },
            ],
            volumes: [{ $retainKeys: ["name", "hostPath"], name: "v", hostPath: { path: "/h" } }],
            tolerations: [{ key: "u" }],
          },
        },
      },
    };
    expect(real("apps.v1.Deployment", target, patch)).toEqual({
      spec: {
        strategy: { type: "Recreate" },
        template: {
          spec: {
            containers: [
              {
                name: "a",
                ports: [{ containerPort: 80, name: "web" }],
                volumeMounts: [{ mountPath: "/x", name: "v", readOnly: true }],
                command: ["new"],
              },
            ],
            volumes: [{ name: "v", hostPath: { path: "/h" } }],
            tolerations: [{ key: "u" }],
          },
        },
      },
    });
  });
  test("a Node: conditions by type, addresses by type, taints replaced", () => {
    const target = {
      spec: { taints: [{ key: "a" }] },
      status: {
        conditions: [
          { type: "Ready", status: "False" },
          { type: "DiskPressure", status: "False" },
        ],
        addresses: [{ type: "Hostname", address: "h" }],
      },
    };
    const patch = {
      spec: { taints: [{ key: "b" }] },
      status: {
        conditions: [{ type: "Ready", status: "True" }],
        addresses: [{ type: "InternalIP", address: "10.0.0.1" }],
        "$setElementOrder/conditions": [{ type: "DiskPressure" }, { type: "Ready" }],
      },
    };
    expect(real("core.v1.Node", target, patch)).toEqual({
      spec: { taints: [{ key: "b" }] },
      status: {
        conditions: [
          { type: "DiskPressure", status: "False" },
          { type: "Ready", status: "True" },
        ],
        addresses: [
          { type: "InternalIP", address: "10.0.0.1" },
          { type: "Hostname", address: "h" },
        ],
      },
    });
  });
  test("a disruption budget: its selector is replaced", () => {
    const target = { spec: { selector: { matchLabels: { a: "1" } } } };
    expect(real("policy.v1.PodDisruptionBudget", target, { spec: { selector: { matchLabels: { b: "2" } } } })).toEqual({
      spec: { selector: { matchLabels: { b: "2" } } },
    });
  });
  test("a Pod: finalizers are a set and owners go by uid", () => {
    const target = { metadata: { finalizers: ["a"], ownerReferences: [{ uid: "1", name: "x" }] } };
    const patch = {
      metadata: {
        finalizers: ["a", "b"],
        "$deleteFromPrimitiveList/finalizers": ["a"],
        ownerReferences: [{ uid: "1", name: "y" }],
      },
    };
    expect(real("core.v1.Pod", target, patch)).toEqual({
      metadata: { finalizers: ["b"], ownerReferences: [{ uid: "1", name: "y" }] },
    });
  });
});

describe("mistakes are answered with 400", () => {
  test.each<[string, Json, string]>([
    [
      "an item without its key",
      { containers: [{ image: "x" }] },
      "map: map[image:x] does not contain declared merge key: name",
    ],
    [
      "a deletion without its key",
      { containers: [{ $patch: "delete" }] },
      "map: map[$patch:delete] does not contain declared merge key: name",
    ],
    [
      "merge among items",
      { containers: [{ $patch: "merge", name: "a" }] },
      "merging lists cannot yet be specified in the patch",
    ],
    [
      "an unknown word among items",
      { containers: [{ $patch: "x", name: "a" }] },
      "unknown patch type: x in map: map[$patch:x name:a]",
    ],
    ["an order that is no list", { "$setElementOrder/containers": {} }, "invalid patch format of setElementOrder list"],
    ["an order without a field", { $setElementOrder: [] }, "invalid patch format of setElementOrder list"],
    [
      "an order together with null",
      { "$setElementOrder/containers": [], containers: null },
      "invalid patch format of setElementOrder list",
    ],
    [
      "an order that misses a patched item",
      { "$setElementOrder/containers": [{ name: "a" }], containers: [{ name: "b" }] },
      "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    ],
    [
      "an order that contradicts the patch",
      { "$setElementOrder/containers": [{ name: "a" }, { name: "b" }], containers: [{ name: "b" }, { name: "a" }] },
      "doesn't match",
    ],
    [
      "primitives to delete that are no list",
      { "$deleteFromPrimitiveList/x": 1 },
      "invalid patch format of primitive list",
    ],
    ["keys to retain that are no list", { $retainKeys: "x" }, "invalid patch format of retainKeys"],
    ["a key that is not retained", { $retainKeys: ["a"], nodeSelector: {} }, "invalid patch format of retainKeys"],
    ["maps and numbers in one list", { containers: [{ name: "a" }, 1] }, "list element types are not identical"],
    ["a null item", { containers: [null] }, "list element types are not identical"],
  ])("%s", (_name, patch, message) => {
    expect(() => patchPod({ containers: [{ name: "a" }] }, patch)).toThrow(
      expect.objectContaining({
        message: expect.stringContaining(message),
        status: expect.objectContaining({ code: 400 }),
      }),
    );
  });
  test("a list of lists: 422", () => {
    expect(() => patchPod({ containers: [] }, { containers: [[]] })).toThrow(
      expect.objectContaining({ status: expect.objectContaining({ code: 422 }) }),
    );
  });
  test("a patch that is not an object: 400", () => {
    expect(() => patchOf({}, [])).toThrow("invalid JSON document");
  });
  test("a prototype cannot be reached", () => {
    for (const text of [
      '{"__proto__":{"p":1}}',
      '{"spec":{"__proto__":{"p":1}}}',
      '{"spec":{"template":{"__proto__":1}}}',
      '{"$setElementOrder/__proto__":[]}',
      '{"spec":{"template":{"spec":{"containers":[{"name":"a","__proto__":{"p":1}}]}}}}',
    ]) {
      expect(() => patchOf({}, JSON.parse(text) as Json), text).toThrow("__proto__");
    }
    expect(({} as Record<string, unknown>)["p"]).toBeUndefined();
    expect(patchOf({}, { constructor: { name: "x" } })).toEqual({ constructor: { name: "x" } });
  });
  test("fifty thousand items are merged and put in order", () => {
    const many = Array.from({ length: 50_000 }, (_, i) => ({ name: `c${i}` }));
    const patched = patchPod(
      { containers: many },
      { "$setElementOrder/containers": many.toReversed(), containers: [{ name: "c7", image: "x" }] },
    );
    expect(patched).toMatchObject({ containers: expect.arrayContaining([{ name: "c7", image: "x" }]) });
  });
});

describe("a patch made from a difference leads to the goal", () => {
  /** What kubectl computes, in its simplest form, for this schema. */
  function diff(from: JsonObject, to: JsonObject, schema: SchemaNode | undefined): JsonObject {
    const patch: JsonObject = {};
    for (const key of Object.keys(from)) if (!Object.hasOwn(to, key)) patch[key] = null;
    for (const [key, goal] of Object.entries(to)) {
      const now = from[key];
      if (now !== undefined && equalJson(now, goal)) continue;
      const child =
        schema?.kind === "struct" ? schema.fields.get(key)?.schema : schema?.kind === "map" ? schema.values : undefined;
      if (isObject(goal) && isObject(now)) patch[key] = diff(now, goal, child);
      else if (child?.kind === "list" && child.patchMerge && Array.isArray(now) && Array.isArray(goal)) {
        if (child.patchMergeKey === "") {
          patch[`$deleteFromPrimitiveList/${key}`] = now.filter((item) => !goal.includes(item));
          patch[key] = goal.filter((item) => !now.includes(item));
          patch[`$setElementOrder/${key}`] = goal;
        } else {
          const id = child.patchMergeKey;
          const items: Json[] = [];
          for (const item of goal as JsonObject[]) {
            const old = (now as JsonObject[]).find((other) => other[id] === item[id]);
            if (old === undefined) items.push(item);
            else if (!equalJson(old, item)) items.push({ ...diff(old, item, child.items), [id]: item[id]! });
          }
          for (const old of now as JsonObject[])
            if (!(goal as JsonObject[]).some((item) => item[id] === old[id]))
              items.push({ $patch: "delete", [id]: old[id]! });
          patch[key] = items;
          patch[`$setElementOrder/${key}`] = (goal as JsonObject[]).map((item) => ({ [id]: item[id]! }));
        }
      } else patch[key] = goal;
    }
    return patch;
  }

  const small = fc.constantFrom("a", "b", "c");
  const maybe = <T>(arb: fc.Arbitrary<T>) => fc.option(arb, { nil: undefined });
  const prune = (value: Json | undefined): Json | undefined => {
    if (Array.isArray(value)) return value.map((item) => prune(item)!);
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(([, child]) => child !== undefined)
        .map(([key, child]) => [key, prune(child)!]),
    );
  };
  const containers = fc.uniqueArray(
    fc.record({
      name: small,
      image: maybe(small),
      args: maybe(fc.array(small, { maxLength: 3 })),
      env: maybe(
        fc.uniqueArray(fc.record({ name: small, value: maybe(small) }), { selector: (e) => e.name, maxLength: 3 }),
      ),
      ports: maybe(
        fc.uniqueArray(fc.record({ containerPort: fc.nat(3), name: maybe(small) }), {
          selector: (p) => p.containerPort,
          maxLength: 3,
        }),
      ),
    }),
    { selector: (c) => c.name, maxLength: 3 },
  );
  const deployments = fc
    .record({
      metadata: fc.record({
        labels: maybe(fc.dictionary(small, small, { noNullPrototype: true })),
        finalizers: maybe(fc.uniqueArray(small)),
      }),
      spec: fc.record({
        replicas: maybe(fc.nat(3)),
        template: fc.record({
          spec: fc.record({
            containers: maybe(containers),
            nodeSelector: maybe(fc.dictionary(small, small, { noNullPrototype: true })),
          }),
        }),
      }),
    })
    .map((value) => prune(value as Json) as JsonObject);

  test("for every pair of deployments", () => {
    fc.assert(
      fc.property(deployments, deployments, (from, to) => {
        const before = copyJson(from);
        expect(strategicMergePatch(from, diff(from, to, deployment), deployment)).toEqual(to);
        expect(from).toEqual(before);
        expect(strategicMergePatch(from, {}, deployment)).toEqual(from);
      }),
      { numRuns: 1000 },
    );
  });
});
