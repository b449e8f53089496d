/** Which changes of a clique make a new template, and which do not. */
import { expect, test } from "vitest";
import type { CliqueTemplate, PodCliqueSet } from "../../../model/gang/types.ts";
import { generationHash, isForeignHash, templateHash } from "./hashes.ts";

const cliqueNamed = (name: string): CliqueTemplate =>
  ({
    name,
    labels: { tier: "one" },
    annotations: { note: "one" },
    spec: {
      roleName: name,
      replicas: 2,
      minAvailable: 1,
      podSpec: { restartPolicy: "Always", containers: [{ name: "main", image: "i:1" }] },
    },
  }) as CliqueTemplate;

const hashesOf = (change: (set: PodCliqueSet, first: CliqueTemplate) => void) => {
  const first = cliqueNamed("a");
  const second = cliqueNamed("b");
  const set = { spec: { replicas: 1, template: { cliques: [first, second] } } } as PodCliqueSet;
  change(set, first);
  return { first: templateHash(set, first), second: templateHash(set, second), all: generationHash(set) };
};

const before = hashesOf(() => {});

test.each<[string, Parameters<typeof hashesOf>[0]]>([
  ["another image", (_set, { spec }) => Object.assign(spec.podSpec.containers[0] ?? {}, { image: "i:2" })],
  ["another label", (_set, first) => Object.assign(first, { labels: { tier: "two" } })],
  ["another annotation", (_set, first) => Object.assign(first, { annotations: { note: "two" } })],
])("%s of a clique is another template of this clique alone", (_what, change) => {
  const after = hashesOf(change);
  expect([after.first === before.first, after.second === before.second, after.all === before.all]).toEqual([
    false,
    true,
    false,
  ]);
});

test("another priority of the set is another template of every clique", () => {
  const after = hashesOf(({ spec }) => Object.assign(spec.template, { priorityClassName: "high" }));
  expect([after.first === before.first, after.second === before.second, after.all === before.all]).toEqual([
    false,
    false,
    false,
  ]);
});

test.each<[string, Parameters<typeof hashesOf>[0]]>([
  ["more replicas of the set", ({ spec }) => Object.assign(spec, { replicas: 3 })],
  ["more replicas of a clique", (_set, { spec }) => Object.assign(spec, { replicas: 3 })],
  ["another minimum", (_set, { spec }) => Object.assign(spec, { minAvailable: 2 })],
  ["another delay", ({ spec }) => Object.assign(spec.template, { terminationDelay: "1m" })],
  ["other bounds of scaling", (_set, { spec }) => Object.assign(spec, { autoScalingConfig: { maxReplicas: 9 } })],
  ["fields in another order", (_set, { spec: { podSpec } }) => reversed(podSpec)],
])("%s: the same template", (_what, change) => {
  expect(hashesOf(change)).toEqual(before);
});

function reversed(object: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(object).reverse()) {
    delete object[key];
    object[key] = value;
  }
}

test("a hash of this operator is distinguished from another operator's and from none", () => {
  expect([isForeignHash(before.all), isForeignHash("7d9f5c"), isForeignHash(undefined)]).toEqual([false, true, false]);
});
