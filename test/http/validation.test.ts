import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apps, batch, namespaced, podTemplate, type ServedApi, serveApi } from "./servedApi.ts";

/** Manifests that a kube-apiserver rejects are rejected here, and those that it accepts are accepted. */
let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
});
afterAll(() => served.stop());

const autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const labels = { a: "b" };
const set = (more: object, name = "x"): object => ({
  metadata: { name },
  spec: { serviceName: "s", selector: { matchLabels: labels }, template: podTemplate(labels), ...more },
});
const claim = (spec: object): object => set({ volumeClaimTemplates: [{ metadata: { name: "c" }, spec }] });
const service = (spec: object, name = "x"): object => ({
  metadata: { name },
  spec: { ports: [{ port: 80 }], ...spec },
});
const storage = { resources: { requests: { storage: "1Gi" } } };

async function create(collection: string, body: object) {
  const { code, json } = await served.api.post(`${collection}?dryRun=All`, body);
  return { code, message: json.message, spec: json["spec"] as Record<string, unknown> | undefined };
}

describe("refused", () => {
  test.each<[string, string, object, string]>([
    [
      "a claim template without access modes",
      `${apps}/statefulsets`,
      claim(storage),
      "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
    ],
    [
      "a claim template without a size",
      `${apps}/statefulsets`,
      claim({ accessModes: ["ReadWriteOnce"] }),
      "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
    ],
    ["a StatefulSet with a dot in its name", `${apps}/statefulsets`, set({}, "a.b"), "metadata.name: Invalid value"],
    [
      "a target of an autoscaler without a group",
      autoscalers,
      { metadata: { name: "x" }, spec: { maxReplicas: 1, scaleTargetRef: { kind: "Deployment", name: "d" } } },
      'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group',
    ],
    [
      "a backend of an Ingress without a name",
      ingresses,
      { metadata: { name: "x" }, spec: { defaultBackend: { resource: { kind: "Bucket" } } } },
      "spec.defaultBackend.resource.name: Required value",
    ],
    [
      "two families of addresses",
      `${namespaced}/services`,
      service({ ipFamilyPolicy: "RequireDualStack" }),
      "this cluster is not configured for dual-stack services",
    ],
    [
      "a family of addresses that there is not",
      `${namespaced}/services`,
      service({ ipFamilies: ["IPv6"] }),
      'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
    ],
    [
      "an empty traffic policy",
      `${namespaced}/services`,
      service({ internalTrafficPolicy: "" }),
      'spec.internalTrafficPolicy: Unsupported value: ""',
    ],
    [
      "an empty completion mode",
      `${batch}/jobs`,
      { metadata: { name: "x" }, spec: { completionMode: "", template: podTemplate({}) } },
      'spec.completionMode: Unsupported value: ""',
    ],
    [
      "an operator of a selector that there is not",
      `${apps}/deployments`,
      set({ selector: { matchExpressions: [{ key: "a", operator: "Near" }] } }),
      "spec.selector.matchExpressions[0].operator: Invalid value",
    ],
  ])("%s", async (_, collection, body, why) => {
    const { code, message } = await create(collection, body);
    expect(code).toBe(422);
    expect(message).toContain(why);
  });

  test("an invalid toleration of a RuntimeClass, also in an update", async () => {
    const classes = "/apis/node.k8s.io/v1/runtimeclasses";
    await served.api.post(classes, { metadata: { name: "r" }, handler: "h" });
    const scheduling = { tolerations: [{ key: "a", effect: "Nope" }] };
    expect((await served.api.patch(`${classes}/r`, "merge", { scheduling })).code).toBe(422);
  });
});

describe("taken", () => {
  test.each<[string, string, object]>([
    ["a Service whose name begins with a digit", `${namespaced}/services`, service({}, "1a")],
    [
      "a pull secret without a name",
      `${namespaced}/podtemplates`,
      {
        metadata: { name: "x" },
        template: { spec: { containers: [{ name: "a", image: "b" }], imagePullSecrets: [{}] } },
      },
    ],
    ["a finalizer of a Lease without a domain", leases, { metadata: { name: "x", finalizers: ["a"] } }],
    ["a revision in a dry run", `${namespaced}/configmaps`, { metadata: { name: "x", resourceVersion: "1" } }],
  ])("%s", async (_, collection, body) => {
    const { code, message } = await create(collection, body);
    expect([code, message]).toEqual([201, undefined]);
  });

  test("an unsupported dataSource of a claim, which is dropped", async () => {
    const spec = { accessModes: ["ReadWriteOnce"], ...storage, dataSource: {} };
    const { code, spec: made } = await create(`${namespaced}/persistentvolumeclaims`, {
      metadata: { name: "x" },
      spec,
    });
    expect(code).toBe(201);
    expect(made).not.toHaveProperty("dataSource");
  });

  test("a headless Service without a selector, for either family", async () => {
    const { spec } = await create(`${namespaced}/services`, service({ clusterIP: "None" }));
    expect([spec?.["ipFamilies"], spec?.["ipFamilyPolicy"]]).toEqual([["IPv4", "IPv6"], "RequireDualStack"]);
  });
});

describe("what the server fills in", () => {
  test("a CronJob keeps its template as it was sent, but for the pod's own defaults", async () => {
    const template = {
      spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "a", image: "b" }] } } },
    };
    const body = { metadata: { name: "x" }, spec: { schedule: "* * * * *", jobTemplate: template } };
    const { spec } = await create(`${batch}/cronjobs`, body);
    const job = (spec?.["jobTemplate"] as { spec: Record<string, unknown> } | undefined)?.spec;
    expect(Object.keys(job ?? {})).toEqual(["template"]);
    expect(job?.["template"]).toMatchObject({ spec: { dnsPolicy: "ClusterFirst" } });
  });

  test("a DaemonSet counts the changes of its template", async () => {
    const body = {
      metadata: { name: "d" },
      spec: { selector: { matchLabels: labels }, template: podTemplate(labels) },
    };
    const made = await served.api.post(`${apps}/daemonsets`, body);
    const key = "deprecated.daemonset.template.generation";
    expect(made.json.metadata["annotations"]).toEqual({ [key]: "1" });
    const spec = { template: { spec: { terminationGracePeriodSeconds: 5 } } };
    const changed = await served.api.patch(`${apps}/daemonsets/d`, "merge", { spec });
    expect(changed.json.metadata["annotations"]).toEqual({ [key]: "2" });
  });

  test("a PersistentVolume has the time since when it is pending", async () => {
    const spec = { capacity: { storage: "1Gi" }, accessModes: ["ReadWriteOnce"], hostPath: { path: "/x" } };
    const made = await served.api.post("/api/v1/persistentvolumes", { metadata: { name: "v" }, spec });
    expect(made.json["status"]).toHaveProperty("lastPhaseTransitionTime");
  });
});
