import { Buffer } from "node:buffer";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../../testing/apiserver/seededRandom.ts";
import { configMapNamed, namespaceNamed, podNamed, refusal, TestApi } from "../../../testing/apiserver/testApi.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { memoryKeyFiles, openPki } from "../auth/pki.ts";
import type { Resource } from "../resource.ts";
import { sideRecord } from "../verbs/core.ts";
import { createAdmission } from "./createAdmission.ts";

const maps = "/configmaps";
const mutatingKey = "admissionregistration.k8s.io/mutatingwebhookconfigurations";
const validatingKey = "admissionregistration.k8s.io/validatingwebhookconfigurations";

interface Review {
  request: {
    uid: string;
    operation: string;
    name: string;
    dryRun: boolean;
    object: KubeObject | null;
    oldObject: KubeObject | null;
    userInfo: { username: string };
    kind: { group: string; version: string; kind: string };
    requestKind: { version: string };
    options: { kind: string };
  };
}

/** What the test's webhook does with a question; a string is sent as it is, undefined leaves the caller waiting. */
type Reply = (review: Review, path: string) => object | string | "hang up" | undefined;

let server: Server;
let base: string;
let authority: string;
let leaf: string;
let reply: Reply = () => ({ allowed: true });
let asked: { path: string; review: Review }[] = [];
let onAsked = (): void => {};

