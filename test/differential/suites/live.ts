/** Events of watches while objects change, webhooks that do not answer, and what controllers write. */
import type { Loose } from "../apiUnderTest.ts";
import { accepts, type Both, namespace, type Probe, patchTypes } from "../probe.ts";

const inNamespace = `/api/v1/namespaces/${namespace}`;
const configMaps = `${inNamespace}/configmaps`;
const configMap = (name: string, labels: object, metadata: object = {}) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, labels, ...metadata },
  data: { a: "b" },
});

export async function live(probe: Probe): Promise<void> {
  await probe.namespace();
  const merge = { headers: patchTypes.merge };
  const change = async () => {
    const one = `${configMaps}/w1`;
    await probe.both("POST", configMaps, configMap("w1", { w: "y" }));
    for (const patch of [
      { data: { a: "c" } },
      { metadata: { labels: { w: "n" } } },
      { metadata: { labels: { w: "y" } } },
      {},
    ])
      await probe.both("PATCH", one, patch, merge);
    await probe.both("POST", configMaps, configMap("w2", { w: "y" }, { finalizers: ["a.b/c"] }));
    await probe.both("DELETE", `${configMaps}/w2`);
    await probe.both("PATCH", `${configMaps}/w2`, { metadata: { finalizers: null } }, merge);
    await probe.both("DELETE", one);
    await probe.both("POST", `${configMaps}?dryRun=All`, configMap("w3", { w: "y" }));
  };
  for (const [what, accept] of Object.entries({
    json: "application/json",
    table: accepts.table,
    partial: accepts.partial,
  })) {
    await watched(
      probe,
      `label ${what}`,
      `${configMaps}?watch=1&timeoutSeconds=2&labelSelector=w%3Dy&resourceVersion=0`,
      accept,
      change,
    );
  }
  const pods = `${inNamespace}/pods`;
  const podLife = async () => {
    await probe.both("POST", pods, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "wp" },
      spec: { nodeName: "ghost", containers: [{ name: "c", image: "x" }] },
    });
    for (const phase of ["Running", "Succeeded"])
      await probe.both("PATCH", `${pods}/wp/status`, { status: { phase } }, merge);
    await probe.both("DELETE", `${pods}/wp?gracePeriodSeconds=0`);
  };
  for (const selector of ["status.phase%3DRunning,metadata.name%3Dwp", "spec.nodeName%3Dghost"]) {
    await watched(
      probe,
      `pods ${selector}`,
      `${pods}?watch=1&timeoutSeconds=2&fieldSelector=${selector}`,
      accepts.partial,
      podLife,
    );
  }
  await webhooks(probe);
  const secret = {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "tok", annotations: { "kubernetes.io/service-account.name": "default" } },
    type: "kubernetes.io/service-account-token",
  };
  await probe.both("POST", `${inNamespace}/secrets`, secret);
  const filled = await probe.until("GET", `${inNamespace}/secrets/tok`, ({ json }) => json?.data?.token !== undefined);
  probe.record("token of a Secret", "GET secret", undefined, filled, {
    keep: ({ data, metadata }) => ({ data: Object.keys(data ?? {}).sort(), annotations: metadata.annotations }),
  });
  await reconciled(probe);
}

/** Opens the same watch on both, makes the changes, and compares what arrived. */
async function watched(
  probe: Probe,
  name: string,
  path: string,
  accept: string,
  change: () => Promise<void>,
): Promise<void> {
  const open = probe.both("GET", path, undefined, { headers: { Accept: accept } });
  await new Promise((resolve) => setTimeout(resolve, 400));
  await change();
  const events = (body: Loose) => [body].flat().filter((event) => event?.type !== "BOOKMARK");
  probe.record(`watch ${name}`, `GET ${path}`, undefined, await open, { keep: events });
}

async function webhooks(probe: Probe): Promise<void> {
  for (const kind of ["Validating", "Mutating"]) {
    for (const failurePolicy of ["Fail", "Ignore"]) {
      const path = `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}webhookconfigurations`;
      const rules = [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["configmaps"] }];
      const hook = {
        name: "live.example.com",
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
        failurePolicy,
        timeoutSeconds: 2,
        clientConfig: { url: "https://127.0.0.1:1/x" },
        objectSelector: { matchLabels: { hook: "y" } },
        rules,
      };
      await probe.both("POST", path, {
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: `${kind}WebhookConfiguration`,
        metadata: { name: "live" },
        webhooks: [hook],
      });
      await new Promise((resolve) => setTimeout(resolve, 1200));
      await probe.compare(
        `webhook ${kind} ${failurePolicy}`,
        "POST",
        `${configMaps}?dryRun=All`,
        configMap("hk", { hook: "y" }),
      );
      await probe.compare(
        `webhook ${kind} ${failurePolicy} unmatched`,
        "POST",
        `${configMaps}?dryRun=All`,
        configMap("hk", { hook: "n" }),
      );
      await probe.both("DELETE", `${path}/live`);
    }
  }
}

/** What controllers make of objects, where it can be waited for. */
async function reconciled(probe: Probe): Promise<void> {
  const template = {
    metadata: { labels: { app: "live" } },
    spec: {
      automountServiceAccountToken: false,
      nodeSelector: { none: "such" },
      containers: [{ name: "c", image: "busybox" }],
    },
  };
  const selector = { matchLabels: { app: "live" } };
  const owners: Record<string, Loose> = {
    "/apis/apps/v1:deployments": {
      apiVersion: "apps/v1",
      kind: "Deployment",
      spec: { replicas: 2, selector, template },
    },
    "/apis/apps/v1:statefulsets": {
      apiVersion: "apps/v1",
      kind: "StatefulSet",
      spec: { replicas: 1, selector, template, serviceName: "s" },
    },
    "/apis/apps/v1:replicasets": {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      spec: { replicas: 1, selector, template },
    },
    "/api/v1:replicationcontrollers": {
      apiVersion: "v1",
      kind: "ReplicationController",
      spec: { replicas: 1, selector: selector.matchLabels, template },
    },
    "/apis/batch/v1:jobs": {
      apiVersion: "batch/v1",
      kind: "Job",
      spec: { template: { ...template, spec: { ...template.spec, restartPolicy: "Never" } } },
    },
    "/api/v1:services": {
      apiVersion: "v1",
      kind: "Service",
      spec: { selector: selector.matchLabels, ports: [{ port: 80 }] },
    },
    "/apis/policy/v1:poddisruptionbudgets": {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      spec: { minAvailable: 1, selector },
    },
  };
  for (const [key, object] of Object.entries(owners)) {
    const [root, plural] = key.split(":");
    const path = `${root}/namespaces/${namespace}/${plural}`;
    const one = `${path}/live-${plural?.slice(0, 4)}`;
    await probe.both("POST", path, { ...object, metadata: { name: one.slice(path.length + 1) } });
    const settled: Both = await probe.until(
      "GET",
      one,
      ({ json }) =>
        json?.kind === "Service" ||
        json?.status?.observedGeneration !== undefined ||
        json?.status?.active !== undefined,
    );
    await new Promise((resolve) => setTimeout(resolve, 700));
    probe.record(`${plural}: settled`, `GET ${one}`, undefined, settled);
    const left = await probe.both("GET", one);
    probe.record(`${plural}: after a moment`, `GET ${one}`, undefined, left, { ignore: /managedFields/ });
    await probe.both("DELETE", one, { propagationPolicy: "Background" });
  }
}
