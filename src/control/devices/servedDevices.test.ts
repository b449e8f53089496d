import { describe, expect, test } from "vitest";
import { settle } from "../../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { namespaceNamed, TestApi } from "../../../testing/apiserver/testApi.ts";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { onlyVersions } from "../../../testing/control/onlyVersions.ts";
import { partly } from "../../../testing/partly.ts";
import { inProcessKube } from "../../apiserver/inProcessKube.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { Controllers } from "../runtime/controllers.ts";
import { MemoryMetrics } from "../runtime/memoryMetrics.ts";
import { servedDevices } from "./servedDevices.ts";

const group = "resource.k8s.io";
const claims = { group, version: "v1", plural: "resourceclaims" };
const slices = { group, version: "v1", plural: "resourceslices" };
const claim = partly<KubeObject>({
  apiVersion: "resource.k8s.io/v1",
  kind: "ResourceClaim",
  metadata: { name: "c", namespace: "a" },
  spec: {
    devices: {
      requests: [{ name: "gpu", exactly: { deviceClassName: "gpu", allocationMode: "ExactCount", count: 2 } }],
    },
  },
});
const ref = { ...claims, namespace: "a", name: "c" };

async function server(versions: string[]): Promise<{ api: TestApi; kube: KubeApi; served: string[] }> {
  const api = await TestApi.start();
  await api.create("/namespaces", namespaceNamed("a"));
  const user = { username: "u", groups: ["system:masters"] };
  return {
    api,
    kube: servedDevices(onlyVersions(inProcessKube(api.core, { user, fieldManager: "u" }), versions)),
    served: versions,
  };
}

const requestsOf = (object: KubeObject) => (object["spec"] as { devices: { requests: object[] } }).devices.requests;

describe.each(["v1", "v1beta2", "v1beta1"])("a server that serves devices only as %s", (version) => {
  test("accepts, returns, updates and deletes claims as v1", async () => {
    const { kube, api } = await server([version]);
    const created = await kube.create(claims, claim);
    expect(created).toMatchObject({ ok: true, value: { apiVersion: "resource.k8s.io/v1" } });
    expect(requestsOf(api.get("resource.k8s.io/resourceclaims", "a/c") as unknown as KubeObject)).toEqual(
      requestsOf(claim),
    );
    const found = await kube.get(ref);
    if (!found.ok) throw new Error(found.message);
    expect(found.value.apiVersion).toBe("resource.k8s.io/v1");
    expect(requestsOf(found.value)).toEqual(requestsOf(claim));
    const listed = await kube.list(claims);
    expect(listed).toMatchObject({ ok: true, value: { items: [found.value] } });
    const changed = { ...found.value, metadata: { ...found.value.metadata, labels: { changed: "yes" } } };
    expect(await kube.update(ref, changed)).toMatchObject({
      ok: true,
      value: { metadata: { labels: { changed: "yes" } } },
    });
    const patch = { type: "merge", body: { metadata: { labels: { patched: "yes" } } } } as const;
    const patched = await kube.patch(ref, patch);
    expect(patched).toMatchObject({ ok: true, value: { metadata: { labels: { changed: "yes", patched: "yes" } } } });
    if (patched.ok) expect(requestsOf(patched.value)).toEqual(requestsOf(claim));
    const applied = {
      apiVersion: "resource.k8s.io/v1",
      kind: "ResourceClaim",
      metadata: { name: "c", namespace: "a", annotations: { applied: "yes" } },
    };
    expect(await kube.patch(ref, { type: "apply", body: applied, force: true })).toMatchObject({ ok: true });
    expect(await kube.delete(ref)).toMatchObject({ ok: true });
    expect(await kube.get(ref)).toMatchObject({ ok: false, reason: "NotFound" });
  });

  test("is listed and watched as v1", async () => {
    const { kube, api } = await server([version]);
    await kube.create(claims, claim);
    const ports = { kube, clock: api.clock, random: seededRandom(1), log: new KeptLog(), metrics: new MemoryMetrics() };
    const controllers = new Controllers(ports, { fieldManager: "u" });
    const followed = controllers.cache(claims);
    const devices = controllers.cache(slices);
    const started = controllers.start();
    for (let at = 0; at < 20; at++) {
      await settle();
      await api.clock.advance(100);
    }
    expect(await started).toBe(true);
    await kube.create(claims, { ...claim, metadata: { name: "d", namespace: "a" } } as KubeObject);
    const slice = {
      nodeName: "n1",
      driver: "gpu.example.com",
      pool: { name: "n1", generation: 1, resourceSliceCount: 1 },
      devices: [{ name: "gpu-0", attributes: { model: { string: "h100" } } }],
    };
    await kube.create(
      slices,
      partly<KubeObject>({
        apiVersion: "resource.k8s.io/v1",
        kind: "ResourceSlice",
        metadata: { name: "s" },
        spec: slice,
      }),
    );
    await settle();
    for (const name of ["a/c", "a/d"]) expect(requestsOf(followed.get(name) as KubeObject)).toEqual(requestsOf(claim));
    expect(devices.get("s")?.["spec"]).toMatchObject(slice);
    await controllers.stop();
  });
});

test("a server that does not serve devices has none, and other kinds work", async () => {
  const { kube, api } = await server([]);
  expect(await kube.list(claims)).toMatchObject({ ok: true, value: { items: [] } });
  expect(await kube.get(ref)).toMatchObject({ ok: false, reason: "NotFound" });
  expect(await kube.create(claims, claim)).toMatchObject({ ok: false, reason: "NotFound" });
  const ports = { kube, clock: api.clock, random: seededRandom(1), log: new KeptLog(), metrics: new MemoryMetrics() };
  const controllers = new Controllers(ports, { fieldManager: "u" });
  const followed = controllers.cache(claims);
  const namespaces = controllers.cache({ group: "", version: "v1", plural: "namespaces" });
  const started = controllers.start();
  for (let at = 0; at < 20; at++) {
    await settle();
    await api.clock.advance(100);
  }
  expect(await started).toBe(true);
  expect([...followed.table.view().objects.keys()]).toEqual([]);
  expect(namespaces.get("a")).toBeDefined();
  await controllers.stop();
});

test("a server that is upgraded is called in its new version", async () => {
  const { kube, served } = await server(["v1beta1"]);
  await kube.create(claims, claim);
  expect(await kube.list(claims)).toMatchObject({ ok: true, value: { items: [{ metadata: { name: "c" } }] } });
  served.splice(0, 1, "v1");
  const listed = await kube.list(claims);
  expect(listed).toMatchObject({ ok: true, value: { items: [{ apiVersion: "resource.k8s.io/v1" }] } });
  expect(await kube.get(ref)).toMatchObject({ ok: true });
});
