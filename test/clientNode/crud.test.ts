import {
  AdmissionregistrationV1Api,
  type ApiException,
  AppsV1Api,
  AutoscalingV2Api,
  BatchV1Api,
  CoordinationV1Api,
  CoreV1Api,
  DiscoveryV1Api,
  type KubeConfig,
  type KubernetesObject,
  NetworkingV1Api,
  NodeV1Api,
  PatchStrategy,
  PolicyV1Api,
  RbacAuthorizationV1Api,
  ResourceV1Api,
  SchedulingV1Api,
  StorageV1Api,
  setHeaderOptions,
} from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sampleOf } from "../validObjects.ts";
import { refusalOf, type ServerForClients, serverForClients } from "./serverForClients.ts";

let running: ServerForClients;

beforeAll(async () => {
  running = await serverForClients();
});
afterAll(() => running.server.stop());

type ApiClass = Parameters<KubeConfig["makeApiClient"]>[0];
type Method = (request: Record<string, unknown>, options?: unknown) => Promise<KubernetesObject & { items?: unknown }>;

const rows: { api: ApiClass; plural: string; kind: string }[] = [
  { api: CoreV1Api, plural: "configmaps", kind: "ConfigMap" },
  { api: CoreV1Api, plural: "secrets", kind: "Secret" },
  { api: CoreV1Api, plural: "services", kind: "Service" },
  { api: CoreV1Api, plural: "serviceaccounts", kind: "ServiceAccount" },
  { api: CoreV1Api, plural: "pods", kind: "Pod" },
  { api: CoreV1Api, plural: "nodes", kind: "Node" },
  { api: CoreV1Api, plural: "namespaces", kind: "Namespace" },
  { api: CoreV1Api, plural: "persistentvolumes", kind: "PersistentVolume" },
  { api: CoreV1Api, plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim" },
  { api: CoreV1Api, plural: "resourcequotas", kind: "ResourceQuota" },
  { api: CoreV1Api, plural: "limitranges", kind: "LimitRange" },
  { api: CoreV1Api, plural: "endpoints", kind: "Endpoints" },
  { api: AppsV1Api, plural: "deployments", kind: "Deployment" },
  { api: AppsV1Api, plural: "replicasets", kind: "ReplicaSet" },
  { api: AppsV1Api, plural: "statefulsets", kind: "StatefulSet" },
  { api: AppsV1Api, plural: "daemonsets", kind: "DaemonSet" },
  { api: BatchV1Api, plural: "jobs", kind: "Job" },
  { api: BatchV1Api, plural: "cronjobs", kind: "CronJob" },
  { api: PolicyV1Api, plural: "poddisruptionbudgets", kind: "PodDisruptionBudget" },
  { api: SchedulingV1Api, plural: "priorityclasses", kind: "PriorityClass" },
  { api: RbacAuthorizationV1Api, plural: "roles", kind: "Role" },
  { api: RbacAuthorizationV1Api, plural: "rolebindings", kind: "RoleBinding" },
  { api: RbacAuthorizationV1Api, plural: "clusterroles", kind: "ClusterRole" },
  { api: StorageV1Api, plural: "storageclasses", kind: "StorageClass" },
  { api: NetworkingV1Api, plural: "ingresses", kind: "Ingress" },
  { api: NetworkingV1Api, plural: "networkpolicies", kind: "NetworkPolicy" },
  { api: AutoscalingV2Api, plural: "horizontalpodautoscalers", kind: "HorizontalPodAutoscaler" },
  { api: DiscoveryV1Api, plural: "endpointslices", kind: "EndpointSlice" },
  { api: NodeV1Api, plural: "runtimeclasses", kind: "RuntimeClass" },
  { api: ResourceV1Api, plural: "deviceclasses", kind: "DeviceClass" },
  { api: ResourceV1Api, plural: "resourceclaims", kind: "ResourceClaim" },
  { api: ResourceV1Api, plural: "resourceslices", kind: "ResourceSlice" },
  {
    api: AdmissionregistrationV1Api,
    plural: "validatingwebhookconfigurations",
    kind: "ValidatingWebhookConfiguration",
  },
];

test.each(rows)(
  "$kind: created, read, listed, patched, replaced, refused when stale, and deleted by its typed client",
  async ({ api, plural, kind }) => {
    const { config, server, mistakes } = running;
    const { object, type } = sampleOf(plural);
    const scope = type.namespaced ? { namespace: "default" } : {};
    const client = config.makeApiClient(api) as unknown as Record<string, Method>;
    const call = (verb: string, request: Record<string, unknown>, options?: unknown) => {
      const method = client[`${verb}${type.namespaced ? "Namespaced" : ""}${kind}`] as Method;
      return method.call(client, { ...scope, ...request }, options);
    };
    const name = `crud-${kind.toLowerCase()}`;

    const created = await call("create", { body: object(name) });
    expect(created).toMatchObject({ kind, metadata: { name, labels: { app: "a" } } });
    expect(created.metadata?.creationTimestamp).toBeInstanceOf(Date);
    expect(await refusalOf(call("create", { body: object(name) }))).toMatchObject({
      code: 409,
      reason: "AlreadyExists",
    });

    const read = await call("read", { name });
    expect(read.metadata?.uid).toBe(created.metadata?.uid);
    const listed = await call("list", { labelSelector: "app=a" });
    expect((listed.items as KubernetesObject[]).map((item) => item.metadata?.name)).toContain(name);

    const mergePatch = setHeaderOptions("Content-Type", PatchStrategy.MergePatch);
    const patched = await call("patch", { name, body: { metadata: { labels: { patched: "yes" } } } }, mergePatch);
    expect(patched.metadata?.labels).toMatchObject({ app: "a", patched: "yes" });
    const jsonPatch = [{ op: "add", path: "/metadata/annotations", value: { by: "json" } }];
    const jsonPatched = await call("patch", { name, body: jsonPatch });
    expect(jsonPatched.metadata?.annotations?.["by"]).toBe("json");

    await server.controllers.idle();
    const current = await call("read", { name });
    const next = { ...current, metadata: { ...current.metadata, annotations: { by: "replace" } } };
    const replaced = await call("replace", { name, body: next });
    expect(replaced.metadata?.annotations).toMatchObject({ by: "replace" });
    expect(Number(replaced.metadata?.resourceVersion)).toBeGreaterThan(Number(current.metadata?.resourceVersion));
    expect(await refusalOf(call("replace", { name, body: next }))).toMatchObject({ code: 409, reason: "Conflict" });

    await call("delete", { name, gracePeriodSeconds: 0 });
    await server.controllers.idle();
    expect(await refusalOf(call("read", { name }))).toMatchObject({ code: 404, reason: "NotFound" });
    expect(mistakes).toEqual([]);
  },
);

test("a lease is fought for as leader election does: the stale holder loses with a conflict", async () => {
  const leases = running.config.makeApiClient(CoordinationV1Api);
  const at = { namespace: "default", name: "leader" };
  const first = await leases.createNamespacedLease({
    namespace: "default",
    body: { metadata: { name: "leader" }, spec: { holderIdentity: "a", leaseDurationSeconds: 15 } },
  });
  const seenByB = await leases.readNamespacedLease(at);
  for (let renewal = 0; renewal < 3; renewal++) {
    const current = await leases.readNamespacedLease(at);
    await leases.replaceNamespacedLease({
      ...at,
      body: { ...current, spec: { ...current.spec, leaseTransitions: renewal } },
    });
  }
  const steal = { ...seenByB, spec: { ...seenByB.spec, holderIdentity: "b" } };
  expect(await refusalOf(leases.replaceNamespacedLease({ ...at, body: steal }))).toMatchObject({
    code: 409,
    reason: "Conflict",
    message: expect.stringContaining("the object has been modified") as string,
  });
  // Ten candidates with the same fresh view: one wins.
  const fresh = await leases.readNamespacedLease(at);
  const outcomes = await Promise.allSettled(
    Array.from({ length: 10 }, (_, candidate) =>
      leases.replaceNamespacedLease({
        ...at,
        body: { ...fresh, spec: { ...fresh.spec, holderIdentity: `c${candidate}` } },
      }),
    ),
  );
  expect(outcomes.filter(({ status }) => status === "fulfilled").length).toBe(1);
  const last = await leases.readNamespacedLease(at);
  expect(last.spec?.holderIdentity).toMatch(/^c[0-9]$/);
  expect(last.metadata?.uid).toBe(first.metadata?.uid);
});

test("pages of a list are those of its first moment, whatever is written meanwhile", async () => {
  const core = running.config.makeApiClient(CoreV1Api);
  const namespace = "paging";
  await core.createNamespace({ body: { metadata: { name: namespace } } });
  await running.server.controllers.idle();
  const add = (name: string) =>
    core.createNamespacedSecret({ namespace, body: { metadata: { name }, stringData: { a: name } } });
  for (let at = 0; at < 25; at++) await add(`s-${String(at).padStart(2, "0")}`);
  const names: string[] = [];
  let token: string | undefined;
  let revision: string | undefined;
  let late = 0;
  do {
    const page = await core.listNamespacedSecret({
      namespace,
      limit: 10,
      ...(token === undefined ? {} : { _continue: token }),
    });
    revision ??= page.metadata?.resourceVersion;
    expect(page.metadata?.resourceVersion).toBe(revision);
    if (names.length === 0) expect(page.metadata?.remainingItemCount).toBe(15);
    names.push(...page.items.map((item) => item.metadata?.name ?? ""));
    token = page.metadata?._continue;
    // What lies ahead of the reader goes, and something new comes.
    await core.deleteNamespacedSecret({ namespace, name: `s-${24 - late}` });
    await add(`s-${late++}-late`);
  } while (token !== undefined && token !== "");
  expect(names).toEqual(Array.from({ length: 25 }, (_, at) => `s-${String(at).padStart(2, "0")}`));
});

test("a page whose revision is compacted is refused with 410 and a continue token", async () => {
  const rbac = running.config.makeApiClient(RbacAuthorizationV1Api);
  const first = await rbac.listClusterRole({ limit: 5 });
  await rbac.createClusterRole({ body: { metadata: { name: "zz-late" }, rules: [] } });
  running.server.compactNow();
  try {
    await rbac.listClusterRole({ limit: 5, _continue: first.metadata?._continue ?? "" });
    throw new Error("the page was served");
  } catch (error) {
    const { code, body } = error as ApiException<string>;
    expect(code).toBe(410);
    const status = JSON.parse(body) as { reason: string; metadata: { continue: string } };
    expect(status.reason).toBe("Expired");
    const rest = await rbac.listClusterRole({ _continue: status.metadata.continue });
    expect(rest.items.map((item) => item.metadata?.name)).toContain("zz-late");
  }
});
