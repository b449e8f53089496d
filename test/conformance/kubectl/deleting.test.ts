import type { Manifest } from "../changeCluster.ts";
import { kubectlRows } from "./kubectlRows.ts";
import { configMap, deployment, node, pod, running } from "./manifests.ts";

// Rows 67 to 73: delete and wait.
//
//   67 delete                             70 delete --all              73 wait for jsonpath, and for create
//   68 delete --force --grace-period=0    71 wait for a condition
//   69 delete --cascade                   72 wait for the end

const kubectlRow = kubectlRows("deleting");

kubectlRow(
  "[67] delete asks for background propagation and waits until the object is gone",
  async ({ row, expect }) => {
    await row.given(configMap("c", { a: "1" }), pod("p", { nodeName: "n67", status: running }));
    expect((await row.kubectl("delete configmap c")).text).toBe('configmap "c" deleted');
    expect(row.bodies(/^DELETE/)).toEqual([{ propagationPolicy: "Background" }]);
    expect(row.stored("/configmaps", "c")).toBeUndefined();
    // A running pod has a grace period: it is deleted when the kubelet confirms it.
    const waits = row.start("delete pod p");
    await waits.until((out) => out.includes("deleted"));
    await row.requested(/watch=true/);
    expect(row.stored("/pods", "p")?.metadata).toMatchObject({
      deletionTimestamp: expect.any(String),
      deletionGracePeriodSeconds: 30,
    });
    await row.removed(pod("p"));
    expect((await waits.ended()).text).toBe('pod "p" deleted');
    expect((await row.kubectl("delete configmap c")).text).toBe(
      `! Error from server (NotFound): configmaps "c" not found\nexit 1`,
    );
    expect((await row.kubectl("delete configmap c --ignore-not-found")).text).toBe("");
  },
);

kubectlRow("[68] delete --force --grace-period=0 does not wait for the kubelet", async ({ row, expect }) => {
  await row.given(pod("p", { nodeName: "n68", status: running }));
  const { out, code } = await row.kubectl("delete pod p --force --grace-period=0");
  expect({ out, code }).toEqual({ out: 'pod "p" force deleted\n', code: 0 });
  expect(row.bodies(/^DELETE/)).toEqual([{ gracePeriodSeconds: 0, propagationPolicy: "Background" }]);
  expect(row.stored("/pods", "p")).toBeUndefined();
});

/** A ReplicaSet and a pod below a Deployment, as its controllers would have made them. */
function dependents(of: string): Manifest[] {
  const owner = (kind: string, plural: string, name: string) => [
    {
      apiVersion: "apps/v1",
      kind,
      name,
      uid: `$uid(apps/${plural}/${name})`,
      controller: true,
      blockOwnerDeletion: true,
    },
  ];
  const labels = { app: of };
  return [
    {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name: `${of}-1`, labels, ownerReferences: owner("Deployment", "deployments", of) },
      spec: {
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "nginx" }] } },
      },
    },
    {
      ...pod(`${of}-1-a`, { labels }),
      metadata: { name: `${of}-1-a`, labels, ownerReferences: owner("ReplicaSet", "replicasets", `${of}-1`) },
    },
  ];
}

kubectlRow("[69] delete --cascade: foreground takes dependents first, orphan leaves them", async ({ row, expect }) => {
  await row.given(deployment("front"), ...dependents("front"));
  expect((await row.kubectl("delete deployment front --cascade=foreground")).text).toBe(
    'deployment.apps "front" deleted',
  );
  expect(row.bodies(/^DELETE/)).toEqual([{ propagationPolicy: "Foreground" }]);
  expect(row.stored("apps/deployments", "front")).toBeUndefined();
  expect(row.stored("apps/replicasets", "front-1")).toBeUndefined();
  expect(row.stored("/pods", "front-1-a")).toBeUndefined();

  row.forget();
  await row.given(deployment("left"), ...dependents("left"));
  expect((await row.kubectl("delete deployment left --cascade=orphan")).text).toBe('deployment.apps "left" deleted');
  expect(row.bodies(/^DELETE/)).toEqual([{ propagationPolicy: "Orphan" }]);
  expect(row.stored("apps/deployments", "left")).toBeUndefined();
  expect(row.stored("apps/replicasets", "left-1")?.metadata).not.toHaveProperty("ownerReferences");
  expect(row.stored("/pods", "left-1-a")?.metadata.ownerReferences).toMatchObject([{ name: "left-1" }]);

  await row.given(deployment("back"), ...dependents("back"));
  expect((await row.kubectl("delete deployment back")).text).toBe('deployment.apps "back" deleted');
  const wait = await row.kubectl("wait --for=delete pod/back-1-a --timeout=10s");
  expect(wait.code).toBe(0);
  expect(row.stored("apps/replicasets", "back-1")).toBeUndefined();
});

