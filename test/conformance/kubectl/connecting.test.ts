import { kubectlRows } from "./kubectlRows.ts";
import { deployment, node, pod, running } from "./manifests.ts";

// Rows 95 to 100: commands that need a kubelet, and related ones.
//
//   95 exec    96 port-forward    97 attach    98 autoscale    99 debug node, debug pod    100 top

const kubectlRow = kubectlRows("connecting");

kubectlRow("[95] exec says plainly that no node runs the pod", async ({ row, expect }) => {
  await row.given(pod("p", { nodeName: "n95", status: running }));
  expect((await row.kubectl("exec p -- date")).text).toMatchInlineSnapshot(`
    "! Error from server (NotFound): nodes "n95" not found
    exit 1"
  `);
  expect(row.requests().map((line) => line.replace(/\?.*/, ""))).toMatchInlineSnapshot(`
    [
      "GET /api/v1/namespaces/row-95/pods/p",
      "GET /api/v1/namespaces/row-95/pods/p/exec",
      "POST /api/v1/namespaces/row-95/pods/p/exec",
    ]
  `);
});

kubectlRow("[96] port-forward says plainly that no node runs the pod", async ({ row, expect }) => {
  await row.given(pod("p", { nodeName: "n96", status: running }));
  expect((await row.kubectl("port-forward pod/p :80")).text).toMatchInlineSnapshot(`
    "! error: error upgrading connection: nodes "n96" not found
    exit 1"
  `);
});

kubectlRow("[97] attach says plainly that no node runs the pod", async ({ row, expect }) => {
  await row.given(pod("p", { nodeName: "n97", status: running }));
  expect((await row.kubectl("attach p")).text).toMatchInlineSnapshot(`
    "! If you don't see a command prompt, try pressing enter.
    ! Error from server (NotFound): nodes "n97" not found
    exit 1"
  `);
});

kubectlRow("[98] autoscale makes a HorizontalPodAutoscaler", async ({ row, expect }) => {
  await row.given(deployment("web"));
  expect((await row.kubectl("autoscale deployment web --min=2 --max=5 --cpu-percent=80")).text).toBe(
    "horizontalpodautoscaler.autoscaling/web autoscaled",
  );
  expect(row.stored("autoscaling/horizontalpodautoscalers", "web")).toMatchObject({
    spec: {
      minReplicas: 2,
      maxReplicas: 5,
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "web" },
    },
  });
  expect((await row.kubectl("get hpa")).text).toMatchInlineSnapshot(`
    "NAME   REFERENCE   TARGETS   MINPODS   MAXPODS   REPLICAS   AGE
    web   Deployment/web   cpu: <unknown>/80%   2   5   0   <age>"
  `);
});

kubectlRow("[99] debug puts a pod on the node, and an ephemeral container into the pod", async ({ row, expect }) => {
  await row.given(node("n99"), pod("p", { nodeName: "n99", status: running }));
  const onNode = await row.kubectl("debug node/n99 --image=busybox --profile=general");
  expect(onNode.out.replace(/n99-\w+/, "n99-X")).toBe(
    "Creating debugging pod node-debugger-n99-X with container debugger on node n99.\n",
  );
  const inPod = await row.kubectl("debug p --image=busybox -c look --profile=general");
  expect(inPod.code).toBe(0);
  expect(row.stored("/pods", "p")).toMatchObject({
    spec: { ephemeralContainers: [{ name: "look", image: "busybox" }] },
  });
  expect(row.requests().some((line) => /^PATCH .*\/pods\/p\/ephemeralcontainers/.test(line))).toBe(true);
});

kubectlRow("[100] top says that there are no metrics", async ({ row, expect }) => {
  expect((await row.kubectl("top nodes")).text).toBe("! error: Metrics API not available\nexit 1");
  expect((await row.kubectl("top pods")).text).toBe("! error: Metrics API not available\nexit 1");
});
