import { expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { RoleBinding } from "../../model/kubernetes.generated.ts";
import { bootstrapObjects } from "../bootstrap/bootstrapObjects.ts";
import { ObjectStore } from "../storage/objectStore.ts";
import { resourceAccess } from "./access.ts";
import { followRbac } from "./followRbac.ts";

const side = { uid: "u", labels: null, fields: [], owners: null };
const group = "rbac.authorization.k8s.io";

test("a binding counts as soon as the store has it, and no longer than that", () => {
  const store = new ObjectStore({ clock: { nowMs: () => 0, monotonicMs: () => 0, after: () => () => undefined } });
  for (const { resource, object } of bootstrapObjects({ authority: "PEM", port: 1 })) store.put(resource, object, side);
  const rbac = followRbac(store);
  const jo = { username: "jo", groups: ["system:authenticated"] };
  const mayList = () => rbac.authorize(jo, resourceAccess({ verb: "list", resource: "pods", namespace: "ns" })).allowed;
  expect(rbac.authorize(jo, { verb: "get", path: "/api" }).allowed).toBe(true);
  expect(mayList()).toBe(false);
  const binding = partly<RoleBinding>({
    apiVersion: `${group}/v1`,
    kind: "RoleBinding",
    metadata: { name: "b", namespace: "ns" },
    roleRef: { apiGroup: group, kind: "ClusterRole", name: "view" },
    subjects: [{ apiGroup: group, kind: "User", name: "jo" }],
  });
  const version = store.put(`${group}/rolebindings`, binding, side);
  expect(mayList()).toBe(true);
  store.remove(version);
  expect(mayList()).toBe(false);
});
