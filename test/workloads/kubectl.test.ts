/** Workloads through the real kubectl, the embedded server and simulated nodes. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { schedulerComponent } from "../../src/control/schedule/schedulerComponent.ts";
import { workloads } from "../../src/control/workloads/workloads.ts";
import { hasKubectl, type LiveCluster, liveCluster } from "../nodes/liveCluster.ts";

describe.skipIf(!hasKubectl)("kubectl", { timeout: 60_000 }, () => {
  let cluster: LiveCluster;

  beforeAll(async () => {
    cluster = await liveCluster({ pools: ["cpu=3"], components: [workloads, schedulerComponent()] });
  }, 60_000);
  afterAll(() => cluster.stop());

  /** Runs kubectl, expects success and returns its output. */
  async function kubectl(...args: string[]): Promise<string> {
    const said = await cluster.kubectl(args);
    expect([said.code, said.stderr.replace(/^Warning: .*\n/gm, "")], args.join(" ")).toEqual([0, ""]);
    return said.stdout;
  }

  const apply = async (...objects: object[]): Promise<void> => {
    const input = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects });
    expect((await cluster.kubectl(["apply", "-f", "-"], { input })).code).toBe(0);
  };

  test("a Deployment of twenty is available in seconds, and describe shows its events", async () => {
    await kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=20");
    expect(await kubectl("rollout", "status", "deployment/web", "--timeout=30s")).toContain("successfully rolled out");
    await kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=10s");
    expect(await kubectl("get", "deployment", "web")).toMatch(/web +20\/20 +20 +20/);
    expect(await kubectl("describe", "deployment", "web")).toMatch(
      /ScalingReplicaSet .*Scaled up replica set web-\S+ from 0 to 20/,
    );
  });

  test("events are sorted by their last timestamp, and name the component that they come from", async () => {
    const sorted = await kubectl("get", "events", "--sort-by=.lastTimestamp");
    expect(sorted.split("\n")[1]).toMatch(/^\S+ +(Normal|Warning) /);
    const sources = await kubectl("get", "events", "-o", "jsonpath={.items[*].source.component}");
    expect(sources.split(" ")).toEqual(
      expect.arrayContaining(["default-scheduler", "deployment-controller", "kubelet", "replicaset-controller"]),
    );
    expect(await kubectl("get", "events", "--field-selector=source=kubelet", "-o", "name")).toContain("event/web-");
  });

  test("scale goes down and up again", async () => {
    await kubectl("scale", "deployment/web", "--replicas=3");
    await kubectl("wait", "--for=jsonpath={.status.replicas}=3", "deployment/web", "--timeout=20s");
    await kubectl("scale", "deployment/web", "--replicas=5");
    expect(await kubectl("rollout", "status", "deployment/web", "--timeout=30s")).toContain("successfully rolled out");
    const pods = () => kubectl("get", "pods", "-l", "app=web", "-o", "name");
    await cluster.until(async () => (await pods()).trim().split("\n").length === 5);
  });

  test("rollout: status, history, undo, pause, resume and restart", async () => {
    await kubectl("set", "image", "deployment/web", "nginx=nginx:2");
    expect(await kubectl("rollout", "status", "deployment/web", "--timeout=30s")).toContain("successfully rolled out");
    expect(await kubectl("rollout", "history", "deployment/web")).toMatch(/^1 .*\n2 /m);
    await kubectl("rollout", "undo", "deployment/web");
    await kubectl("rollout", "status", "deployment/web", "--timeout=30s");
    expect(await kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")).toBe(
      "nginx:1",
    );
    expect(await kubectl("rollout", "history", "deployment/web")).toMatch(/^2 .*\n3 /m);
    await kubectl("rollout", "pause", "deployment/web");
    await kubectl("set", "image", "deployment/web", "nginx=nginx:3");
    await cluster.until(async () =>
      (await kubectl("get", "deployment", "web", "-o", "yaml")).includes("DeploymentPaused"),
    );
    expect(await kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={..image}")).not.toContain("nginx:3");
    await kubectl("rollout", "resume", "deployment/web");
    await kubectl("rollout", "status", "deployment/web", "--timeout=30s");
    await kubectl("rollout", "restart", "deployment/web");
    expect(await kubectl("rollout", "status", "deployment/web", "--timeout=30s")).toContain("successfully rolled out");
  });

  test("a Service has its pods as endpoints", async () => {
    await kubectl("expose", "deployment", "web", "--port=80");
    await cluster.until(async () => /web +10\..*:80/.test((await cluster.kubectl(["get", "endpoints", "web"])).stdout));
    expect(await kubectl("get", "endpointslices", "-l", "kubernetes.io/service-name=web")).toMatch(
      /web-\S+ +IPv4 +80 +10\./,
    );
  });

  test("StatefulSets and DaemonSets roll out", async () => {
    const labels = { app: "set" };
    const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i:1" }] } };
    const set = (kind: string, name: string, spec: object) => ({
      apiVersion: "apps/v1",
      kind,
      metadata: { name, namespace: "default" },
      spec: { selector: { matchLabels: labels }, template, ...spec },
    });
    await apply(set("StatefulSet", "db", { replicas: 3, serviceName: "db" }));
    expect(await kubectl("rollout", "status", "statefulset/db", "--timeout=40s")).toMatch(/complete|roll out complete/);
    await kubectl("set", "image", "statefulset/db", "c=i:2");
    await kubectl("rollout", "status", "statefulset/db", "--timeout=40s");
    expect(await kubectl("rollout", "history", "statefulset/db")).toMatch(/^1 .*\n2 /m);
    await kubectl("delete", "statefulset", "db");
    await apply(set("DaemonSet", "agent", {}));
    expect(await kubectl("rollout", "status", "daemonset/agent", "--timeout=40s")).toContain("successfully rolled out");
    await kubectl("set", "image", "daemonset/agent", "c=i:2");
    await kubectl("rollout", "status", "daemonset/agent", "--timeout=40s");
    await kubectl("rollout", "undo", "daemonset/agent");
    await kubectl("rollout", "status", "daemonset/agent", "--timeout=40s");
    expect(await kubectl("get", "daemonset", "agent", "-o", "jsonpath={..image}")).toBe("i:1");
    expect(await kubectl("get", "daemonset", "agent")).toMatch(/agent +3 +3 +3 +3 +3/);
  });

  test("Jobs complete, by hand and from a CronJob", async () => {
    await kubectl("create", "job", "once", "--image=busybox", "--", "true");
    await kubectl("wait", "--for=condition=complete", "job/once", "--timeout=40s");
    await kubectl("create", "cronjob", "tick", "--image=busybox", "--schedule=*/5 * * * *", "--", "true");
    await kubectl("create", "job", "now", "--from=cronjob/tick");
    await kubectl("wait", "--for=condition=complete", "job/now", "--timeout=40s");
    expect(await kubectl("get", "job", "now")).toMatch(/now +Complete +1\/1/);
    expect(await kubectl("describe", "job", "once")).toMatch(/Completed .*Job completed/);
  });

  test("Jobs succeed and fail as their commands do", async () => {
    const job = (name: string, spec: object, ...command: string[]) => ({
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name },
      spec: {
        ...spec,
        template: { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "busybox", command }] } },
      },
    });
    const odd = "if [ $(expr $JOB_COMPLETION_INDEX % 2) -ne 0 ]; then exit 1; else exit 0; fi";
    await apply(
      job("failing", { backoffLimit: 0 }, "sh", "-c", "echo broken; exit 3"),
      job("pausing", {}, "sleep", "infinity"),
      job(
        "odd-fail",
        { completionMode: "Indexed", completions: 4, parallelism: 4, backoffLimitPerIndex: 0 },
        ...["sh", "-c", odd],
      ),
    );
    await kubectl("wait", "--for=condition=failed", "job/failing", "job/odd-fail", "--timeout=40s");
    expect(await kubectl("logs", "job/failing")).toBe("broken\n");
    expect(await kubectl("get", "pods", "-l", "job-name=failing", "-o", "jsonpath={..exitCode}")).toBe("3");
    const indexes = "jsonpath={.status.completedIndexes} {.status.failedIndexes}";
    expect(await kubectl("get", "job", "odd-fail", "-o", indexes)).toBe("0,2 1,3");
    expect(await kubectl("get", "job", "pausing", "-o", "jsonpath={.status.active}")).toBe("1");
    await kubectl("delete", "job", "failing", "pausing", "odd-fail", "--wait=false");
  });

  test("a drained node is empty, the budget held, and uncordon brings it back", async () => {
    await kubectl("scale", "deployment/web", "--replicas=6");
    await kubectl("rollout", "status", "deployment/web", "--timeout=30s");
    await kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=3");
    await cluster.until(async () => /web +3 +N\/A +3/.test((await cluster.kubectl(["get", "pdb", "web"])).stdout));
    const node = (await kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")).trim();
    const drained = await cluster.kubectl([
      "drain",
      node,
      "--ignore-daemonsets",
      "--delete-emptydir-data",
      "--force",
      "--timeout=60s",
    ]);
    expect([drained.code, drained.stdout]).toEqual([0, expect.stringContaining(`node/${node} drained`)]);
    expect(await kubectl("get", "node", node)).toContain("SchedulingDisabled");
    const left = await kubectl(
      "get",
      "pods",
      "-l",
      "app=web",
      "--field-selector",
      `spec.nodeName=${node}`,
      "-o",
      "name",
    );
    expect(left).toBe("");
    await kubectl("rollout", "status", "deployment/web", "--timeout=30s");
    await kubectl("uncordon", node);
    await cluster.until(async () => !(await kubectl("get", "node", node)).includes("SchedulingDisabled"));
  });

  test("a cordoned node keeps what runs there and gets nothing new until it is uncordoned", async () => {
    await kubectl("scale", "deployment/web", "--replicas=6");
    await kubectl("rollout", "status", "deployment/web", "--timeout=30s");
    const names = (await kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")).split(" ");
    const [node = "", ...others] = names;
    const on = async (name: string): Promise<string[]> => {
      const selected = ["-l", "app=web", "--field-selector", `spec.nodeName=${name}`, "-o", "name"];
      return (await kubectl("get", "pods", ...selected)).split("\n").filter((line) => line !== "");
    };
    const before = await on(node);
    expect(await kubectl("cordon", node)).toBe(`node/${node} cordoned\n`);
    expect(await kubectl("cordon", node)).toBe(`node/${node} already cordoned\n`);
    expect(await kubectl("get", "node", node)).toContain("Ready,SchedulingDisabled");
    expect(await kubectl("describe", "node", node)).toMatch(/Unschedulable: +true/);
    await kubectl("scale", "deployment/web", "--replicas=12");
    await kubectl("rollout", "status", "deployment/web", "--timeout=30s");
    expect(await on(node)).toEqual(before);
    // With all nodes cordoned a pod is pending with the reason; the first node that is uncordoned gets it.
    await kubectl("cordon", ...others);
    await kubectl("run", "late", "--image=nginx:1");
    await cluster.until(async () => (await kubectl("describe", "pod", "late")).includes("FailedScheduling"));
    expect(await kubectl("describe", "pod", "late")).toContain("3 node(s) are not ready or cordoned");
    expect(await kubectl("uncordon", node)).toBe(`node/${node} uncordoned\n`);
    await kubectl("wait", "--for=condition=Ready", "pod/late", "--timeout=30s");
    expect(await kubectl("get", "pod", "late", "-o", "jsonpath={.spec.nodeName}")).toBe(node);
    await kubectl("uncordon", ...others);
    await kubectl("delete", "pod", "late", "--timeout=30s");
  });

  test("a deleted Deployment deletes its ReplicaSets and pods", async () => {
    await kubectl("delete", "deployment", "web", "--timeout=30s");
    await kubectl("wait", "--for=delete", "pod", "-l", "app=web", "--timeout=40s");
    expect(await kubectl("get", "replicasets", "-o", "name")).toBe("");
    expect(cluster.log.errors).toEqual([]);
  });
});
