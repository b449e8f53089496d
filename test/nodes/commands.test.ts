/** Containers that play their command, through the real kubectl and the embedded server. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { builtin } from "../../src/model/resources.generated.ts";
import { hasKubectl, type LiveCluster, liveCluster } from "./liveCluster.ts";
import { podOf } from "./nodesCluster.ts";

describe.skipIf(!hasKubectl)("kubectl", () => {
  let cluster: LiveCluster;
  const kubectl = (...args: string[]) => cluster.kubectl(args);
  /** Without a scheduler: pods name their node. */
  const onNode = '--overrides={"spec": {"nodeName": "h100-0"}}';

  beforeAll(async () => {
    cluster = await liveCluster({ pools: ["h100=1"] });
    await cluster.admin.create(builtin.ServiceAccount, {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "default", namespace: "default" },
    } as never);
  });
  afterAll(() => cluster.stop());

  const create = (name: string, script: string, spec: object = {}) => {
    const containers = [{ name: "c", image: "busybox", command: ["sh", "-c", script] }];
    return cluster.admin.create(builtin.Pod, podOf(name, { restartPolicy: "Never", containers, ...spec }) as never);
  };
  const phaseOf = async (name: string) => (await kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")).stdout;

  test.each([[["--restart=Never"]], [[]]])("run --rm -i prints the output of its command, with %j", async (flags) => {
    const name = `tmp${flags.length}`;
    const { stdout } = await cluster.kubectl(
      ["run", "--rm", "-i", name, "--image=busybox", onNode, ...flags, "--", "echo", "hi"],
      { input: "" },
    );
    expect(stdout).toMatch(/^hi\r?\n/);
    await cluster.until(async () => (await kubectl("get", "pod", name)).code === 1);
  });

  test("run has the exit code of its command", async () => {
    const { code } = await kubectl(
      ...["run", "--rm", "-i", "failing", "--image=busybox", "--restart=Never", onNode],
      ...["--command", "--", "sh", "-c", "echo no; exit 3"],
    );
    expect(code).toBe(3);
  });

  test("logs are the output of the command, and follow it to its end", async () => {
    await create("counter", "for i in 1 2 3; do echo $i; sleep 1; done; echo done >&2");
    await cluster.until(async () => (await phaseOf("counter")) !== "Pending");
    expect((await kubectl("logs", "-f", "counter")).stdout).toBe("1\n2\n3\ndone\n");
    await cluster.until(async () => (await phaseOf("counter")) === "Succeeded");
    expect((await kubectl("logs", "counter", "--tail=1")).stdout).toBe("done\n");
  });

  test("a command that fails fails its pod, with its last words as message", async () => {
    await create("broken", "echo cannot open model > /dev/termination-log; exit 4");
    await cluster.until(async () => (await phaseOf("broken")) === "Failed");
    const { stdout } = await kubectl(
      "get",
      "pod",
      "broken",
      "-o",
      "jsonpath={..terminated.exitCode} {..terminated.message}",
    );
    expect(stdout).toBe("4 cannot open model\n");
  });

  test("a pod such as helm test creates completes", async () => {
    await create("test-connection", 'test "$(hostname)" = test-connection && echo ok', {
      restartPolicy: "Never",
    });
    await cluster.until(async () => (await phaseOf("test-connection")) === "Succeeded");
    expect((await kubectl("logs", "test-connection")).stdout).toBe("ok\n");
  });

  test("exec shares the files of the container's main process", async () => {
    await create("files", "echo written > /tmp/f; sleep infinity");
    await cluster.until(async () => (await phaseOf("files")) === "Running");
    expect((await kubectl("exec", "files", "--", "cat", "/tmp/f")).stdout).toBe("written\n");
    await kubectl("exec", "files", "--", "touch", "/tmp/marker");
    expect((await kubectl("exec", "files", "--", "test", "-e", "/tmp/marker")).code).toBe(0);
    expect((await kubectl("exec", "files", "--", "sh", "-c", "exit 5")).code).toBe(5);
  });

  test("cp is refused, because the container is simulated", async () => {
    const { code, stdout } = await kubectl("cp", "files:/tmp/f", "/dev/null");
    expect([code, stdout]).toEqual([127, expect.stringContaining("this container is simulated")]);
  });
});
