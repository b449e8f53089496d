import type { PodAgent } from "../../../src/ports/podAgent.ts";
import { podAgent } from "../../../testing/apiserver/podAgent.ts";
import type { Manifest } from "../changeCluster.ts";
import { kubectlRows } from "./kubectlRows.ts";
import { deployment, node, pod, running } from "./manifests.ts";

// Rows 74 to 83: describe, events, logs, and node maintenance.
//
//   74 describe pod          77 events, get events    80 cordon    82 taint
//   75 describe node         78 logs                  81 uncordon  83 drain
//   76 describe deployment,  79 logs -f
//      job

/** A log whose text names the request; a followed log gets one more line when the test adds it. */
class ToldLog {
  private readonly more: (() => void)[] = [];

  readonly agent = podAgent({ log: (...args) => this.log(...args) });

  private async *log(...[pod, options, stopped]: Parameters<PodAgent["log"]>): AsyncIterable<string> {
    const lines = [`first of ${pod.metadata.name}`, `second of ${options.container}`, "third"];
    const wanted = options.tailLines === undefined ? lines : lines.slice(-options.tailLines);
    for (const line of wanted) yield `${options.timestamps ? "2026-01-01T00:00:00Z " : ""}${line}\n`;
    if (!options.follow) return;
    const aborted = new Promise<boolean>((done) => stopped.onCancel(() => done(false)));
    while (await Promise.race([new Promise<boolean>((done) => this.more.push(() => done(true))), aborted])) {
      yield "and one more\n";
    }
  }

  say(): void {
    for (const done of this.more.splice(0)) done();
  }
}

const told = new ToldLog();
const kubectlRow = kubectlRows("observing", { agent: told.agent });

/** An event as a kubelet or a scheduler would write it. */
function event(
  name: string,
  about: { kind: string; name: string; uid?: string },
  reason: string,
  message: string,
): Manifest {
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name },
    involvedObject: { apiVersion: "v1", namespace: "$namespace", ...about },
    reason,
    message,
    type: reason === "Failed" ? "Warning" : "Normal",
    source: { component: "kubelet" },
    firstTimestamp: "2026-01-01T00:00:00Z",
    lastTimestamp: "2026-01-01T00:00:05Z",
    count: 2,
  };
}

function within(namespace: string, made: Manifest): Manifest {
  return JSON.parse(JSON.stringify(made).replaceAll("$namespace", namespace)) as Manifest;
}

/** Ages differ by day; the labels stay. */
function ageless(text: string): string {
  return text
    .replace(/\b\d+[smhdy](\d+[smhd])?\b/g, "<age>")
    .replace(/<age> \(x(\d+) over <age>\)/g, "<age> (x$1 over <age>)");
}

kubectlRow("[74] describe pod shows the pod and its events", async ({ row, expect }) => {
  await row.given(pod("p", { nodeName: "n74", labels: { app: "p" }, status: running }));
  await row.given(
    within(row.namespace, event("p.1", { kind: "Pod", name: "p", uid: "$uid(/pods/p)" }, "Pulled", "image is here")),
  );
  const { text } = await row.kubectl("describe pod p");
  await expect(ageless(text)).toMatchFileSnapshot("golden/describe-pod.txt");
  const asked = row.requests();
  expect(asked.slice(0, 2)).toEqual(["GET /api/v1/namespaces/row-74/pods/p", "GET /api/v1/namespaces/row-74/pods/p"]);
  // Kubectl names the parts of this selector in any order.
  expect(asked[2]).toMatch(
    /^GET \/api\/v1\/namespaces\/row-74\/events\?fieldSelector=.*involvedObject\.uid%3D.*&limit=500$/,
  );
});

kubectlRow("[75] describe node shows its pods, what they ask for, and its lease", async ({ row, expect }) => {
  await row.given(node("n75"), {
    ...pod("p", { nodeName: "n75" }),
    spec: {
      nodeName: "n75",
      containers: [
        { name: "c", image: "a", resources: { limits: { cpu: "2", memory: "4Gi", "nvidia.com/gpu": "1" } } },
      ],
    },
  });
  await row.given({
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: "n75", namespace: "kube-node-lease" },
    spec: { holderIdentity: "n75", leaseDurationSeconds: 40, renewTime: "2026-01-01T00:00:00.000000Z" },
  });
  const { text } = await row.kubectl("describe node n75");
  await expect(ageless(text)).toMatchFileSnapshot("golden/describe-node.txt");
  expect(row.requests()).toContain("GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n75");
  expect(row.requests().some((line) => line.includes("fieldSelector=spec.nodeName%3Dn75"))).toBe(true);
});

