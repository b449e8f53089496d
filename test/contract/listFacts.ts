import { expect, test } from "vitest";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { KubeList, ListOptions } from "../../src/ports/kubeApi.ts";
import {
  at,
  type ContractCluster,
  configMap,
  configMaps,
  expectRefused,
  namespaces,
  needsServer,
  pod,
  pods,
  value,
} from "./contractCluster.ts";
import { ownNamespace } from "./ownNamespace.ts";

export function listFacts(cluster: () => ContractCluster): void {
  const own = ownNamespace("lists", cluster);
  const make = async (name: string, metadata: object = {}, more: object = {}): Promise<KubeObject> =>
    value(await cluster().api.create(configMaps, configMap(own(), name, more, metadata)));
  // Every namespace has `kube-root-ca.crt`, which the facts leave out.
  const ours = { labelSelector: "ours" };
  const label = (more: object = {}) => ({ labels: { ours: "yes", ...more } });
  const list = async (options: ListOptions): Promise<KubeList> =>
    value(await cluster().api.list(configMaps, { namespace: own(), ...ours, ...options }));
  const names = ({ items }: KubeList): string[] => items.map((item) => item.metadata.name);

  test("a list has complete objects in the order of their names, and its revision", async () => {
    const b = await make("b", label());
    const a = await make("a", label());
    const found = await list({});
    expect(found.items).toEqual([a, b]);
    expect(Number(found.revision)).toBeGreaterThanOrEqual(Number(a.metadata.resourceVersion));
    expect(found.continueToken).toBeUndefined();
  });

  test("items have their kind, although items of a list over HTTP do not", async () => {
    await make("a", label());
    expect((await list({})).items).toMatchObject([{ apiVersion: "v1", kind: "ConfigMap" }]);
  });

  test("an empty list is a list", async () => {
    const found = await list({});
    expect(found.items).toEqual([]);
    expect(found.revision).toMatch(/^[0-9]+$/);
  });

  test("without a namespace a list spans all of them", async () => {
    await make("a", { labels: { only: own() } });
    const found = value(await cluster().api.list(configMaps, { labelSelector: `only=${own()}` }));
    expect(names(found)).toEqual(["a"]);
    const all = value(await cluster().api.list(namespaces));
    expect(names(all)).toContain(own());
  });

  test.each<[string, string[]]>([
    ["tier=front", ["a"]],
    ["tier in (front, back)", ["a", "b"]],
    ["tier!=front", ["b", "c"]],
    ["!tier", ["c"]],
    ["tier,tier notin (back)", ["a"]],
  ])("the label selector %s chooses %j", async (selector, expected) => {
    await make("a", label({ tier: "front" }));
    await make("b", label({ tier: "back" }));
    await make("c", label());
    expect(names(await list({ labelSelector: `ours,${selector}` }))).toEqual(expected);
  });

  test("field selectors choose by name and by node", async () => {
    await make("a", label());
    await make("b", label());
    expect(names(await list({ fieldSelector: "metadata.name=b" }))).toEqual(["b"]);
    const { uid } = value(await cluster().api.create(pods, pod(own(), "p"))).metadata;
    value(await cluster().api.create(pods, pod(own(), "q")));
    value(await cluster().api.bind(at(pods, own(), "p"), { node: "n-of-p", uid }));
    const bound = { namespace: own(), fieldSelector: "spec.nodeName=n-of-p" };
    expect(names(value(await cluster().api.list(pods, bound)))).toEqual(["p"]);
    const unbound = { namespace: own(), fieldSelector: "spec.nodeName=" };
    expect(names(value(await cluster().api.list(pods, unbound)))).toEqual(["q"]);
  });

  test.each<[string, ListOptions]>([
    ["a label selector that cannot be read", { labelSelector: "a in (" }],
    ["a field that cannot be selected by", { fieldSelector: "spec.colour=red" }],
    ["a token that is not the server's", { continueToken: "nonsense" }],
    ["a revision that is no number", { resourceVersion: "soon" }],
    ["an exact revision that is not given", { resourceVersionMatch: "Exact" }],
  ])("%s is Invalid", async (_, options) => {
    expectRefused(await cluster().api.list(configMaps, { namespace: own(), ...options }), "Invalid");
  });

  test("pages have every object once, at one revision, whatever is written in between", async () => {
    for (const name of ["a", "b", "c", "d", "e"]) await make(name, label());
    const first = await list({ limit: 2 });
    expect(names(first)).toEqual(["a", "b"]);
    await make("bb", label());
    value(await cluster().api.delete(at(configMaps, own(), "d")));
    const { continueToken = "" } = first;
    const second = await list({ limit: 2, continueToken });
    const third = await list({ limit: 2, continueToken: second.continueToken ?? "" });
    expect([...names(second), ...names(third)]).toEqual(["c", "d", "e"]);
    expect([second.revision, third.revision]).toEqual([first.revision, first.revision]);
    expect(third.continueToken).toBeUndefined();
  });

  test("a list at an exact revision has the objects of that revision; a list not older than it has the current ones", async () => {
    const old = await make("a", label(), { data: { step: "1" } });
    const { resourceVersion } = old.metadata;
    const next = value(await cluster().api.update(at(configMaps, own(), "a"), { ...old, data: { step: "2" } }));
    const then = await list({ resourceVersion, resourceVersionMatch: "Exact" });
    expect(then).toEqual({ revision: resourceVersion, items: [old] });
    const now = await list({ resourceVersion, resourceVersionMatch: "NotOlderThan" });
    expect(now.items).toEqual([next]);
  });

  test("a compacted revision is Expired, in lists at it and in pages begun there", async ({ skip }) => {
    needsServer(cluster(), skip);
    const { resourceVersion } = (await make("a", label())).metadata;
    await make("b", label());
    const { continueToken = "" } = await list({ limit: 1 });
    await make("c", label());
    cluster().compact();
    const scope = { namespace: own(), ...ours };
    const exact = { ...scope, resourceVersion, resourceVersionMatch: "Exact" } as const;
    expectRefused(await cluster().api.list(configMaps, exact), "Expired");
    expectRefused(await cluster().api.list(configMaps, { ...scope, continueToken }), "Expired");
    expect(names(await list({}))).toEqual(["a", "b", "c"]);
  });

  test("a read sees every write that was acknowledged before it", async () => {
    for (let round = 0; round < 10; round++) {
      const { metadata } = await make(`n${round}`, label());
      const found = await list({});
      expect(names(found)).toContain(metadata.name);
      expect(Number(found.revision)).toBeGreaterThanOrEqual(Number(metadata.resourceVersion));
    }
  });
}