beforeAll(async () => {
  const pki = await openPki({
    files: memoryKeyFiles(),
    random: seededRandom(7),
    nowMs: Date.now(),
    hosts: ["hook.default.svc"],
  });
  authority = Buffer.from(pki.authority).toString("base64");
  leaf = Buffer.from(pki.server.certificate).toString("base64");
  server = createServer({ cert: pki.server.certificate, key: pki.server.key }, (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const review = JSON.parse(Buffer.concat(parts).toString("utf8")) as Review;
      const path = request.url ?? "";
      asked.push({ path, review });
      const answer = reply(review, path);
      onAsked();
      if (answer === undefined) return;
      if (answer === "hang up") {
        request.socket.destroy();
        return;
      }
      const { uid } = review.request;
      const body =
        typeof answer === "string"
          ? answer
          : JSON.stringify({
              apiVersion: "admission.k8s.io/v1",
              kind: "AdmissionReview",
              response: { uid, ...answer },
            });
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

async function start(): Promise<TestApi> {
  asked = [];
  reply = () => ({ allowed: true });
  onAsked = () => {};
  const services = { "default/hook:443": base };
  return TestApi.start({ admission: createAdmission({ services }), controllers: "none" });
}

const rule = { operations: ["*"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"] };

function hook(name: string, more: object = {}): object {
  return {
    name: `${name}.example.com`,
    admissionReviewVersions: ["v1"],
    sideEffects: "None",
    clientConfig: { url: `${base}/${name}`, caBundle: authority },
    rules: [rule],
    ...more,
  };
}

function configuration(kind: "Mutating" | "Validating", name: string, webhooks: object[]): object {
  const apiVersion = "admissionregistration.k8s.io/v1";
  return { apiVersion, kind: `${kind}WebhookConfiguration`, metadata: { name }, webhooks };
}

async function validateBy(api: TestApi, ...webhooks: object[]): Promise<void> {
  await api.create(validatingKey, configuration("Validating", "validating", webhooks));
}

async function mutateBy(api: TestApi, ...webhooks: object[]): Promise<void> {
  await api.create(mutatingKey, configuration("Mutating", "mutating", webhooks));
}

function patching(...operations: object[]): object {
  const patch = Buffer.from(JSON.stringify(operations)).toString("base64");
  return { allowed: true, patchType: "JSONPatch", patch };
}

function setLabel(key: string, value: string): object {
  return { op: "add", path: `/metadata/labels/${key}`, value };
}

const labelled = (path: string, labels = { team: "a" }): object => configMapNamed(path, { labels });

describe("a validating webhook", () => {
  test("is called once, with the object and the user", async () => {
    const api = await start();
    await validateBy(api, hook("check"));
    await api.create(maps, configMapNamed("default/m"));
    expect(asked).toHaveLength(1);
    expect(asked[0]?.path).toBe("/check?timeout=10s");
    expect(asked[0]?.review.request).toMatchObject({
      operation: "CREATE",
      kind: { group: "", version: "v1", kind: "ConfigMap" },
      name: "m",
      namespace: "default",
      dryRun: false,
      oldObject: null,
      userInfo: { username: "tester" },
      options: { kind: "CreateOptions" },
    });
    expect(asked[0]?.review.request.object?.metadata.name).toBe("m");
  });

  test("sees both states of an update and the last state of a deletion", async () => {
    const api = await start();
    await api.create(maps, configMapNamed("default/m"));
    await validateBy(api, hook("check"));
    await api.edit(maps, "default/m", (map) => {
      map["data"] = { key: "new" };
    });
    await api.delete(maps, "default/m");
    const [update, deletion] = asked.map(({ review }) => review.request);
    expect(update?.object?.["data"]).toEqual({ key: "new" });
    expect(update?.oldObject?.["data"]).toBeUndefined();
    expect(deletion).toMatchObject({ operation: "DELETE", object: null });
    expect(deletion?.oldObject?.["data"]).toEqual({ key: "new" });
  });

  const denials: [string, object, object][] = [
    [
      "with its own words and code",
      { allowed: false, status: { code: 403, message: "no maps on Sundays", reason: "Forbidden" } },
      {
        code: 403,
        reason: "Forbidden",
        message: 'admission webhook "check.example.com" denied the request: no maps on Sundays',
      },
    ],
    [
      "with 400 when its code is no refusal",
      { allowed: false, status: { code: 200, message: "no" } },
      { code: 400, message: 'admission webhook "check.example.com" denied the request: no' },
    ],
    [
      "with its reason when it has no words",
      { allowed: false, status: { reason: "TooBusy" } },
      { code: 400, message: 'admission webhook "check.example.com" denied the request: TooBusy' },
    ],
    [
      "without explanation",
      { allowed: false },
      { code: 400, message: 'admission webhook "check.example.com" denied the request without explanation' },
    ],
  ];
  test.each(denials)("denies %s", async (_, answer, expected) => {
    const api = await start();
    await validateBy(api, hook("check"));
    reply = () => answer;
    expect(await refusal(api.create(maps, configMapNamed("default/m")))).toMatchObject(expected);
    expect(api.get(maps, "default/m")).toBeUndefined();
  });

  test("hands warnings to the caller, cut to a bearable length", async () => {
    const api = await start();
    await validateBy(api, hook("check"));
    reply = () => ({ allowed: true, warnings: ["mind the gap", "x".repeat(1000)] });
    await api.create(maps, configMapNamed("default/m"));
    expect(api.warnings).toEqual(["mind the gap", "x".repeat(256)]);
  });

  test("is called at the same time as the others", async () => {
    const api = await start();
    await validateBy(api, hook("one"), hook("two"));
    let arrived = 0;
    const both = new Promise<void>((resolve) => {
      onAsked = () => {
        arrived++;
        if (arrived === 2) resolve();
      };
    });
    reply = () => undefined;
    const write = refusal(api.create(maps, configMapNamed("default/m")));
    await both;
    await api.clock.advance(10_000);
    expect((await write).message).toContain("context deadline exceeded");
  });

  test("that names a service is called at the configured address", async () => {
    const api = await start();
    const service = { namespace: "default", name: "hook", path: "/served" };
    await validateBy(api, hook("check", { clientConfig: { service, caBundle: authority } }));
    await api.create(maps, configMapNamed("default/m"));
    expect(asked[0]?.path).toBe("/served?timeout=10s");
  });

  test("that names an unknown service fails with a clear message", async () => {
    const api = await start();
    const service = { namespace: "default", name: "other" };
    await validateBy(api, hook("check", { clientConfig: { service, caBundle: authority } }));
    const answer = await refusal(api.create(maps, configMapNamed("default/m")));
    expect(answer.message).toContain(
      'failed to call webhook: Post "https://other.default.svc:443/?timeout=10s": service "other" not found',
    );
  });

  test("is called at an endpoint of its Service, by the name in its certificate", async () => {
    const api = await start();
    await api.create("/services", {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "hook", namespace: "default" },
      spec: { ports: [{ name: "web", port: 8443 }] },
    });
    // Stored without validation, which rejects loopback addresses of endpoints.
    const slices = api.core.registry.stored("discovery.k8s.io/endpointslices") as Resource;
    const sent = {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name: "hook-1", namespace: "default", labels: { "kubernetes.io/service-name": "hook" }, uid: "u" },
      addressType: "IPv4",
      endpoints: [{ addresses: ["127.0.0.1"], conditions: { ready: true } }],
      ports: [{ name: "web", port: Number(new URL(base).port) }],
    };
    const slice = JSON.parse(JSON.stringify(sent)) as KubeObject;
    api.core.store.put("discovery.k8s.io/endpointslices", slice, sideRecord(slices, slice));
    const service = { namespace: "default", name: "hook", path: "/check", port: 8443 };
    await validateBy(api, hook("check", { clientConfig: { service, caBundle: authority } }));
    await api.create(maps, configMapNamed("default/m"));
    expect(asked.map(({ path }) => path)).toEqual(["/check?timeout=10s"]);
  });

  test("is trusted by a caBundle with its own certificate alone", async () => {
    const api = await start();
    await validateBy(api, hook("check", { clientConfig: { url: `${base}/check`, caBundle: leaf } }));
    await api.create(maps, configMapNamed("default/m"));
    expect(asked).toHaveLength(1);
  });

  test("cannot stop its own configuration from being repaired", async () => {
    const api = await start();
    const everything = { ...rule, apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"] };
    await validateBy(api, hook("check", { rules: [everything] }));
    reply = () => ({ allowed: false });
    await api.delete(validatingKey, "validating");
    await api.create(maps, configMapNamed("default/m"));
    expect(asked).toEqual([]);
  });
});

describe("a webhook is called only for requests that match:", () => {
  const cases: [string, object, number][] = [
    ["another resource", { rules: [{ ...rule, resources: ["secrets"] }] }, 0],
    ["another operation", { rules: [{ ...rule, operations: ["DELETE"] }] }, 0],
    ["another version", { rules: [{ ...rule, apiVersions: ["v2"] }] }, 0],
    ["the object and all its subresources", { rules: [{ ...rule, resources: ["configmaps/*"] }] }, 1],
    ["cluster-scoped objects only", { rules: [{ ...rule, scope: "Cluster" }] }, 0],
    ["namespaced objects", { rules: [{ ...rule, scope: "Namespaced" }] }, 1],
    ["labels that the object has", { objectSelector: { matchLabels: { team: "a" } } }, 1],
    ["labels that it has not", { objectSelector: { matchLabels: { team: "b" } } }, 0],
    [
      "labels that the namespace has",
      { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "default" } } },
      1,
    ],
    ["labels that the namespace has not", { namespaceSelector: { matchLabels: { stage: "test" } } }, 0],
    ["a condition that holds", { matchConditions: [{ name: "c", expression: "object.metadata.name == 'm'" }] }, 1],
    ["a condition that does not", { matchConditions: [{ name: "c", expression: "request.operation == 'DELETE'" }] }, 0],
    [
      "one condition that does not hold beside one that cannot be evaluated",
      {
        matchConditions: [
          { name: "bad", expression: "object.spec.nothing > 1" },
          { name: "no", expression: "false" },
        ],
      },
      0,
    ],
  ];
  test.each(cases)("%s", async (_, more, times) => {
    const api = await start();
    await validateBy(api, hook("check", more));
    await api.create(maps, labelled("default/m"));
    expect(asked).toHaveLength(times);
  });

  test("a condition that cannot be evaluated rejects the write, or is ignored, by the failure policy", async () => {
    const matchConditions = [{ name: "bad", expression: "object.spec.nothing > 1" }];
    const api = await start();
    await validateBy(api, hook("check", { matchConditions }));
    expect(await refusal(api.create(maps, configMapNamed("default/m")))).toMatchObject({ code: 403 });
    await api.delete(validatingKey, "validating");
    await validateBy(api, hook("check", { matchConditions, failurePolicy: "Ignore" }));
    await api.create(maps, configMapNamed("default/m"));
    expect(asked).toEqual([]);
  });

  test("an update cannot slip out of an object selector by dropping the label", async () => {
    const api = await start();
    await api.create(maps, labelled("default/m"));
    await validateBy(api, hook("check", { objectSelector: { matchLabels: { team: "a" } } }));
    await api.edit(maps, "default/m", ({ metadata }) => {
      delete metadata.labels;
    });
    expect(asked).toHaveLength(1);
  });

  test("a namespace is judged by its own labels", async () => {
    const api = await start();
    const rules = [{ ...rule, resources: ["namespaces"] }];
    await validateBy(api, hook("check", { rules, namespaceSelector: { matchLabels: { stage: "test" } } }));
    await api.create("/namespaces", namespaceNamed("one"));
    await api.create("/namespaces", namespaceNamed("two", { labels: { stage: "test" } }));
    expect(asked.map(({ review }) => review.request.name)).toEqual(["two"]);
  });
});

describe("an equivalent version", () => {
  const event = {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: "e", namespace: "default" },
    involvedObject: { kind: "Pod", name: "p", namespace: "default" },
    reason: "Test",
    message: "hello",
  };
  const rules = [{ ...rule, apiGroups: ["events.k8s.io"], resources: ["events"] }];

  test("is sent to a webhook whose rules name it", async () => {
    const api = await start();
    await validateBy(api, hook("check", { rules }));
    await api.create("/events", event);
    expect(asked[0]?.review.request).toMatchObject({
      kind: { group: "events.k8s.io", version: "v1", kind: "Event" },
      requestKind: { group: "", version: "v1", kind: "Event" },
      object: { note: "hello" },
    });
  });

  test("does not match with matchPolicy Exact", async () => {
    const api = await start();
    await validateBy(api, hook("check", { rules, matchPolicy: "Exact" }));
    await api.create("/events", event);
    expect(asked).toEqual([]);
  });
});

describe("a mutating webhook", () => {
  test("changes the object that is written", async () => {
    const api = await start();
    await mutateBy(api, hook("change"));
    reply = () => patching(setLabel("by", "webhook"));
    const made = await api.create(maps, labelled("default/m"));
    expect(made.metadata.labels).toEqual({ team: "a", by: "webhook" });
  });

  test("works on what those before it made, by name of configuration and then by place", async () => {
    const api = await start();
    await api.create(mutatingKey, configuration("Mutating", "b", [hook("third")]));
    await api.create(mutatingKey, configuration("Mutating", "a", [hook("first"), hook("second")]));
    reply = (review, path) => {
      const order = review.request.object?.metadata.labels?.["order"] ?? "";
      return patching(setLabel("order", `${order}${path.slice(1, 2)}`));
    };
    const made = await api.create(maps, labelled("default/m"));
    expect(made.metadata.labels?.["order"]).toBe("fst");
  });

  const reinvocations: [string, string[]][] = [
    ["IfNeeded", ["first", "second", "first"]],
    ["Never", ["first", "second"]],
  ];
  test.each(reinvocations)("with reinvocation %s is called: %j", async (reinvocationPolicy, expected) => {
    const api = await start();
    await mutateBy(api, hook("first", { reinvocationPolicy }), hook("second", { reinvocationPolicy }));
    reply = (_, path) => (path.startsWith("/second") ? patching(setLabel("by", "second")) : { allowed: true });
    await api.create(maps, labelled("default/m"));
    expect(asked.map(({ path }) => path.slice(1).split("?")[0])).toEqual(expected);
  });

  test("is followed by the validating ones, which see its work", async () => {
    const api = await start();
    await mutateBy(api, hook("change"));
    await validateBy(api, hook("check"));
    reply = (_, path) => (path.startsWith("/change") ? patching(setLabel("by", "webhook")) : { allowed: true });
    await api.create(maps, labelled("default/m"));
    expect(asked.at(-1)?.review.request.object?.metadata.labels).toMatchObject({ by: "webhook" });
  });

  test("may refuse a deletion", async () => {
    const api = await start();
    await api.create(maps, configMapNamed("default/m"));
    await mutateBy(api, hook("change"));
    reply = () => ({ allowed: false, status: { code: 403, message: "keep it" } });
    expect(await refusal(api.delete(maps, "default/m"))).toMatchObject({ code: 403 });
  });

  test("that makes an object invalid is caught by validation", async () => {
    const api = await start();
    await mutateBy(api, hook("change", { rules: [{ ...rule, resources: ["pods"] }] }));
    reply = () => patching({ op: "replace", path: "/spec/containers/0/name", value: "NOT A NAME" });
    expect(await refusal(api.create("/pods", podNamed("default/p")))).toMatchObject({ code: 422 });
  });
});

describe("a webhook that misbehaves", () => {
  const rename = { op: "replace", path: "/metadata/uid", value: "mine" };
  const cases: [string, Reply, string][] = [
    ["answers garbage", () => "<html>", "the answer is not JSON"],
    [
      "answers another kind",
      () => '{"kind":"Pod","apiVersion":"v1"}',
      "expected webhook response of admission.k8s.io/v1",
    ],
    ["answers a list", () => "[1]", "is not an AdmissionReview"],
    ["answers another question", () => ({ allowed: true, uid: "other" }), "expected response.uid="],
    ["closes the connection", () => "hang up", "failed to call webhook"],
    ["patches without saying how", () => ({ allowed: true, patch: "W10=" }), "but not response.patchType"],
    [
      "patches in a way we do not know",
      () => ({ allowed: true, patch: "W10=", patchType: "Magic" }),
      "invalid response.patchType",
    ],
    [
      "sends a patch that is no JSON",
      () => ({ allowed: true, patch: "####", patchType: "JSONPatch" }),
      "not JSON in base64",
    ],
    [
      "sends a patch that does not apply",
      () => patching({ op: "remove", path: "/data/none" }),
      "failed calling webhook",
    ],
    ["gives the object another identity", () => patching(rename), "the patch changes metadata.uid, which is immutable"],
    ["removes the metadata", () => patching({ op: "remove", path: "/metadata" }), "the patch changes metadata.name"],
    ["answers with ten megabytes", () => `"${"x".repeat(10_000_000)}"`, "longer than 8388608 bytes"],
  ];

  test.each(cases)("and %s fails the write when it must succeed", async (_, behaviour, text) => {
    const api = await start();
    await mutateBy(api, hook("change", { failurePolicy: "Fail" }));
    reply = behaviour;
    const answer = await refusal(api.create(maps, configMapNamed("default/m")));
    expect(answer).toMatchObject({ code: 500, reason: "InternalError" });
    expect(answer.message).toContain('failed calling webhook "change.example.com"');
    expect(answer.message).toContain(text);
    reply = () => ({ allowed: true });
    await api.create(maps, configMapNamed("default/m"));
  });

  test.each(cases)("and %s is passed over when it may fail", async (_, behaviour) => {
    const api = await start();
    await mutateBy(api, hook("change", { failurePolicy: "Ignore" }));
    reply = behaviour;
    const made = await api.create(maps, configMapNamed("default/m"));
    expect(made.metadata.uid).not.toBe("mine");
  });

  test("and hangs is cancelled after its timeout", async () => {
    const api = await start();
    await validateBy(api, hook("check", { timeoutSeconds: 3 }));
    reply = () => undefined;
    const arrived = new Promise<void>((resolve) => {
      onAsked = resolve;
    });
    const write = refusal(api.create(maps, configMapNamed("default/m")));
    await arrived;
    expect(asked[0]?.path).toBe("/check?timeout=3s");
    await api.clock.advance(2_999);
    expect(api.get(maps, "default/m")).toBeUndefined();
    await api.clock.advance(1);
    expect((await write).message).toContain("context deadline exceeded");
  });

  test("and shows another server's certificate is not trusted", async () => {
    const api = await start();
    const other = await openPki({ files: memoryKeyFiles(), random: seededRandom(8), nowMs: Date.now() });
    const caBundle = Buffer.from(other.authority).toString("base64");
    await validateBy(api, hook("check", { clientConfig: { url: `${base}/check`, caBundle } }));
    expect(await refusal(api.create(maps, configMapNamed("default/m")))).toMatchObject({ code: 500 });
    expect(asked).toEqual([]);
  });
});

describe("a dry run", () => {
  test("is refused when a webhook has side effects", async () => {
    const api = await start();
    await validateBy(api, hook("check"));
    // Today's rules refuse such a webhook, but one from an older log may still be there.
    const { store, registry } = api.core;
    const old = JSON.parse(JSON.stringify(api.get(validatingKey, "validating"))) as KubeObject;
    (old["webhooks"] as { sideEffects: string }[])[0]!.sideEffects = "Some";
    store.put(validatingKey, old, sideRecord(registry.stored(validatingKey)!, old));
    const call = api.call({ dryRun: true });
    expect(await refusal(api.create(maps, configMapNamed("default/m"), call))).toMatchObject({
      code: 400,
      message: 'admission webhook "check.example.com" does not support dry run',
    });
    expect(asked).toEqual([]);
  });

  test("calls a webhook without side effects, with dryRun set", async () => {
    const api = await start();
    await validateBy(api, hook("check", { sideEffects: "NoneOnDryRun" }));
    await api.create(maps, configMapNamed("default/m"), api.call({ dryRun: true }));
    expect(asked[0]?.review.request.dryRun).toBe(true);
  });
});

test("an object that changes while a webhook thinks is changed again from its newer state", async () => {
  const api = await start();
  await api.create(maps, configMapNamed("default/m"));
  await mutateBy(api, hook("change", { failurePolicy: "Ignore", timeoutSeconds: 1 }));
  let questions = 0;
  const arrived = new Promise<void>((resolve) => {
    onAsked = resolve;
  });
  reply = () => {
    questions++;
    return questions === 1 ? undefined : { allowed: true };
  };
  const slow = api.edit(maps, "default/m", (map) => {
    map["data"] = { ...(map["data"] as object), slow: "1" };
  });
  await arrived;
  await api.edit(maps, "default/m", (map) => {
    map["data"] = { ...(map["data"] as object), fast: "1" };
  });
  // The first question is given up, and allowed to fail; by then the object is another one.
  await api.clock.advance(1_000);
  await slow;
  expect(api.get(maps, "default/m")?.["data"]).toEqual({ fast: "1", slow: "1" });
  expect(questions).toBe(3);
});

test("with nothing configured no write leaves its turn of the event loop", async () => {
  const api = await start();
  const { admission, registry } = api.core;
  const type = registry.find("", "v1", "configmaps")!.type;
  const attributes = {
    operation: "CREATE" as const,
    type,
    subresource: "",
    namespace: "default",
    name: "m",
    object: configMapNamed("default/m") as KubeObject,
    oldObject: undefined,
    options: {},
    user: { username: "u", groups: [] },
    dryRun: false,
    warn: () => {},
  };
  expect(admission.mutate(attributes, () => attributes)).toBeUndefined();
  expect(admission.validate(attributes)).toBeUndefined();
  await validateBy(api, hook("check", { rules: [{ ...rule, resources: ["secrets"] }] }));
  expect(admission.validate(attributes)).toBeUndefined();
});
