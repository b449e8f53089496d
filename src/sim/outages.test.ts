import { expect, test } from "vitest";
import type { NewObject } from "../model/intent.ts";
import { builtin } from "../model/resources.generated.ts";
import type { ActorPorts } from "./actor.ts";
import { runSeed, withTripwires } from "./runSeed.ts";
import type { Scenario } from "./scenario.ts";

const widgets = { group: "example.com", version: "v1", plural: "widgets" };
const definition = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "widgets.example.com" },
  spec: {
    group: "example.com",
    scope: "Cluster",
    names: { plural: "widgets", kind: "Widget" },
    versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } }],
  },
};
const namespaces = builtin.Namespace;

/** The API server is away from 1,000 ms to 3,000 ms, and there is no other fault. */
const awayForTwoSeconds = [
  { key: "api|1|outage", value: 1_000 },
  { key: "api|1|length|outage", value: 2_000 },
];

async function duringOutage(user: (ports: ActorPorts) => Promise<void>): Promise<void> {
  const scenario: Scenario = {
    name: "test",
    about: "one actor, one outage",
    definitions: [definition],
    actors: () => [{ name: "user", finite: true, run: user }],
    invariants: [],
    faultPhaseMs: 5_000,
    settleMs: 10_000,
    quietMs: 1_000,
  };
  const { violation } = await withTripwires(() => runSeed(scenario, 1, awayForTwoSeconds));
  expect(violation).toBeUndefined();
}

function namespace(name: string): NewObject {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name } };
}

test("calls are refused during an outage, and custom resources for a moment longer", async () => {
  const answers: unknown[] = [];
  await duringOutage(async ({ kube, sleep }) => {
    for (const ms of [900, 600, 1_700, 1_000]) {
      await sleep(ms);
      const builtIn = await kube.list(namespaces);
      const custom = await kube.list(widgets);
      answers.push([builtIn.ok || builtIn.reason, custom.ok || custom.reason]);
    }
  });
  expect(answers).toEqual([
    [true, true],
    ["Unavailable", "Unavailable"],
    [true, "TooManyRequests"],
    [true, true],
  ]);
});

test("a write that is under way when the server goes is unknown to its client, and has no effect", async () => {
  let written: unknown;
  let found: unknown;
  await duringOutage(async ({ kube, sleep }) => {
    await sleep(999.8);
    const outcome = await kube.create(namespaces, namespace("late"));
    written = outcome.ok || outcome.reason;
    await sleep(3_000);
    const read = await kube.get({ ...namespaces, namespace: "", name: "late" });
    found = read.ok || read.reason;
  });
  expect(written).toBe("Unknown");
  expect(found).toBe("NotFound");
});

test("a watch is cut when the server goes, refused while it is away, and goes on where it was", async () => {
  const ends: unknown[] = [];
  const names: string[] = [];
  await duringOutage(async ({ kube, sleep }) => {
    const first = await kube.create(namespaces, namespace("first"));
    if (!first.ok) throw new Error(first.message);
    let { resourceVersion } = first.value.metadata;
    let done = false;
    const follow = (): void => {
      kube.watch(
        namespaces,
        { resourceVersion },
        {
          event: (event) => {
            if (event.type === "BOOKMARK") return;
            names.push(event.object.metadata.name);
            resourceVersion = event.object.metadata.resourceVersion;
          },
          ended: (why) => {
            ends.push(why !== undefined && !why.ok && why.reason);
            if (!done) void sleep(900).then(follow);
          },
        },
      );
    };
    follow();
    await kube.create(namespaces, namespace("before"));
    await sleep(3_200);
    await kube.create(namespaces, namespace("after"));
    await sleep(1_500);
    done = true;
  });
  expect(ends).toEqual(["Unknown", "Unavailable", "Unavailable"]);
  expect(names).toEqual(["before", "after"]);
});
