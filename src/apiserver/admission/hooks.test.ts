import { expect, test } from "vitest";
import { TestApi } from "../../../testing/apiserver/testApi.ts";
import type { AdmissionHook } from "../../model/objects/admissionHook.ts";
import type { FieldError } from "../../model/objects/fieldError.ts";
import type { KubeObject, Unstored } from "../../model/objects/object.ts";
import { builtin } from "../../model/resources.generated.ts";
import { inProcessKube } from "../inProcessKube.ts";
import { createAdmission } from "./createAdmission.ts";

const pods = builtin.Pod;
const podAt = (name: string): Unstored => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "default" },
  spec: { containers: [{ name: "c", image: "i" }] },
});

const labels: AdmissionHook = {
  name: "labels.muster.dev",
  type: "mutating",
  resource: pods,
  operations: ["CREATE"],
  review: ({ object }) => ({
    allowed: true,
    object: { ...object, metadata: { ...object?.metadata, labels: { queue: "research" } } } as KubeObject,
  }),
};

const onlyOne: AdmissionHook = {
  name: "only-one.muster.dev",
  type: "validating",
  resource: pods,
  operations: ["CREATE", "DELETE"],
  review: ({ operation, object }, lookup) => {
    if (operation === "DELETE") return { allowed: false, message: "pods stay" };
    if (object?.metadata.labels?.["queue"] !== "research") return { allowed: false, message: "no queue" };
    if (lookup.list(pods, "default").length === 0) return { allowed: true };
    const errors = [
      { type: "Forbidden", field: "metadata.name", body: "Forbidden: there is a pod already" },
    ] satisfies FieldError[];
    return { allowed: false, message: "one is enough", errors };
  },
};

test("mutating hooks see no UID, no time and no generated name, as in Kubernetes; validating ones do", async () => {
  const seen: [string, string, KubeObject["metadata"]][] = [];
  const spy = (type: AdmissionHook["type"]): AdmissionHook => ({
    name: `${type}.muster.dev`,
    type,
    resource: pods,
    operations: ["CREATE"],
    review: ({ uid, object }) => {
      seen.push([type, uid, (object as KubeObject).metadata]);
      return { allowed: true };
    },
  });
  const api = await TestApi.start({ admission: createAdmission({ hooks: [spy("mutating"), spy("validating")] }) });
  const kube = inProcessKube(api.core, { user: { username: "u", groups: [] }, fieldManager: "t" });
  const { metadata, ...rest } = podAt("a");
  const { name: _, ...unnamed } = metadata;
  await kube.create(pods, { ...rest, metadata: { ...unnamed, generateName: "job-" } });
  await kube.create(pods, { ...rest, metadata: { ...unnamed, generateName: "job-" } });
  const [first, judged, second] = seen;
  expect(first?.[2]).toMatchObject({ generateName: "job-" });
  for (const key of ["name", "uid", "creationTimestamp"]) expect(first?.[2]).not.toHaveProperty(key);
  expect(judged?.[2]).toMatchObject({ name: expect.stringMatching(/^job-/), uid: expect.any(String) });
  expect(first?.[1]).not.toBe("");
  expect(first?.[1]).not.toBe(second?.[1]);
});

test("hooks change a write, then judge it as changed, with field errors as causes and refusals by name", async () => {
  const api = await TestApi.start({ admission: createAdmission({ hooks: [labels, onlyOne] }) });
  const kube = inProcessKube(api.core, { user: { username: "u", groups: [] }, fieldManager: "t" });
  const first = await kube.create(pods, podAt("a"));
  expect(first).toMatchObject({ ok: true, value: { metadata: { labels: { queue: "research" } } } });
  const second = await kube.create(pods, podAt("b"));
  expect(second).toMatchObject({ ok: false, reason: "Invalid" });
  const gone = await kube.delete({ ...pods, namespace: "default", name: "a" });
  expect(gone).toMatchObject({
    ok: false,
    reason: "Forbidden",
    message: 'admission webhook "only-one.muster.dev" denied the request: pods stay',
  });
});
