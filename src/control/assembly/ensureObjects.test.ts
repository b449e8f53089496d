import { describe, expect, test } from "vitest";
import { TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { inProcessKube } from "../../apiserver/kubeApi.ts";
import { refused } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { controlPlane, usualComponents } from "./controlPlane.ts";
import { ensureDefinitions, ensureStartObjects } from "./ensureObjects.ts";

const components = usualComponents(controlPlane());
const definitions = builtin.CustomResourceDefinition;
const admin = { user: { username: "admin", groups: ["system:masters"] }, fieldManager: "test" };

async function newCluster() {
  const api = await TestApi.start();
  const kube = new FaultyKube(inProcessKube(api.core, admin));
  const defined = async (): Promise<number> => {
    const listed = await kube.list(definitions);
    return listed.ok ? listed.value.items.length : -1;
  };
  const writes = (): string[] => kube.calls.filter((call) => /^(create|update|patch) /.test(call));
  return { kube, ports: { kube, clock: api.clock }, defined, writes };
}

describe("an installation", () => {
  test("that is refused one definition leaves none, and says so", async () => {
    const { kube, ports, defined } = await newCluster();
    kube.faults.before = (verb, what) =>
      verb === "create" && what.endsWith("topologies.kai.scheduler") ? refused("Invalid", "too dear") : undefined;
    const outcome = await ensureDefinitions(ports, components);
    expect(outcome).toMatchObject({ ok: false, message: "too dear; no definition was written" });
    expect(await defined()).toBe(0);
  });

  test("that breaks off in the middle names what it made", async () => {
    const { kube, ports } = await newCluster();
    let creates = 0;
    kube.faults.before = (verb, what) => {
      creates += verb === "create" && what.endsWith("queues.scheduling.run.ai") ? 1 : 0;
      // The first is the trial.
      return creates > 1 ? refused("Unavailable", "away") : undefined;
    };
    const outcome = await ensureDefinitions(ports, components);
    expect(outcome.ok ? "" : outcome.message).toMatch(
      /^away; written before that: bindrequests\.scheduling\.run\.ai, /,
    );
  });

  test("of what is there already writes nothing", async () => {
    const { kube, ports, writes } = await newCluster();
    expect(await ensureDefinitions(ports, components)).toMatchObject({ ok: true });
    expect(await ensureStartObjects(kube, components)).toMatchObject({ ok: true });
    kube.calls.length = 0;
    expect(await ensureDefinitions(ports, components)).toMatchObject({ ok: true });
    expect(await ensureStartObjects(kube, components)).toMatchObject({ ok: true });
    expect(writes()).toEqual([]);
  });
});
