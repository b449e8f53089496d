/** Simulated nodes through the real kubectl and the embedded server. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { builtin } from "../../src/model/resources.generated.ts";
import { hasKubectl, type LiveCluster, liveCluster } from "./liveCluster.ts";
import { podOf, withGpus } from "./nodesCluster.ts";

describe.skipIf(!hasKubectl)("kubectl", () => {
  let cluster: LiveCluster;

  beforeAll(async () => {
    cluster = await liveCluster({ pools: ["h100=2"] });
    const annotations = {
      "sim.muster.dev/log": "hello\nworld",
      "sim.muster.dev/exec": '{"ask": {"stdout": "42\\n", "exitCode": 3}}',
      "kwok.x-k8s.io/usage-cpu": "250m",
      "kwok.x-k8s.io/usage-memory": "64Mi",
    };
    const create = (object: object) => cluster.admin.create(builtin.Pod, object as never);
    await create(podOf("p", { ...withGpus(2), hostname: "trainer" }, { annotations, labels: { app: "p" } }));
    await create(podOf("crash", { restartPolicy: "Always" }, { annotations: { "sim.muster.dev/outcome": "Error" } }));
    await cluster.until(async () => (await cluster.kubectl(["get", "pod", "p"])).stdout.includes("Running"));
  });
  afterAll(() => cluster.stop());

  test("nodes are Ready, with address and versions", async () => {
    const { stdout } = await cluster.kubectl(["get", "nodes", "-o", "wide"]);
    expect(stdout).toMatch(/h100-0 +Ready .* v1\.36\.0 +172\.16\.0\.1 /);
    const described = await cluster.kubectl(["describe", "node", "h100-0"]);
    expect(described.stdout).toMatch(/nvidia.com\/gpu: +8/);
    expect(described.stdout).toMatch(/Lease:\s+HolderIdentity: +muster/);
    expect(described.stdout).toMatch(/default +p /);
  });

  test("logs, whole, from the end and with times", async () => {
    expect((await cluster.kubectl(["logs", "p"])).stdout).toBe("hello\nworld\n");
    expect((await cluster.kubectl(["logs", "p", "--tail=1"])).stdout).toBe("world\n");
    expect((await cluster.kubectl(["logs", "p", "--timestamps", "--tail=1"])).stdout).toMatch(/^20\d\d-.*Z world\n$/);
    expect((await cluster.kubectl(["logs", "p", "--limit-bytes=3"])).stdout).toBe("hel");
    const previous = await cluster.kubectl(["logs", "p", "--previous"]);
    expect([previous.code, previous.stderr]).toEqual([
      1,
      'Error from server (BadRequest): previous terminated container "c" in pod "p" not found\n',
    ]);
  });

  test("logs of a run that failed, and of the one before", async () => {
    await cluster.until(async () => (await cluster.kubectl(["logs", "crash", "--previous"])).code === 0);
    expect((await cluster.kubectl(["logs", "crash", "--previous"])).stdout).toMatch(/fatal: exit code 1\n$/);
  });

  test.each([
    ["WebSocket", {}],
    ["SPDY", { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: "false" }],
  ])("commands are answered without running, over %s", async (_, env) => {
    const exec = (args: string[], input?: string) =>
      cluster.kubectl(["exec", ...(input === undefined ? [] : ["-i"]), "p", "--", ...args], {
        env: env as Record<string, string>,
        ...(input === undefined ? {} : { input }),
      });
    expect(await exec(["hostname"])).toEqual({ stdout: "trainer\n", stderr: "", code: 0 });
    expect(await exec(["sh", "-c", "echo $HOSTNAME && false; echo 'a  b' ; exit 4"])).toEqual({
      stdout: "trainer\na  b\n",
      stderr: "command terminated with exit code 4\n",
      code: 4,
    });
    expect(await exec(["ask"])).toEqual({ stdout: "42\n", stderr: "command terminated with exit code 3\n", code: 3 });
    const smi = await exec(["nvidia-smi", "-L"]);
    expect(smi.stdout).toMatch(/^GPU 0: NVIDIA H100 80GB HBM3 \(UUID: GPU-[0-9a-f-]+\)\nGPU 1: .*\n$/);
    const query = await exec(["nvidia-smi", "--query-gpu=index,memory.total", "--format=csv,noheader,nounits"]);
    expect(query.stdout).toBe("0, 81559\n1, 81559\n");
    const missing = await exec(["make", "all"]);
    expect([missing.code, missing.stderr]).toEqual([127, expect.stringContaining("this container is simulated")]);
    expect((await exec(["env"])).stdout).toMatch(/^NVIDIA_VISIBLE_DEVICES=GPU-.*,GPU-/m);
    expect(await exec(["sh"], "echo one\nhostname\nexit 5\n")).toEqual({
      stdout: "one\ntrainer\n",
      stderr: "command terminated with exit code 5\n",
      code: 5,
    });
    expect((await exec(["cat"], "typed\n")).stdout).toBe("typed\n");
  });

  test("a container that does not run takes no command", async () => {
    const unknown = await cluster.kubectl(["exec", "p", "-c", "other", "--", "ls"]);
    expect([unknown.code, unknown.stderr]).toEqual([
      1,
      expect.stringContaining("container other is not valid for pod p"),
    ]);
  });

  test("port-forward is refused with the reason", async () => {
    const { code, stderr } = await cluster.kubectl(["port-forward", "pod/p", ":80"]);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining("simulated nodes and their containers listen on no port"),
    ]);
  });

  test("top shows nodes and pods", async () => {
    const node = await cluster.kubectl(["top", "node", "h100-0"]);
    expect(node.stdout).toMatch(/^NAME +CPU\(cores\) +CPU\(%\) .*\nh100-0 +\d+m +\d+% +\d+Mi +\d+%/);
    const pod = await cluster.kubectl(["top", "pod", "p", "--containers"]);
    expect(pod.stdout).toMatch(/p +c +250m +64Mi/);
    expect((await cluster.kubectl(["top", "pod", "-l", "app=p"])).stdout).toMatch(/^NAME.*\np +250m +64Mi/);
  });

  test("a pod is deleted after its grace", async () => {
    await cluster.admin.create(builtin.Pod, podOf("short") as never);
    await cluster.until(async () => (await cluster.kubectl(["get", "pod", "short"])).stdout.includes("Running"));
    expect((await cluster.kubectl(["delete", "pod", "short", "--timeout=20s"])).stdout).toContain(
      'pod "short" deleted',
    );
  });

  test("events report the steps of a pod", async () => {
    const { stdout } = await cluster.kubectl(["describe", "pod", "crash"]);
    expect(stdout).toMatch(/Warning +BackOff .*kubelet.*Back-off restarting failed container/);
    expect(stdout).toMatch(/Normal +Started .*kubelet/);
  });
});
