/** The gate against a server that serves minimal definitions of Argo CD and Flux. */
import { expect, test } from "vitest";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { takeSnapshot } from "../../src/control/verify/takeSnapshot.ts";
import { kindsFor } from "../../src/decide/verify/checks.ts";
import { judge } from "../../src/decide/verify/judge.ts";
import { verifyConfig } from "../../src/decide/verify/verifyConfig.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { gitopsDefinitions } from "./gitopsDefinitions.ts";

interface Gated {
  readonly status: string | undefined;
  readonly exitCode: number;
  readonly message: string;
}

async function gate(objects: readonly { resource: string; object: object }[], served = true): Promise<Gated> {
  const api = await TestApi.start();
  if (served) {
    for (const each of gitopsDefinitions) await api.create("apiextensions.k8s.io/customresourcedefinitions", each);
    await api.settle();
  }
  await api.create("/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "apps" } });
  for (const { resource, object } of objects) await api.create(resource, object);
  const kube = inProcessKube(api.core, { user: { username: "t", groups: ["system:masters"] }, fieldManager: "t" });
  const config = verifyConfig({ checks: ["gitops"] });
  const taken = await takeSnapshot(kube, kindsFor(config.checks), { nowMs: () => api.clock.nowMs() });
  if (!taken.ok) throw new Error(taken.refusal.message);
  expect(taken.snapshot.coherent).toBe(true);
  const { checks, exitCode } = judge(taken.snapshot, config);
  return { status: checks[0]?.status, exitCode, message: checks[0]?.message ?? "" };
}

const application = (name: string, sync: string, health: string, phase?: string) => ({
  resource: "argoproj.io/applications",
  object: {
    apiVersion: "argoproj.io/v1alpha1",
    kind: "Application",
    metadata: {
      name,
      namespace: "apps",
      ...(name === "stack" ? {} : { labels: { "app.kubernetes.io/instance": "stack" } }),
    },
    status: {
      sync: { status: sync },
      health: { status: health },
      ...(phase === undefined ? {} : { operationState: { phase } }),
    },
  },
});

const flux = (group: string, version: string, kind: string, plural: string, ready: string) => ({
  resource: `${group}/${plural}`,
  object: {
    apiVersion: `${group}/${version}`,
    kind,
    metadata: { name: `a-${plural}`, namespace: "apps" },
    status: { conditions: [{ type: "Ready", status: ready, message: "waits for its source" }] },
  },
});
const source = (ready: string) => flux("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories", ready);
const kustomization = (ready: string) =>
  flux("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations", ready);
const release = (ready: string) => flux("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases", ready);

test.each([
  {
    name: "all Applications have arrived",
    objects: [application("stack", "Synced", "Healthy", "Succeeded"), application("a", "Synced", "Progressing")],
    opens: true,
  },
  { name: "the root is still at work", objects: [application("stack", "Synced", "Healthy", "Running")], opens: false },
  {
    name: "one child is missing",
    objects: [application("stack", "Synced", "Healthy", "Succeeded"), application("a", "OutOfSync", "Missing")],
    opens: false,
  },
  {
    name: "Flux is ready from source to release",
    objects: [source("True"), kustomization("True"), release("True")],
    opens: true,
  },
  { name: "the source is not ready", objects: [source("False"), kustomization("True"), release("True")], opens: false },
  {
    name: "a Kustomization is not ready",
    objects: [source("True"), kustomization("Unknown"), release("True")],
    opens: false,
  },
  { name: "there is no release", objects: [source("True"), kustomization("True")], opens: false },
  { name: "there is nothing", objects: [], opens: false },
])("$name: the gate opens $opens", async ({ objects, opens }) => {
  const found = await gate(objects);
  expect(found.status, found.message).toBe(opens ? "passed" : "failed");
  expect(found.exitCode).toBe(opens ? 0 : 50);
});

test("a cluster without either is a closed gate, not an open one", async () => {
  expect(await gate([], false)).toMatchObject({ status: "failed", exitCode: 50 });
});