kubectlRow("[76] describe deployment and describe job", async ({ row, expect }) => {
  await row.given(
    deployment("web", { replicas: 2, status: { observedGeneration: 1, replicas: 2, updatedReplicas: 2 } }),
    {
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name: "once" },
      spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "busybox" }] } } },
    },
  );
  await expect((await row.kubectl("describe deployment web")).text).toMatchFileSnapshot(
    "golden/describe-deployment.txt",
  );
  await expect((await row.kubectl("describe job once")).text).toMatchFileSnapshot("golden/describe-job.txt");
});

kubectlRow("[77] events and get events show what happened to whom", async ({ row, expect }) => {
  await row.given(pod("p"));
  await row.given(within(row.namespace, event("p.1", { kind: "Pod", name: "p" }, "Pulled", "image is here")));
  await row.given(within(row.namespace, event("q.1", { kind: "Pod", name: "q" }, "Failed", "no such image")));
  expect(ageless((await row.kubectl("get events")).text)).toMatchInlineSnapshot(`
    "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE
    <age>   Normal   Pulled   pod/p   image is here
    <age>   Warning   Failed   pod/q   no such image"
  `);
  expect(ageless((await row.kubectl("events")).text)).toMatchInlineSnapshot(`
    "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE
    <age> (x2 over <age>)   Normal   Pulled   Pod/p   image is here
    <age> (x2 over <age>)   Warning   Failed   Pod/q   no such image"
  `);
  expect(ageless((await row.kubectl("events --for pod/p --types=Normal")).text)).toMatchInlineSnapshot(`
    "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE
    <age> (x2 over <age>)   Normal   Pulled   Pod/p   image is here"
  `);
  expect((await row.kubectl("get events --field-selector reason=Failed,involvedObject.kind=Pod -o name")).text).toBe(
    "event/q.1",
  );
});

kubectlRow(
  "[78] logs prints what the node says, of the container and as many lines as asked",
  async ({ row, expect }) => {
    await row.given(pod("p", { nodeName: "n78", status: running }), pod("unscheduled"), {
      ...pod("two"),
      spec: {
        nodeName: "n78",
        containers: [
          { name: "a", image: "x" },
          { name: "b", image: "x" },
        ],
      },
    });
    expect((await row.kubectl("logs p")).text).toBe("first of p\nsecond of main\nthird");
    expect((await row.kubectl("logs two -c b --tail=2 --timestamps")).text).toBe("<time> second of b\n<time> third");
    expect((await row.kubectl("logs two -c nope")).text).toBe(
      `! error: container nope is not valid for pod two\nexit 1`,
    );
    expect((await row.kubectl("logs none")).text).toBe(
      `! error: error from server (NotFound): pods "none" not found in namespace "row-78"\nexit 1`,
    );
    expect((await row.kubectl("logs unscheduled")).text).toBe(
      "! Error from server (BadRequest): pod unscheduled does not have a host assigned\nexit 1",
    );
    expect(row.requests().at(-1)).toBe("GET /api/v1/namespaces/row-78/pods/unscheduled/log?container=main");
  },
);

kubectlRow("[79] logs -f stays and prints lines as they come", async ({ row, expect }) => {
  await row.given(pod("p", { nodeName: "n79", status: running }));
  const follow = row.start("logs -f p");
  await follow.until((out) => out.includes("third\n"));
  told.say();
  const { out } = await follow.until((text) => text.includes("one more\n"));
  expect(out).toBe("first of p\nsecond of main\nthird\nand one more\n");
  expect(row.requests().at(-1)).toBe("GET /api/v1/namespaces/row-79/pods/p/log?container=main&follow=true");
});

