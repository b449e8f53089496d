import { describe, expect, test } from "vitest";
import { TestApi } from "../../../testing/apiserver/testApi.ts";
import { FaultyKube } from "../../../testing/control/faultyKube.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
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
  return { api, kube, ports: { kube, clock: api.clock }, defined, writes };
}

describe("an installation", () => {
  test("that is refused one definition writes none, and reports it", async () => {
    const { kube, ports, defined } = await newCluster();
    kube.faults.before = (verb, what) =>
      verb === "create" && what.endsWith("topologies.kai.scheduler") ? refused("Invalid", "too dear") : undefined;
    const outcome = await ensureDefinitions(ports, components);
    expect(outcome).toMatchObject({ ok: false, message: "too dear; no definition was written" });
    expect(await defined()).toBe(0);
  });

  test("that fails in the middle names what it has written", async () => {
    const { kube, ports } = await newCluster();
    let creates = 0;
    kube.faults.before = (verb, what) => {
      creates += verb === "create" && what.endsWith("queues.scheduling.run.ai") ? 1 : 0;
      // The first call is the dry run.
      return creates > 1 ? refused("Unavailable", "away") : undefined;
    };
    const outcome = await ensureDefinitions(ports, components);
    expect(outcome.ok ? "" : outcome.message).toMatch(
      /^away; written before that: bindrequests\.scheduling\.run\.ai, /,
    );
  });

  test("of definitions that exist already writes nothing", async () => {
    const { kube, ports, writes } = await newCluster();
    expect(await ensureDefinitions(ports, components)).toMatchObject({ ok: true });
    expect(await ensureStartObjects(kube, components)).toMatchObject({ ok: true });
    kube.calls.length = 0;
    expect(await ensureDefinitions(ports, components)).toMatchObject({ ok: true });
    expect(await ensureStartObjects(kube, components)).toMatchObject({ ok: true });
    expect(writes()).toEqual([]);
  });

  test("leaves definitions of another program as they are, names them, and updates older ones of its own", async () => {
    const { api, kube, ports, writes } = await newCluster();
    const create = async (by: string, name: string): Promise<void> => {
      const all = components.flatMap((each) => each.definitions ?? []);
      const wanted = all.find(({ metadata }) => metadata.name === name);
      if (wanted === undefined) throw new Error(`no component defines ${name}`);
      const spec = { ...wanted.spec, versions: [emptyVersion(wanted.spec.versions[0]?.name ?? "")] };
      const others = inProcessKube(api.core, { ...admin, fieldManager: by });
      expect(await others.create(definitions, { ...wanted, spec })).toMatchObject({ ok: true });
    };
    await create("helm", "queues.scheduling.run.ai");
    await create("muster", "podgroups.scheduling.run.ai");
    kube.calls.length = 0;
    const outcome = await ensureDefinitions(ports, components);
    expect(outcome).toMatchObject({ ok: true, value: { left: ["queues.scheduling.run.ai"] } });
    const update = "update customresourcedefinitions podgroups.scheduling.run.ai";
    expect(writes().filter((call) => call.startsWith("update "))).toEqual([update, update]);
  });
});

/** Serves everything and checks nothing, as an older definition might. */
function emptyVersion(name: string): CustomResourceDefinition["spec"]["versions"][number] {
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return { name, served: true, storage: true, schema };
}