kubectlRow(
  "[70] delete --all takes every object of the namespace, and a namespace takes its content",
  async ({ row, expect }) => {
    await row.given(pod("a"), pod("b"), configMap("c", {}));
    expect((await row.kubectl("delete pods --all")).text).toBe('pod "a" deleted\npod "b" deleted');
    expect(row.stored("/pods", "a")).toBeUndefined();
    const held = configMap("held", {});
    held.metadata["finalizers"] = ["example.com/hold"];
    await row.given(pod("p"), held);
    const waits = row.start("delete namespace row-70");
    await row.requested(/^GET .*watch=true/);
    expect((await row.kubectl("create configmap late")).text).toBe(
      '! error: failed to create configmap: configmaps "late" is forbidden: unable to create new content in namespace row-70 because it is being terminated\nexit 1',
    );
    await row.observed(() => row.stored("/pods", "p") === undefined && row.stored("/configmaps", "c") === undefined);
    expect(row.stored("/namespaces", "row-70")).toMatchObject({ status: { phase: "Terminating" } });
    const free = configMap("held", {});
    free.metadata["finalizers"] = null;
    await row.patched(free);
    expect((await waits.ended()).text).toBe('namespace "row-70" deleted');
    expect(row.stored("/namespaces", "row-70")).toBeUndefined();
  },
);

kubectlRow("[71] wait --for=condition follows the object until the condition holds", async ({ row, expect }) => {
  await row.given(pod("p", { nodeName: "n71" }), node("n71"));
  const waits = row.start("wait --for=condition=Ready pod/p --timeout=20s");
  await row.requested(/watch=true/);
  await row.patched({ ...pod("p"), spec: {}, status: running }, "status");
  expect((await waits.ended()).text).toBe("pod/p condition met");
  expect(
    row
      .requests()
      .filter((line) => line.includes("fieldSelector"))
      .map((line) => line.replace(/=\d{2,}/g, "=N")),
  ).toMatchInlineSnapshot(`
    [
      "GET /api/v1/namespaces/row-71/pods?fieldSelector=metadata.name%3Dp&limit=N&resourceVersion=0",
      "GET /api/v1/namespaces/row-71/pods?allowWatchBookmarks=true&fieldSelector=metadata.name%3Dp&resourceVersion=N&timeoutSeconds=N&watch=true",
    ]
  `);
  expect((await row.kubectl("wait --for=condition=Ready=False pod/p --timeout=1s")).text).toBe(
    "! error: timed out waiting for the condition on pods/p\nexit 1",
  );
});

kubectlRow("[72] wait --for=delete ends with the object", async ({ row, expect }) => {
  await row.given(configMap("c", {}));
  const waits = row.start("wait --for=delete configmap/c --timeout=20s");
  await row.requested(/watch=true/);
  await row.removed(configMap("c", {}));
  expect((await waits.ended()).text).toBe("configmap/c condition met");
});

kubectlRow(
  "[73] wait --for=jsonpath follows a value; --for=create polls until the object is there",
  async ({ row, expect }) => {
    await row.given(pod("p"));
    const value = row.start("wait --for=jsonpath={.status.phase}=Running pod/p --timeout=20s");
    await row.requested(/watch=true/);
    await row.patched({ ...pod("p"), spec: {}, status: { phase: "Running" } }, "status");
    expect((await value.ended()).text).toBe("pod/p condition met");
    const created = row.start("wait --for=create configmap/late --timeout=20s");
    await row.requested(/configmaps/);
    await row.given(configMap("late", {}));
    expect((await created.ended()).text).toBe("configmap/late condition met");
  },
);
