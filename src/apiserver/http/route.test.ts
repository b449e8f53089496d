import { expect, test } from "vitest";
import { parseRoute } from "./route.ts";

const plain = {
  kind: "resource",
  group: "",
  version: "v1",
  watch: false,
  namespace: "",
  name: "",
  subresource: "",
  rest: "",
};

test.each([
  ["/api", { kind: "groups", legacy: true }],
  ["/apis/", { kind: "groups", legacy: false }],
  ["/apis/apps", { kind: "group", group: "apps" }],
  ["/api/v1", { kind: "version", group: "", version: "v1" }],
  ["/apis/apps/v1/", { kind: "version", group: "apps", version: "v1" }],
  ["/api/v1/nodes", { ...plain, plural: "nodes" }],
  ["/api/v1/nodes/n1/status", { ...plain, plural: "nodes", name: "n1", subresource: "status" }],
  ["/api/v1/namespaces", { ...plain, plural: "namespaces" }],
  ["/api/v1/namespaces/a", { ...plain, plural: "namespaces", name: "a" }],
  ["/api/v1/namespaces/a/status", { ...plain, plural: "namespaces", name: "a", subresource: "status" }],
  ["/api/v1/namespaces/a/finalize", { ...plain, plural: "namespaces", name: "a", subresource: "finalize" }],
  ["/api/v1/namespaces/a/pods", { ...plain, plural: "pods", namespace: "a" }],
  ["/api/v1/namespaces/a/pods/p/log", { ...plain, plural: "pods", namespace: "a", name: "p", subresource: "log" }],
  [
    "/api/v1/namespaces/a/services/s/proxy/x/y",
    { ...plain, plural: "services", namespace: "a", name: "s", subresource: "proxy", rest: "x/y" },
  ],
  ["/api/v1/watch/namespaces/a/pods", { ...plain, watch: true, plural: "pods", namespace: "a" }],
  ["/api/v1/watch/nodes/n", { ...plain, watch: true, plural: "nodes", name: "n" }],
  [
    "/apis/apps/v1/namespaces/a/deployments/d/scale",
    { ...plain, group: "apps", plural: "deployments", namespace: "a", name: "d", subresource: "scale" },
  ],
  // Outside the core group "namespaces" can only lead somewhere.
  ["/apis/x.io/v1/namespaces/a/status", { ...plain, group: "x.io", plural: "status", namespace: "a" }],
  ["/api/v1/namespaces/a%2Fb", { ...plain, plural: "namespaces", name: "a/b" }],
  ["/api/v1/nodes/%zz", { kind: "other", path: "/api/v1/nodes/%zz" }],
  ["/healthz", { kind: "other", path: "/healthz" }],
])("%s is understood", (path, route) => {
  expect(parseRoute(path)).toEqual(route);
});