kubectlRow("[80] cordon marks the node", async ({ row, expect }) => {
  await row.given(node("n80"));
  expect((await row.kubectl("cordon n80")).text).toBe("node/n80 cordoned");
  expect(row.stored("/nodes", "n80")).toMatchObject({ spec: { unschedulable: true } });
  expect((await row.kubectl("cordon n80")).text).toBe("node/n80 already cordoned");
  expect((await row.kubectl("get node n80")).out).toContain("Ready,SchedulingDisabled");
});

kubectlRow("[81] uncordon takes the mark away", async ({ row, expect }) => {
  await row.given({ ...node("n81"), spec: { unschedulable: true } });
  expect((await row.kubectl("uncordon n81")).text).toBe("node/n81 uncordoned");
  expect(row.stored("/nodes", "n81")?.["spec"] ?? {}).not.toHaveProperty("unschedulable");
});

kubectlRow("[82] taint adds, refuses to overwrite, and removes", async ({ row, expect }) => {
  await row.given(node("n82"));
  expect((await row.kubectl("taint node n82 gpu=true:NoSchedule")).text).toBe("node/n82 tainted");
  expect(row.stored("/nodes", "n82")).toMatchObject({
    spec: { taints: [{ key: "gpu", value: "true", effect: "NoSchedule" }] },
  });
  expect((await row.kubectl("taint node n82 gpu=false:NoSchedule")).text).toBe(
    "! error: node n82 already has gpu taint(s) with same effect(s) and --overwrite is false\nexit 1",
  );
  expect((await row.kubectl("taint node n82 gpu:NoSchedule-")).text).toBe("node/n82 untainted");
  expect(row.stored("/nodes", "n82")?.["spec"] ?? {}).not.toHaveProperty("taints");
});

kubectlRow(
  "[83] drain evicts, waits for the budget that blocks, and goes on when it allows",
  async ({ row, expect }) => {
    const labels = { app: "web" };
    const owner = {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      name: "web",
      uid: "$uid(apps/replicasets/web)",
      controller: true,
    };
    const of = (name: string): Manifest => {
      const made = pod(name, { nodeName: "n83", labels, status: running });
      return { ...made, metadata: { ...made.metadata, ownerReferences: [owner] } };
    };
    await row.given(
      node("n83"),
      {
        apiVersion: "apps/v1",
        kind: "ReplicaSet",
        metadata: { name: "web" },
        spec: {
          replicas: 1,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "nginx" }] } },
        },
      },
      of("web-1"),
      {
        apiVersion: "policy/v1",
        kind: "PodDisruptionBudget",
        metadata: { name: "web" },
        spec: { minAvailable: 1, selector: { matchLabels: labels } },
      },
      pod("bare", { nodeName: "n83" }),
    );
    const refused = await row.kubectl("drain n83 --pod-selector=app!=web");
    expect(refused.err).toContain(
      "cannot delete Pods that declare no controller (use --force to override): row-83/bare",
    );
    await row.removed(pod("bare"));

    const drain = row.start("drain n83");
    const blocked = await drain.until((_, err) => err.includes("will retry"));
    expect(blocked.err).toContain(
      `error when evicting pods/"web-1" -n "row-83" (will retry after <age>): Cannot evict pod as it would violate the pod's disruption budget.`,
    );
    expect(row.stored("/pods", "web-1")?.metadata).not.toHaveProperty("deletionTimestamp");
    // A second pod elsewhere makes room in the budget.
    await row.given({ ...of("web-2"), spec: { ...(of("web-2")["spec"] as object), nodeName: "elsewhere" } });
    await row.patched({ apiVersion: "apps/v1", kind: "ReplicaSet", metadata: { name: "web" }, spec: { replicas: 2 } });
    await row.observed(() => row.stored("/pods", "web-1")?.metadata.deletionTimestamp !== undefined);
    expect(row.stored("/pods", "web-1")).toMatchObject({
      status: {
        conditions: expect.arrayContaining([expect.objectContaining({ type: "DisruptionTarget", status: "True" })]),
      },
    });
    await row.removed(of("web-1"));
    const { text, code } = await drain.ended();
    expect(code).toBe(0);
    expect(text).toContain("node/n83 drained");
    expect(row.stored("/nodes", "n83")).toMatchObject({ spec: { unschedulable: true } });
    expect(row.stored("/pods", "web-2")).toBeDefined();
  },
);
