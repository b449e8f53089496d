import { afterAll, beforeAll, expect, test } from "vitest";
import { followRbac } from "../../src/apiserver/auth/followRbac.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { readCluster } from "../../src/control/inventory/readCluster.ts";
import type { KubeObject, Unstored } from "../../src/model/objects/object.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { node, pod } from "../../src/sim/inventory/builders.ts";
import { type ServerForClients, serverForClients } from "../clientNode/serverForClients.ts";

/** A real role with the rights of the founding document: nodes and pods, nothing about claims. */
let world: ServerForClients;
let admin: KubeApi;

const account = { namespace: "default", name: "updater" };

beforeAll(async () => {
  world = await serverForClients();
  admin = inProcessKube(world.server.core, {
    user: { username: "admin", groups: ["system:masters"] },
    fieldManager: "test",
  });
  const rbac = { group: "rbac.authorization.k8s.io", version: "v1" };
  const subject = { kind: "ServiceAccount", ...account };
  const roleRef = { apiGroup: rbac.group, kind: "ClusterRole", name: "updater" };
  await make("", "serviceaccounts", { apiVersion: "v1", kind: "ServiceAccount", metadata: account });
  await make(rbac.group, "clusterroles", {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name: "updater" },
    rules: [{ apiGroups: [""], resources: ["nodes", "pods", "pods/status"], verbs: ["get", "list", "watch"] }],
  });
  await make(rbac.group, "clusterrolebindings", {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: "updater" },
    roleRef,
    subjects: [subject],
  });
  await make("", "nodes", bare(node("n1", "h100")));
});
afterAll(async () => {
  await world.server.stop();
});

async function make(group: string, plural: string, object: object): Promise<void> {
  const made = await admin.create({ group, version: "v1", plural }, object as KubeObject);
  if (!made.ok) throw new Error(made.message);
}

function bare(object: object): Unstored {
  const { metadata, ...rest } = object as KubeObject;
  const { uid: _, resourceVersion: __, creationTimestamp: ___, ...kept } = metadata;
  return { ...rest, metadata: kept };
}

/** What the API answers to the account of the role. */
function asAccount(): KubeApi {
  const user = {
    username: "system:serviceaccount:default:updater",
    groups: ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
  };
  const authorizer = followRbac(world.server.core.store);
  return inProcessKube(world.server.core, { user, fieldManager: "test" }, { authorizer });
}

function podWith(name: string, spec: object): KubeObject {
  const { status: _, ...rest } = bare(
    pod(name, "n1", 1, { spec: { containers: [{ name: "main", image: "x" }], ...spec } }),
  ) as KubeObject & { status?: unknown };
  return rest as KubeObject;
}

test("claims may not be listed, and the role says so", async () => {
  const listed = await asAccount().list(builtin.ResourceClaim);
  expect(listed).toMatchObject({ ok: false, reason: "Forbidden" });
});

test("where no pod has a claim the cluster is read without them", async () => {
  await make("", "pods", podWith("p1", {}));
  const read = await readCluster(asAccount());
  expect(read.ok ? "" : read.why).toBe("");
  expect(read.ok && read.value.nodes.map(({ metadata }) => metadata.name)).toEqual(["n1"]);
  expect(read.ok && read.value.pods.map(({ metadata }) => metadata.name)).toEqual(["p1"]);
});

test("where a pod has one the cluster is unknown, and the message names the role to grant", async () => {
  await make("", "pods", podWith("p2", { resourceClaims: [{ name: "gpu", resourceClaimName: "c1" }] }));
  const read = await readCluster(asAccount());
  expect(read).toMatchObject({ ok: false, why: expect.stringContaining("resourceclaims") });
  expect(read).toMatchObject({ why: expect.stringContaining("grant the role of deploy/inventory.yaml") });
});
