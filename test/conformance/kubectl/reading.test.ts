import { kubectlRows } from "./kubectlRows.ts";
import { configMap, deployment, node, pod, running } from "./manifests.ts";

// Rows 1 to 24 of the kubectl table: discovery and `get`.
//
//   1 version            5 get pods         10 -o yaml            14 -l               18 get -w           21 get all
//   2 cluster-info       6 -o wide          11 -o json            15 --field-selector 19 -w -o json       22 get pods,nodes
//   3 api-resources      7 -A               12 -o jsonpath        16 unsupported one  20 --watch-only     23 get foo
//   4 api-versions       8 --show-labels    13 -o custom-columns  17 --chunk-size=1                       24 get --raw
//                        9 -o name

const kubectlRow = kubectlRows("reading");

kubectlRow("[1] version says which server it is", async ({ row, expect }) => {
  const { text } = await row.kubectl("version");
  expect(text.split("\n").filter((line) => line.startsWith("Server"))).toEqual(["Server Version: v1.36.4+muster"]);
});

kubectlRow("[2] cluster-info finds the server, and asks for the services of the cluster", async ({ row, expect }) => {
  const { out, code } = await row.kubectl("cluster-info");
  expect(code).toBe(0);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: kubectl paints this text.
  expect(out.replace(/\u001b\[[0-9;]*m/g, "").split("\n")[0]).toBe("Kubernetes control plane is running at <server>");
  expect(row.requests()).toContain(
    "GET /api/v1/namespaces/kube-system/services?labelSelector=kubernetes.io%2Fcluster-service%3Dtrue",
  );
});

kubectlRow("[3] api-resources needs two requests and tells names, scopes and kinds", async ({ row, expect }) => {
  const { out } = await row.kubectl("api-resources", { env: { KUBECACHEDIR: "cold-3" } });
  expect(row.discovery().filter((line) => !line.includes("/version"))).toEqual([
    "GET /api?timeout=32s",
    "GET /apis?timeout=32s",
  ]);
  await expect(`${out}`).toMatchFileSnapshot("golden/api-resources.txt");
});

kubectlRow("[4] api-versions lists every group and version", async ({ row, expect }) => {
  const { out } = await row.kubectl("api-versions", { env: { KUBECACHEDIR: "cold-4" } });
  await expect(out).toMatchFileSnapshot("golden/api-versions.txt");
});

kubectlRow("[5] get pods prints the columns of a pod", async ({ row, expect }) => {
  await row.given(pod("waits"), pod("runs", { nodeName: "n5", status: running }));
  const { text } = await row.kubectl("get pods");
  expect(text).toMatchInlineSnapshot(`
    "NAME   READY   STATUS   RESTARTS   AGE
    runs   1/1   Running   0   <age>
    waits   0/1   Pending   0   <age>"
  `);
  expect(row.requests()).toEqual(["GET /api/v1/namespaces/row-5/pods?limit=500"]);
});

kubectlRow("[6] get pods -o wide adds address and node", async ({ row, expect }) => {
  await row.given(pod("waits"), pod("runs", { nodeName: "n6", status: running }));
  const { text } = await row.kubectl("get pods -o wide");
  expect(text).toMatchInlineSnapshot(`
    "NAME   READY   STATUS   RESTARTS   AGE   IP   NODE   NOMINATED NODE   READINESS GATES
    runs   1/1   Running   0   <age>   192.168.0.7   n6   <none>   <none>
    waits   0/1   Pending   0   <age>   <none>   <none>   <none>   <none>"
  `);
});

kubectlRow("[7] get -A shows the namespace of each object", async ({ row, expect }) => {
  await row.given(configMap("seven", { a: "1" }, { row: "7" }));
  const { text } = await row.kubectl("get configmaps -A -l row=7");
  expect(text).toMatchInlineSnapshot(`
    "NAMESPACE   NAME   DATA   AGE
    row-7   seven   1   <age>"
  `);
  expect(row.requests()).toEqual(["GET /api/v1/configmaps?labelSelector=row%3D7&limit=500"]);
});

kubectlRow(
  "[8] get pods --show-labels adds a column made by kubectl from the metadata of each row",
  async ({ row, expect }) => {
    await row.given(pod("a", { labels: { app: "web", tier: "front" } }), pod("b"));
    const { text } = await row.kubectl("get pods --show-labels");
    expect(text).toMatchInlineSnapshot(`
    "NAME   READY   STATUS   RESTARTS   AGE   LABELS
    a   0/1   Pending   0   <age>   app=web,tier=front
    b   0/1   Pending   0   <age>   <none>"
  `);
  },
);

kubectlRow("[9] get -o name prints type and name", async ({ row, expect }) => {
  await row.given(pod("a"), pod("b"));
  const { text } = await row.kubectl("get pods -o name");
  expect(text).toBe("pod/a\npod/b");
});

kubectlRow(
  "[10] get pod -o yaml shows the whole object with defaults and without managedFields",
  async ({ row, expect }) => {
    await row.given(pod("a"));
    const { text } = await row.kubectl("get pod a -o yaml");
    await expect(text).toMatchFileSnapshot("golden/get-pod.yaml");
  },
);

kubectlRow("[11] get pod -o json names kind and apiVersion", async ({ row, expect }) => {
  await row.given(pod("a"));
  const { out } = await row.kubectl("get pod a -o json --show-managed-fields");
  const got = JSON.parse(out.replaceAll("<revision>", '"7"'));
  expect(got).toMatchObject({ apiVersion: "v1", kind: "Pod", metadata: { name: "a", namespace: "row-11" } });
  expect(got.metadata.managedFields).toMatchObject([{ manager: "world", operation: "Update", apiVersion: "v1" }]);
});

kubectlRow("[12] get -o jsonpath reaches into the object and into a list", async ({ row, expect }) => {
  await row.given(pod("a"), pod("b", { image: "redis:8" }));
  expect((await row.kubectl("get pod a -o jsonpath={.spec.containers[0].image}")).text).toBe("nginx:1.29");
  expect((await row.kubectl("get pods -o jsonpath={.items[*].spec.containers[*].image}")).text).toBe(
    "nginx:1.29 redis:8",
  );
});

kubectlRow("[13] get -o custom-columns prints what was asked", async ({ row, expect }) => {
  await row.given(pod("a"), pod("b", { nodeName: "n13" }));
  const { text } = await row.kubectl("get pods -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,KIND:.kind");
  expect(text).toMatchInlineSnapshot(`
    "NAME   NODE   KIND
    a   <none>   Pod
    b   n13   Pod"
  `);
});

kubectlRow("[14] get pods -l selects by label, by equality and by set", async ({ row, expect }) => {
  await row.given(pod("a", { labels: { app: "web" } }), pod("b", { labels: { app: "db" } }), pod("c"));
  expect((await row.kubectl("get pods -o name -l app=web")).text).toBe("pod/a");
  expect((await row.kubectl(["get", "pods", "-o", "name", "-l", "app in (web, db)"])).text).toBe("pod/a\npod/b");
  expect((await row.kubectl(["get", "pods", "-o", "name", "-l", "!app"])).text).toBe("pod/c");
  expect((await row.kubectl("get pods -l app=none")).text).toBe("! No resources found in row-14 namespace.");
});

kubectlRow("[15] get pods --field-selector spec.nodeName selects by node", async ({ row, expect }) => {
  await row.given(pod("a", { nodeName: "n15" }), pod("b", { nodeName: "other" }), pod("c"));
  expect((await row.kubectl("get pods -o name --field-selector spec.nodeName=n15")).text).toBe("pod/a");
  expect((await row.kubectl("get pods -o name --field-selector spec.nodeName!=n15,metadata.name!=c")).text).toBe(
    "pod/b",
  );
});

kubectlRow("[16] a field that cannot be selected by is refused with 400", async ({ row, expect }) => {
  const { text } = await row.kubectl("get pods --field-selector spec.hostname=x");
  expect(text).toMatchInlineSnapshot(`
    "! Error from server (BadRequest): Unable to find "/v1, Resource=pods" that match label selector "", field selector "spec.hostname=x": field label not supported: spec.hostname
    exit 1"
  `);
});

kubectlRow("[17] get --chunk-size=1 pages through the list with continue tokens", async ({ row, expect }) => {
  await row.given(pod("a"), pod("b"), pod("c"));
  expect((await row.kubectl("get pods -o name --chunk-size=1")).text).toBe("pod/a\npod/b\npod/c");
  expect(row.requests().map((line) => line.replace(/continue=[^&]+/, "continue=T"))).toEqual([
    "GET /api/v1/namespaces/row-17/pods?limit=1",
    "GET /api/v1/namespaces/row-17/pods?continue=T&limit=1",
    "GET /api/v1/namespaces/row-17/pods?continue=T&limit=1",
  ]);
});

kubectlRow("[18] get pods -w prints headers once and a line for each change", async ({ row, expect }) => {
  await row.given(pod("a", { nodeName: "n18" }));
  const watch = row.start("get pods -w");
  await watch.until((out) => out.includes("Pending"));
  await row.requested(/watch=true/);
  await row.patched({ ...pod("a"), spec: {}, status: running }, "status");
  await watch.until((out) => out.includes("Running"));
  await row.given(pod("b"));
  await watch.until((out) => /^b /m.test(out));
  await row.removed(pod("b"));
  const { out } = await watch.until((text) => text.split("\n").length > 5);
  expect(out.trimEnd()).toMatchInlineSnapshot(`
    "NAME   READY   STATUS   RESTARTS   AGE
    a   0/1   Pending   0   <age>
    a   1/1   Running   0   <age>
    b   0/1   Pending   0   <age>
    b   0/1   Terminating   0   <age>
    b   0/1   Terminating   0   <age>"
  `);
});

kubectlRow("[19] get -w -o json prints whole objects, one for each change", async ({ row, expect }) => {
  await row.given(configMap("a", { x: "1" }));
  const watch = row.start("get configmap a -w -o json");
  await watch.until((out) => out.includes('"x": "1"'));
  // For a single object kubectl drops the first event, so a change must not come before the watch.
  await row.requested(/watch=true/);
  await row.patched(configMap("a", { x: "2" }));
  const { out } = await watch.until((text) => text.includes('"x": "2"'));
  expect(out.match(/"kind": "ConfigMap"/g)).toHaveLength(2);
});

kubectlRow("[20] get --watch-only prints nothing of what is there, only what comes", async ({ row, expect }) => {
  await row.given(configMap("a", { x: "1" }));
  const watch = row.start("get configmaps --watch-only");
  await row.requested(/watch=true/);
  await row.given(configMap("b", { x: "1" }));
  const { out } = await watch.until((text) => /^b /m.test(text));
  expect(out.trimEnd()).toMatchInlineSnapshot(`
    "NAME   DATA   AGE
    b   1   <age>"
  `);
});

kubectlRow("[21] get all lists the kinds of the category", async ({ row, expect }) => {
  await row.given(pod("a"), deployment("web"), {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web" },
    spec: { selector: { app: "web" }, ports: [{ port: 80 }] },
  });
  const { text } = await row.kubectl("get all");
  expect(text).toMatchInlineSnapshot(`
    "NAME   READY   STATUS   RESTARTS   AGE
    pod/a   0/1   Pending   0   <age>

    NAME   TYPE   CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE
    service/web   ClusterIP   <ip>   <none>   80/TCP   <age>

    NAME   READY   UP-TO-DATE   AVAILABLE   AGE
    deployment.apps/web   0/1   0   0   <age>"
  `);
  expect(row.requests()).toMatchInlineSnapshot(`
    [
      "GET /api/v1/namespaces/row-21/pods?limit=500",
      "GET /api/v1/namespaces/row-21/replicationcontrollers?limit=500",
      "GET /api/v1/namespaces/row-21/services?limit=500",
      "GET /apis/apps/v1/namespaces/row-21/daemonsets?limit=500",
      "GET /apis/apps/v1/namespaces/row-21/deployments?limit=500",
      "GET /apis/apps/v1/namespaces/row-21/replicasets?limit=500",
      "GET /apis/apps/v1/namespaces/row-21/statefulsets?limit=500",
      "GET /apis/autoscaling/v2/namespaces/row-21/horizontalpodautoscalers?limit=500",
      "GET /apis/batch/v1/namespaces/row-21/cronjobs?limit=500",
      "GET /apis/batch/v1/namespaces/row-21/jobs?limit=500",
    ]
  `);
});

kubectlRow("[22] get pods,nodes prints a table for each", async ({ row, expect }) => {
  const labels = { row: "22" };
  await row.given(pod("a", { labels }), node("n22", { labels: { row: "22", "node-role.kubernetes.io/gpu": "" } }));
  const { text } = await row.kubectl("get pods,nodes -l row=22 -o wide");
  expect(text).toMatchInlineSnapshot(`
    "NAME   READY   STATUS   RESTARTS   AGE   IP   NODE   NOMINATED NODE   READINESS GATES
    pod/a   0/1   Pending   0   <age>   <none>   <none>   <none>   <none>

    NAME   STATUS   ROLES   AGE   VERSION   INTERNAL-IP   EXTERNAL-IP   OS-IMAGE   KERNEL-VERSION   CONTAINER-RUNTIME
    node/n22   Ready   gpu   <age>   v1.36.4   172.16.0.9   <none>   Muster OS   6.12.0   containerd://2.1.0"
  `);
});

kubectlRow("[23] get of an unknown type asks for discovery again, then says so", async ({ row, expect }) => {
  const { text } = await row.kubectl("get foo");
  expect(text).toBe(`! error: the server doesn't have a resource type "foo"\nexit 1`);
  expect(row.discovery().filter((line) => !line.includes("/version"))).toContain("GET /apis?timeout=32s");
});

kubectlRow("[24] get --raw /readyz?verbose prints the checks", async ({ row, expect }) => {
  const { text } = await row.kubectl("get --raw /readyz?verbose");
  expect(text).toMatch(/^\[\+\]ping ok\n(\[\+\]\S+ ok\n)*readyz check passed$/);
});
