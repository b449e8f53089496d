import { afterAll, beforeAll, expect, test } from "vitest";
import { namespaced, type ServedApi, serveApi } from "./servedApi.ts";

/** Times and lists that Go writes as null: clients compare written with read objects. */
let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
});
afterAll(() => served.stop());

const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const csiNodes = "/apis/storage.k8s.io/v1/csinodes";
const about = { involvedObject: { kind: "Pod", namespace: "default", name: "p" } };
const autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

test.each<[string, string, object, object]>([
  ["the rules of a Role", rbac, { rules: [] }, { rules: null }],
  ["the endpoints and ports of a slice", slices, { addressType: "IPv4" }, { endpoints: null, ports: null }],
  ["empty endpoints of a slice", slices, { addressType: "IPv4", endpoints: [] }, { endpoints: null }],
  ["the limits of a LimitRange", `${namespaced}/limitranges`, { spec: { limits: [] } }, { spec: { limits: null } }],
  ["the drivers of a CSINode", csiNodes, { spec: { drivers: [] } }, { spec: { drivers: null } }],
  [
    "the times of an event",
    `${namespaced}/events`,
    about,
    { eventTime: null, firstTimestamp: null, lastTimestamp: null },
  ],
  [
    "the metrics of an autoscaler",
    autoscalers,
    { spec: { maxReplicas: 1, scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "d" } } },
    { status: { currentMetrics: null } },
  ],
])("%s", async (_, collection, body, expected) => {
  const answer = await served.api.post(`${collection}?dryRun=All`, { metadata: { name: "n" }, ...body });
  expect([answer.code, answer.json.message]).toEqual([201, undefined]);
  expect(answer.json).toMatchObject(expected);
});

test("the times of a condition that has none", async () => {
  await served.api.post("/api/v1/namespaces", { metadata: { name: "timeless" } });
  const status = { conditions: [{ type: "Example", status: "True" }] };
  const answer = await served.api.patch("/api/v1/namespaces/timeless/status", "merge", { status });
  expect(answer.json["status"]).toMatchObject({ conditions: [{ lastTransitionTime: null }] });
});
