/** Real kubelets as nodes of `muster up`. `npm run test:nodes` runs it. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { gpusOfNode } from "./kit/cluster.ts";
import { Lab } from "./kit/lab.ts";
import { isReadyPod, isRunning, podObject, podSpec, waits } from "./kit/objects.ts";
import { peer, whyNot } from "./kit/peers.ts";
import { ran, until } from "./kit/processes.ts";

const reason = whyNot();
test.runIf(reason !== undefined)(`real nodes cannot be started: ${reason}`, ({ skip }) => skip(reason));

const folder = process.env["MUSTER_REAL_FOLDER"] ?? mkdtempSync(join(tmpdir(), "muster-lab-"));
const isLong = process.env["MUSTER_LONG"] === "1";

describe.runIf(reason === undefined)("real nodes of muster up", () => {
  const lab = new Lab(folder);
  const [first, second] = lab.nodes;
  beforeAll(() => lab.start());
  afterAll(async () => {
    await lab.describe("last-state.txt");
    await lab.stop();
  });

  const script = `echo REAL-LOG-LINE; mkdir -p /www; echo hello-page > /www/index.html; httpd -p 8080 -h /www; ${waits}`;
  const plain = (name: string, more: object = {}): object =>
    podObject(name, { scheduler: "default-scheduler", script, labels: { app: name }, spec: more });

  /** Applies pods and waits until they are ready. */
  async function running(...objects: readonly object[]): Promise<void> {
    await lab.apply(...objects);
    const names = objects.map((object) => (object as { metadata: { name: string } }).metadata.name);
    await until(
      async () => {
        const ready = (await lab.pods()).filter(isReadyPod).map(({ metadata }) => metadata.name);
        return names.every((name) => ready.includes(name));
      },
      90_000,
      () => lab.kubectl("get", "pods,events", "-o", "wide"),
    );
  }

  async function emptied(): Promise<void> {
    await lab.kubectl("delete", "deployments,pods,services", "--all", "--wait=false");
    await until(
      async () => (await lab.pods()).length === 0,
      90_000,
      () => lab.kubectl("get", "pods"),
    );
  }

  afterEach(async ({ task }) => {
    // Pods of a suite are shared by its tests.
    if (task.suite?.name !== "what reaches the kubelet") await emptied();
  });

  describe("joining", () => {
    test("each node has its own identity, by a bootstrap token and an approved request", async () => {
      const requests = await lab.kubectl(
        "get",
        "csr",
        "-o",
        "custom-columns=:.spec.username,:.status.conditions[0].type",
      );
      expect(requests.match(/system:bootstrap:[a-z0-9]{6}\s+Approved/g)).toHaveLength(2);
      const who = await ran(peer("kubectl"), [
        "--kubeconfig",
        lab.credentialsOf(first!),
        "auth",
        "whoami",
        "-o",
        "json",
      ]);
      expect(JSON.parse(who)).toMatchObject({ status: { userInfo: { username: "system:node:real-1" } } });
      const { out } = await lab.muster("node", "ls", "-o", "json");
      const { nodes } = JSON.parse(out) as { nodes: object[] };
      expect(nodes).toMatchObject([
        { name: "real-1", kind: "real", status: "Ready" },
        { name: "real-2", kind: "real", status: "Ready" },
      ]);
    });

    test("the script that it prints is a shell script with the same files, and another network for each node", async () => {
      const [one, two] = [await lab.joinOutput("gpu-1"), await lab.joinOutput("gpu-2")];
      const file = join(folder, "join.sh");
      writeFileSync(file, one.script);
      await ran("sh", ["-n", file]);
      for (const { path, content } of one.files) {
        expect(one.script).toContain(`put ${path} `);
        expect(one.script).toContain(content);
      }
      expect(one.podCidr).not.toBe(two.podCidr);
    });

    test("a node's key reads and changes only what is its own", async () => {
      await running(plain("of-two", { nodeName: second!.name }));
      const asNode = (...args: string[]): Promise<string> =>
        ran(peer("kubectl"), ["--kubeconfig", lab.credentialsOf(first!), ...args]);
      for (const refused of [
        ["get", "secrets", "-A"],
        ["label", "node", second!.name, "hacked=yes"],
        ["delete", "pod", "of-two", "--dry-run=server"],
        ["create", "token", "default", "-n", "kube-system"],
      ])
        await expect(asNode(...refused)).rejects.toThrow(/forbidden/i);
      await asNode("label", "node", first!.name, "muster.dev/own=yes");
    });
  });

  describe("what reaches the kubelet", () => {
    beforeAll(() => running(plain("one"), plain("other")));
    afterAll(emptied);

    test("logs are those of the container, followed too", async () => {
      expect(await lab.kubectl("logs", "one")).toBe("REAL-LOG-LINE\n");
      expect(await lab.kubectl("logs", "one", "--timestamps")).toMatch(/^\d{4}-\S+Z REAL-LOG-LINE\n$/);
      const previous = await lab.tried(["logs", "one", "--previous"]);
      expect(previous).toMatchObject({ code: 1, err: expect.stringContaining("previous terminated container") });
      await running(
        podObject("talks", { scheduler: "default-scheduler", script: `echo now; sleep 4; echo later; ${waits}` }),
      );
      expect(await firstLines(lab, ["logs", "-f", "talks"], 2)).toEqual(["now", "later"]);
    });

    test.each([
      ["WebSocket", {}],
      ["SPDY", { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: "false" }],
    ])("exec runs in the container, over %s", async (_, env) => {
      const ended = await lab.tried(["exec", "one", "--", "sh", "-c", "hostname; echo problem >&2; exit 7"], { env });
      expect(ended).toMatchObject({ code: 7, out: "one\n", err: expect.stringContaining("problem\n") });
      const input = "line of input\n".repeat(100_000);
      expect((await lab.tried(["exec", "-i", "one", "--", "cat"], { env, input })).out).toBe(input);
      const missing = await lab.tried(["exec", "one", "--", "no-such-program"], { env });
      expect(missing).toMatchObject({ code: 1, err: expect.stringContaining("no-such-program") });
    });

    test("cp copies both ways", async () => {
      const [from, back] = [join(folder, "copied"), join(folder, "copied-back")];
      const bytes = Buffer.from(Array.from({ length: 300_000 }, (__, at) => (at * 7919) % 251));
      writeFileSync(from, bytes);
      await lab.kubectl("cp", from, "one:/tmp/copied");
      await lab.kubectl("cp", "one:/tmp/copied", back);
      expect(readFileSync(back).equals(bytes)).toBe(true);
    });

    test.each([
      ["WebSocket", {}],
      ["SPDY", { KUBECTL_PORT_FORWARD_WEBSOCKETS: "false" }],
    ])("port-forward reaches the container's port, over %s", async (_, env) => {
      const forwarding = start(lab, ["port-forward", "pod/one", ":8080"], env);
      try {
        const port = await forwarding.until(/127\.0\.0\.1:(\d+) ->/);
        for (let round = 0; round < 5; round++)
          expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("hello-page\n");
      } finally {
        forwarding.stop();
      }
    });

    test("attach shows what the container writes from then on", async () => {
      const ticking = podObject("ticks", {
        scheduler: "default-scheduler",
        script: "while true; do echo tick; sleep 1; done",
      });
      await running(ticking);
      expect(await firstLines(lab, ["attach", "ticks"], 2)).toEqual(["tick", "tick"]);
    });

    test("proxies lead to the kubelet, to a pod and to a Service", async () => {
      expect(await lab.kubectl("get", "--raw", "/api/v1/nodes/real-1/proxy/healthz")).toBe("ok");
      expect(await lab.kubectl("get", "--raw", "/api/v1/nodes/real-1:10250/proxy/metrics/resource")).toContain(
        "node_cpu",
      );
      const pods = "/api/v1/namespaces/default/pods";
      expect(await lab.kubectl("get", "--raw", `${pods}/one:8080/proxy/`)).toBe("hello-page\n");
      await lab.kubectl("expose", "pod", "one", "--port", "80", "--target-port", "8080");
      await until(async () => (await lab.kubectl("get", "endpointslices")).includes("8080"), 30_000);
      const services = "/api/v1/namespaces/default/services";
      expect(await lab.kubectl("get", "--raw", `${services}/one:80/proxy/`)).toBe("hello-page\n");
    });

    test("top shows what the kubelets measure", async () => {
      await until(async () => /^one\s+\d+m\s+\d+Mi/m.test(await lab.kubectl("top", "pod")), 60_000);
      expect(await lab.kubectl("top", "node")).toMatch(/^real-1\s+\d+m\s/m);
    });

    test("debug starts a container beside it, whose log can be read", async () => {
      const flags = ["--image=busybox", "--image-pull-policy=IfNotPresent", "--profile=general", "-c", "look"];
      await lab.kubectl("debug", "one", ...flags, "--", "sh", "-c", "echo debugging");
      await until(async () => (await lab.kubectl("logs", "one", "-c", "look")) === "debugging\n", 30_000);
    });
  });

  test("pods have a token, and the Service kubernetes leads to the API server", async () => {
    await running(plain("speaks"));
    const names = await lab.kubectl("exec", "speaks", "--", "ls", "/var/run/secrets/kubernetes.io/serviceaccount");
    expect(names.split(/\s+/).filter((name) => name !== "")).toEqual(["ca.crt", "namespace", "token"]);
    const token = await lab.kubectl(
      "exec",
      "speaks",
      "--",
      "cat",
      "/var/run/secrets/kubernetes.io/serviceaccount/token",
    );
    const url = "https://10.96.0.1/apis/authentication.k8s.io/v1/selfsubjectreviews";
    const review = JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" });
    const headers = [`authorization: Bearer ${token.trim()}`, "content-type: application/json"];
    const call = ["curl", "-sS", "-m", "10", "--cacert", first!.file("ca.crt"), url, "-d", review];
    const within = [`--net=/run/netns/muster-${first!.name}`, ...call, ...headers.flatMap((each) => ["-H", each])];
    expect(JSON.parse(await ran("nsenter", within))).toMatchObject({
      status: { userInfo: { username: "system:serviceaccount:default:default" } },
    });
  });

  test("pods of both schedulers get different GPUs, and what does not fit waits", async () => {
    const total = 2 * gpusOfNode;
    const sees = `echo "$NVIDIA_VISIBLE_DEVICES"; ${waits}`;
    const pods = Array.from({ length: total + 2 }, (_, at) =>
      podObject(`gpu-${at}`, {
        gpus: 1,
        script: sees,
        scheduler: at % 2 === 0 ? "kai-scheduler" : "default-scheduler",
      }),
    );
    await lab.apply(...pods);
    const up = async () => (await lab.pods()).filter(isRunning);
    await until(
      async () => (await up()).length === total,
      90_000,
      () => lab.kubectl("get", "pods", "-o", "wide"),
    );
    const devices = await Promise.all(
      (await up()).map(async ({ metadata, spec }) => `${spec?.nodeName} ${await lab.kubectl("logs", metadata.name)}`),
    );
    expect(new Set(devices).size).toBe(total);
    const waiting = (await lab.pods()).filter((pod) => !isRunning(pod));
    expect(waiting).toHaveLength(2);
    expect((await lab.muster("why", waiting[0]!.metadata.name)).out).toContain("GPU");
  });

  test("halves of GPUs start: the reservation agent reports the device of each", async () => {
    const half = (name: string): object =>
      podObject(name, { script: `echo "$NVIDIA_VISIBLE_DEVICES"; ${waits}`, annotations: { "gpu-fraction": "0.5" } });
    await lab.apply(...Array.from({ length: 4 }, (_, at) => half(`half-${at}`)));
    await until(
      async () => (await lab.pods()).filter(isRunning).length === 4,
      120_000,
      () => lab.kubectl("get", "pods", "-A", "-o", "wide"),
    );
    const devices = await Promise.all([0, 1, 2, 3].map((at) => lab.kubectl("logs", `half-${at}`)));
    expect(devices.every((device) => device.trim() !== "")).toBe(true);
  });

  const rounds = isLong ? 20 : 3;
  test(`${rounds} rounds of kill -9 of the control plane: no container restarts, and none is lost`, async () => {
    const deployment = {
      ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "steady" } },
      spec: {
        replicas: 6,
        selector: { matchLabels: { app: "steady" } },
        template: {
          metadata: { labels: { app: "steady" } },
          spec: podSpec({ gpus: 1, scheduler: "default-scheduler" }),
        },
      },
    };
    await lab.apply(deployment);
    const steady = () => lab.pods("default", "app=steady");
    await until(
      async () => (await steady()).filter(isReadyPod).length === 6,
      90_000,
      () => lab.kubectl("get", "pods"),
    );
    const before = (await steady()).map(({ metadata }) => metadata.uid).sort();
    for (let round = 0; round < rounds; round++) {
      const job = podObject(`burst-${round}`, { gpus: 1, script: "sleep 2", spec: { restartPolicy: "Never" } });
      await lab.apply(job);
      await new Promise((resolve) => setTimeout(resolve, (round % 5) * 300));
      await lab.kill();
      await lab.up();
      await until(
        async () =>
          (await lab.pods()).find(({ metadata }) => metadata.name === `burst-${round}`)?.status?.phase === "Succeeded",
        60_000,
        () => lab.kubectl("get", "pods", "-o", "wide"),
      );
    }
    const after = await steady();
    expect(after.map(({ metadata }) => metadata.uid).sort()).toEqual(before);
    expect(
      after.flatMap(({ status }) => status?.containerStatuses ?? []).map(({ restartCount }) => restartCount),
    ).toEqual(Array.from({ length: 6 }, () => 0));
  });

  test("a kubelet that is killed: the node is not ready, its pods are replaced, and it returns", async () => {
    const tolerations = ["not-ready", "unreachable"].map((what) => ({
      ...{ key: `node.kubernetes.io/${what}`, operator: "Exists", effect: "NoExecute", tolerationSeconds: 5 },
    }));
    const spec = podSpec({ scheduler: "default-scheduler", spec: { tolerations } });
    const labels = { app: "replaced" };
    await lab.apply({
      ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "replaced" } },
      spec: { replicas: 2, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    });
    const readyOn = async (node: string): Promise<number> =>
      (await lab.pods("default", "app=replaced")).filter((pod) => isReadyPod(pod) && pod.spec?.nodeName === node)
        .length;
    await until(async () => (await readyOn("real-1")) + (await readyOn("real-2")) === 2, 60_000);
    await second!.killKubelet();
    await until(
      async () => (await lab.nodesReady()).length === 1,
      120_000,
      () => lab.kubectl("get", "nodes"),
    );
    await until(
      async () => (await readyOn("real-1")) === 2,
      120_000,
      () => lab.kubectl("get", "pods", "-o", "wide"),
    );
    second!.startKubelet();
    await until(
      async () => (await lab.nodesReady()).length === 2,
      60_000,
      () => lab.kubectl("get", "nodes"),
    );
  });

  test("drain evicts within budgets, and a removed node is gone", async () => {
    await running(plain("drained", { nodeName: second!.name }));
    const drained = await lab.muster("node", "drain", second!.name, "--timeout", "60s");
    expect(drained).toMatchObject({ code: 0, out: "node real-2 is drained: 1 pods were evicted\n" });
    expect(await lab.muster("node", "drain", "nowhere")).toMatchObject({
      code: 1,
      err: expect.stringContaining("(node-missing)"),
    });
    await second!.killKubelet();
    expect((await lab.muster("node", "remove", second!.name)).code).toBe(0);
    expect((await lab.nodesReady()).map(({ name }) => name)).toEqual(["real-1"]);
  });
});

