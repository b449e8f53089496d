import type { Manifest } from "../changeCluster.ts";
import { kubectlRows } from "./kubectlRows.ts";
import { configMap, deployment, pod } from "./manifests.ts";

// Rows 57 to 66: changes of existing objects.
//
//   57 patch strategic    61 label                  64 scale
//   58 patch merge        62 annotate               65 rollout status, restart
//   59 patch json         63 set image, env,        66 rollout history, undo, pause, resume
//   60 patch status          resources, account

const kubectlRow = kubectlRows("changing");

kubectlRow("[57] patch merges lists by key", async ({ row, expect }) => {
  await row.given(deployment("web"));
  const patch = { spec: { template: { spec: { containers: [{ name: "side", image: "envoy:1" }] } } } };
  const { text } = await row.kubectl(["patch", "deployment", "web", "-p", JSON.stringify(patch)]);
  expect(text).toBe("deployment.apps/web patched");
  expect(row.stored("apps/deployments", "web")).toMatchObject({
    metadata: { generation: 2 },
    spec: { template: { spec: { containers: [{ name: "side" }, { name: "main" }] } } },
  });
  const same = await row.kubectl(["patch", "deployment", "web", "-p", JSON.stringify(patch)]);
  expect(same.text).toBe("deployment.apps/web patched (no change)");
});

kubectlRow("[58] patch --type=merge replaces lists, and null removes", async ({ row, expect }) => {
  await row.given(deployment("web"), configMap("c", { a: "1", b: "2" }));
  const patch = { spec: { template: { spec: { containers: [{ name: "only", image: "envoy:1" }] } } } };
  await row.kubectl(["patch", "deployment", "web", "--type=merge", "-p", JSON.stringify(patch)]);
  expect(row.stored("apps/deployments", "web")).toMatchObject({
    spec: { template: { spec: { containers: [{ name: "only" }] } } },
  });
  const { text } = await row.kubectl(["patch", "cm", "c", "--type=merge", "-p", '{"data":{"a":null,"c":"3"}}']);
  expect(text).toBe("configmap/c patched");
  expect(row.stored("/configmaps", "c")?.["data"]).toEqual({ b: "2", c: "3" });
});

kubectlRow("[59] patch --type=json changes by path, and a failed test is 422", async ({ row, expect }) => {
  await row.given(configMap("c", { a: "1" }));
  const good = '[{"op":"test","path":"/data/a","value":"1"},{"op":"add","path":"/data/b","value":"2"}]';
  expect((await row.kubectl(["patch", "cm", "c", "--type=json", "-p", good])).text).toBe("configmap/c patched");
  expect(row.stored("/configmaps", "c")?.["data"]).toEqual({ a: "1", b: "2" });
  const bad = '[{"op":"test","path":"/data/a","value":"9"},{"op":"remove","path":"/data/b"}]';
  expect((await row.kubectl(["patch", "cm", "c", "--type=json", "-p", bad])).text).toMatchInlineSnapshot(`
    "! The request is invalid: the server rejected our request due to an error in our request
    exit 1"
  `);
  expect(row.stored("/configmaps", "c")?.["data"]).toEqual({ a: "1", b: "2" });
});

kubectlRow("[60] patch --subresource=status changes the status and nothing else", async ({ row, expect }) => {
  await row.given(deployment("web"));
  const patch = {
    metadata: { labels: { a: "b" } },
    spec: { replicas: 9 },
    status: { replicas: 3, observedGeneration: 1 },
  };
  const { text } = await row.kubectl([
    "patch",
    "deployment",
    "web",
    "--subresource=status",
    "--type=merge",
    "-p",
    JSON.stringify(patch),
  ]);
  expect(text).toBe("deployment.apps/web patched");
  expect(row.requests()).toEqual([
    "GET /apis/apps/v1/namespaces/row-60/deployments/web/status",
    "PATCH /apis/apps/v1/namespaces/row-60/deployments/web/status?fieldManager=kubectl-patch",
  ]);
  expect(row.stored("apps/deployments", "web")).toMatchObject({
    metadata: { generation: 1 },
    spec: { replicas: 1 },
    status: { replicas: 3 },
  });
  const got = await row.kubectl("get deployment web --subresource=status -o jsonpath={.status.replicas}");
  expect(got.text).toBe("3");
});

kubectlRow("[61] label adds, refuses to overwrite, overwrites when told, and removes", async ({ row, expect }) => {
  await row.given(pod("p"));
  expect((await row.kubectl("label pod p tier=front")).text).toBe("pod/p labeled");
  expect((await row.kubectl("label pod p tier=back")).text).toBe(
    "! error: 'tier' already has a value (front), and --overwrite is false\nexit 1",
  );
  expect((await row.kubectl("label pod p tier=back --overwrite")).text).toBe("pod/p labeled");
  expect(row.stored("/pods", "p")?.metadata.labels).toEqual({ tier: "back" });
  expect((await row.kubectl("label pod p tier-")).text).toBe("pod/p unlabeled");
  expect(row.stored("/pods", "p")?.metadata.labels).toBeUndefined();
  expect(row.requests().filter((line) => line.startsWith("PATCH"))).toHaveLength(3);
});

kubectlRow("[62] annotate adds and removes", async ({ row, expect }) => {
  await row.given(pod("p"));
  expect((await row.kubectl(["annotate", "pod", "p", "note=two words"])).text).toBe("pod/p annotated");
  expect(row.stored("/pods", "p")?.metadata.annotations).toEqual({ note: "two words" });
  expect((await row.kubectl("annotate pod p note-")).text).toBe("pod/p annotated");
  expect(row.stored("/pods", "p")?.metadata.annotations).toBeUndefined();
});

