/** A tenant does not enter the GPU group of another one, nor leave its own uncounted. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { BoundedUp, type Reply } from "./boundedUp.ts";

const up = new BoundedUp();
beforeAll(() => up.start());
afterAll(() => up.end());

const pods = "/api/v1/namespaces/default/pods";
const share = (name: string, fraction: string, metadata: object = {}, spec: object = {}) => ({
  metadata: { name, annotations: { "gpu-fraction": fraction }, ...metadata },
  spec: { schedulerName: "kai-scheduler", containers: [{ name: "c", image: "i" }], ...spec },
});
const podOf = async (name: string) => (await up.call("GET", `${pods}/${name}`)).body;

function expectRefusal({ code, body }: Reply, field: string): void {
  expect({ code, message: body.message }).toEqual({ code: 422, message: expect.stringContaining(field) });
}

let group = "";
let node = "";

test("a share gets its group from the binder", async () => {
  const labels = { "kai.scheduler/queue": "default-queue" };
  expect(
    (await up.call("POST", pods, share("victim", "0.5", { labels, annotations: { "gpu-fraction": "0.5" } }))).code,
  ).toBe(201);
  await up.until(async () => (await podOf("victim")).status?.phase === "Running");
  const { metadata, spec } = await podOf("victim");
  group = metadata.labels["runai-gpu-group"];
  node = spec.nodeName;
  expect(group).toMatch(/./);
});

test("a pod with the group's label and its node is refused, whatever its scheduler", async () => {
  const labels = { "runai-gpu-group": group };
  const annotations = { "gpu-fraction": "0.9" };
  for (const schedulerName of ["kai-scheduler", "default-scheduler"]) {
    const pod = share("prebound", "0.9", { labels, annotations }, { nodeName: node, schedulerName });
    expectRefusal(await up.call("POST", pods, pod), "metadata.labels[runai-gpu-group]");
    const unlabelled = share("prebound", "0.9", {}, { nodeName: node, schedulerName });
    expectRefusal(await up.call("POST", pods, unlabelled), "spec.nodeName");
  }
});

test("a pod on its node does not change its group or its share, and can be deleted", async () => {
  const patch = (metadata: object) => up.call("PATCH", `${pods}/victim`, { metadata });
  expectRefusal(await patch({ labels: { "runai-gpu-group": null } }), "metadata.labels[runai-gpu-group]");
  expectRefusal(await patch({ annotations: { "gpu-fraction": "0.01" } }), "metadata.annotations[gpu-fraction]");
  expect((await patch({ labels: { mine: "yes" } })).code).toBe(200);
});

test("a share of next to nothing is refused", async () => {
  for (const fraction of ["0.0000000001", "1e-10", "0.009"]) {
    expectRefusal(await up.call("POST", pods, share("tiny", fraction)), "gpu-fraction");
  }
});