interface Started {
  /** The first group of the pattern, as soon as the output has it. */
  until(pattern: RegExp): Promise<string>;
  lines(count: number): Promise<string[]>;
  stop(): void;
}

function start(lab: Lab, args: readonly string[], env: Record<string, string> = {}): Started {
  const child: ChildProcess = spawn(peer("kubectl"), ["--kubeconfig", lab.kubeconfig, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout?.on("data", (part: Buffer) => {
    text += part.toString();
  });
  const found = async (pattern: RegExp): Promise<RegExpExecArray> => {
    let match: RegExpExecArray | null = null;
    await until(
      async () => {
        match = pattern.exec(text);
        return match !== null;
      },
      30_000,
      () => text,
    );
    if (match === null) throw new Error("unreachable");
    return match;
  };
  return {
    until: async (pattern) => (await found(pattern))[1] ?? "",
    lines: async (count) => {
      await found(new RegExp(`^(?:[^\\n]*\\n){${count}}`));
      return text.split("\n").slice(0, count);
    },
    stop: () => child.kill("SIGKILL"),
  };
}

async function firstLines(lab: Lab, args: readonly string[], count: number): Promise<string[]> {
  const started = start(lab, args);
  try {
    return await started.lines(count);
  } finally {
    started.stop();
  }
}