kubectlRow("[63] set image, env, resources and serviceaccount change the template", async ({ row, expect }) => {
  await row.given(deployment("web"));
  expect((await row.kubectl("set image deployment/web main=nginx:1.30")).text).toBe(
    "deployment.apps/web image updated",
  );
  expect((await row.kubectl("set env deployment/web A=b")).text).toBe("deployment.apps/web env updated");
  expect((await row.kubectl("set resources deployment web --limits=cpu=1000m,memory=1024Mi")).text).toBe(
    "deployment.apps/web resource requirements updated",
  );
  expect((await row.kubectl("set serviceaccount deployment web robot")).text).toBe(
    "deployment.apps/web serviceaccount updated",
  );
  expect(row.stored("apps/deployments", "web")).toMatchObject({
    metadata: { generation: 5 },
    spec: {
      template: {
        spec: {
          serviceAccountName: "robot",
          containers: [
            {
              image: "nginx:1.30",
              env: [{ name: "A", value: "b" }],
              resources: { limits: { cpu: "1", memory: "1Gi" } },
            },
          ],
        },
      },
    },
  });
});

kubectlRow("[64] scale patches the scale, and heeds the size it is told to expect", async ({ row, expect }) => {
  await row.given(deployment("web"));
  expect((await row.kubectl("scale deployment web --replicas=3")).text).toBe("deployment.apps/web scaled");
  expect(row.requests()).toContain("PATCH /apis/apps/v1/namespaces/row-64/deployments/web/scale");
  expect(row.stored("apps/deployments", "web")).toMatchObject({ metadata: { generation: 2 }, spec: { replicas: 3 } });
  expect((await row.kubectl("scale deployment web --current-replicas=7 --replicas=1")).text).toBe(
    "! error: Expected replicas to be 7, was 3\nexit 1",
  );
  expect((await row.kubectl("scale deployment web --current-replicas=3 --replicas=0")).text).toBe(
    "deployment.apps/web scaled",
  );
  expect(row.stored("apps/deployments", "web")).toMatchObject({ spec: { replicas: 0 } });
  expect((await row.kubectl("scale deployment none --replicas=1")).text).toBe(
    `! error: no objects passed to scale deployments.apps "none" not found\nexit 1`,
  );
});

kubectlRow(
  "[65] rollout status follows the deployment until it is done; restart stamps the template",
  async ({ row, expect }) => {
    await row.given(
      deployment("web", {
        replicas: 2,
        status: {
          observedGeneration: 1,
          replicas: 2,
          updatedReplicas: 2,
          readyReplicas: 1,
          availableReplicas: 1,
          unavailableReplicas: 1,
        },
      }),
    );
    const follow = row.start("rollout status deployment/web");
    await follow.until((out) => out.includes("1 of 2 updated replicas are available"));
    await row.requested(/watch=true/);
    const done = { observedGeneration: 1, readyReplicas: 2, availableReplicas: 2, unavailableReplicas: null };
    await row.patched({ ...deployment("web"), spec: {}, status: done }, "status");
    const { text } = await follow.ended();
    expect(text).toBe(
      'Waiting for deployment "web" rollout to finish: 1 of 2 updated replicas are available...\ndeployment "web" successfully rolled out',
    );
    expect(row.requests().find((line) => line.includes("watch=true"))).toContain("fieldSelector=metadata.name%3Dweb");
    expect((await row.kubectl("rollout restart deployment/web")).text).toBe("deployment.apps/web restarted");
    expect(row.stored("apps/deployments", "web")).toMatchObject({
      metadata: { generation: 2 },
      spec: { template: { metadata: { annotations: { "kubectl.kubernetes.io/restartedAt": expect.any(String) } } } },
    });
  },
);

/** The ReplicaSet of one revision, as the Deployment controller creates it. */
function revision(number: number, image: string): Manifest {
  const labels = { app: "web", "pod-template-hash": `h${number}` };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: {
      name: `web-h${number}`,
      labels,
      annotations: { "deployment.kubernetes.io/revision": String(number) },
      ownerReferences: [
        { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "$uid(apps/deployments/web)", controller: true },
      ],
    },
    spec: {
      replicas: number === 2 ? 1 : 0,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "main", image }] } },
    },
  };
}

kubectlRow(
  "[66] rollout history finds the replica sets, undo goes back, pause and resume hold",
  async ({ row, expect }) => {
    await row.given(deployment("web", { image: "nginx:2" }));
    await row.given(revision(1, "nginx:1"), revision(2, "nginx:2"));
    const { text } = await row.kubectl("rollout history deployment/web");
    expect(text).toMatchInlineSnapshot(`
    "deployment.apps/web
    REVISION   CHANGE-CAUSE
    1   <none>
    2   <none>"
  `);
    expect(row.requests()).toContain("GET /apis/apps/v1/namespaces/row-66/replicasets?labelSelector=app%3Dweb");
    expect((await row.kubectl("rollout undo deployment/web")).text).toBe("deployment.apps/web rolled back");
    expect(row.stored("apps/deployments", "web")).toMatchObject({
      spec: { template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ image: "nginx:1" }] } } },
    });
    expect((await row.kubectl("rollout pause deployment/web")).text).toBe("deployment.apps/web paused");
    expect(row.stored("apps/deployments", "web")).toMatchObject({ spec: { paused: true } });
    expect((await row.kubectl("rollout undo deployment/web")).text).toBe(
      `! error: you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again\nexit 1`,
    );
    expect((await row.kubectl("rollout resume deployment/web")).text).toBe("deployment.apps/web resumed");
    expect(row.stored("apps/deployments", "web")?.["spec"]).not.toHaveProperty("paused");
  },
);
