import { describe, expect, test } from "vitest";
import { startMs, testPod } from "../../../testing/kubelet/nodeContext.ts";
import type { Container, Pod } from "../../model/kubernetes.generated.ts";
import { findProfile, profilesWith } from "../../model/profiles/profiles.ts";
import { simNode } from "../node/simNode.ts";
import { playMain, probeSucceeds, runCommand } from "./runCommand.ts";
import type { CommandRun } from "./shell.ts";

const nodeOf = (profile: string) =>
  simNode({ clusterSeed: "seed", pool: "pool", profile: findProfile(profilesWith(), profile), index: 0 });
const sim = nodeOf("h100");
const [first = "", second = ""] = sim.devices.map(({ uuid }) => uuid);

function podWith(container: Partial<Container> = {}, annotations: Record<string, string> = {}): Pod {
  const devices = JSON.stringify({ main: { "nvidia.com/gpu": [first, second] } });
  const pod = testPod({ annotations: { "sim.muster.dev/devices": devices, ...annotations } });
  const [main] = pod.spec?.containers ?? [];
  return { ...pod, spec: { ...pod.spec, containers: [{ ...(main as Container), ...container }] } };
}

const input = { pod: podWith(), container: "main", sim, nowMs: startMs };
const textOf = ({ output }: CommandRun, isError = false): string =>
  output.map((each) => (each.isError === isError ? each.text : "")).join("");
const script = (text: string) => runCommand(["sh", "-c", text], input);

describe("a command", () => {
  test.each<[string[], string, number]>([
    [["echo", "a", "b"], "a b\n", 0],
    [["echo", "-n", "a"], "a", 0],
    [["false"], "", 1],
    [["/bin/hostname"], "p\n", 0],
    [["printenv", "HOSTNAME"], "p\n", 0],
    [["printenv", "NOT_SET"], "", 1],
    [["cat", "/etc/hostname"], "p\n", 0],
    [["printf", "%s=%d\\n", "a", "1"], "a=1\n", 0],
    [["seq", "2", "4"], "2\n3\n4\n", 0],
    [["expr", "5", "%", "3"], "2\n", 0],
    [["test", "-z", ""], "", 0],
    [["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"], `0, ${first}\n1, ${second}\n`, 0],
  ])("%j prints %j and exits with %d", (command, stdout, exitCode) => {
    const run = runCommand(command, input);
    expect([textOf(run), run.exitCode]).toEqual([stdout, exitCode]);
  });

  test.each([
    [["tar", "cf", "-", "/etc"], 127, "this container is simulated"],
    [["constructor"], 127, "this container is simulated"],
    [["cat", "/etc/shadow"], 1, "No such file"],
    [["sh", "-c", "ls | wc -l"], 2, "a pipe is not supported"],
    [["sh", "-c", "sleep 5 &"], 2, "a background job is not supported"],
    [["sh", "-c", "if true; then"], 2, "fi is missing"],
    [["sh", "-c", "python train.py"], 127, "python: not found"],
  ])("%j exits with %d and prints %j", (command, exitCode, text) => {
    const run = runCommand(command, input);
    expect([run.exitCode, textOf(run, true)]).toEqual([exitCode, expect.stringContaining(text)]);
  });

  test("is answered from the user's annotation first", () => {
    const pod = podWith(
      {},
      { "sim.muster.dev/exec": '{"hostname": "mine\\n", "job status": {"stdout": "ok", "exitCode": 4}}' },
    );
    expect(textOf(runCommand(["hostname"], { ...input, pod }))).toBe("mine\n");
    expect(runCommand(["sh", "-c", "job status"], { ...input, pod })).toMatchObject({ exitCode: 4 });
  });
});

describe("a script", () => {
  test.each([
    ["false || echo or", "or\n", 0],
    ["false && echo and", "", 1],
    ["! true || echo negated", "negated\n", 0],
    [`echo "$HOSTNAME" '$HOSTNAME' \${HOSTNAME}`, "p $HOSTNAME p\n", 0],
    [`echo \${MISSING:-fallback}`, "fallback\n", 0],
    ["A=1; B=$((A + 2 * 3)); echo $B", "7\n", 0],
    ["echo `hostname` $(echo x y)", "p x y\n", 0],
    ["true; exit 9; echo never", "", 9],
    ["exit $(( 7 % 4 ))", "", 3],
    ["if [ 1 -gt 2 ]; then echo a; elif [ x = x ]; then echo b; else echo c; fi", "b\n", 0],
    ["for i in 1 2 3; do if [ $i -eq 2 ]; then continue; fi; echo $i; done", "1\n3\n", 0],
    ["n=0; while [ $n -lt 2 ]; do n=$((n+1)); echo $n; done", "1\n2\n", 0],
    ["echo kept > /tmp/f; echo more >> /tmp/f; cat /tmp/f; rm /tmp/f; cat /tmp/f 2>/dev/null", "kept\nmore\n", 1],
    ["set -e; false; echo never", "", 1],
    ["set -e; if false; then echo a; fi; echo b", "b\n", 0],
    ["{ echo a; echo b; } # a comment", "a\nb\n", 0],
    ["export X='a  b'; echo \"$X\" $X", "a  b a b\n", 0],
    ["false; echo $?", "1\n", 0],
  ])("%s", (text, stdout, exitCode) => {
    const run = script(text);
    expect([textOf(run), run.exitCode]).toEqual([stdout, exitCode]);
  });

  test("takes the time of its sleeps, and its output comes in between", () => {
    const run = script("echo a; sleep 2; echo b; sleep 1");
    expect(run).toMatchObject({ runMs: 3000, exitCode: 0 });
    expect(run.output.map(({ afterMs, text }) => [afterMs, text])).toEqual([
      [0, "a\n"],
      [2000, "b\n"],
    ]);
  });

  test.each(["sleep infinity", "while true; do sleep 5; done", "while :; do :; done"])("%s does not end", (text) => {
    expect(script(text)).toMatchObject({ runMs: undefined, exitCode: undefined, unknown: undefined });
  });

  test("is cut at its limit, with the output so far", () => {
    const run = runCommand(["sh", "-c", "while true; do echo tick; sleep 10; done"], input, { untilMs: 25_000 });
    expect(textOf(run)).toBe("tick\ntick\ntick\n");
  });
});

describe("a main process", () => {
  const main = (container: Partial<Container>, restarts = 0) =>
    playMain({ ...input, pod: podWith({ command: undefined as never, ...container }), restarts })?.run;

  test.each<[string, Partial<Container>, { runMs?: number | undefined; exitCode?: number | undefined }]>([
    ["sleep N ends after N seconds", { command: ["sleep", "30"] }, { runMs: 30_000, exitCode: 0 }],
    ["exit N fails with N", { command: ["sh", "-c", "exit 3"] }, { runMs: 0, exitCode: 3 }],
    ["arguments that begin with a program are a command", { args: ["echo", "hi"] }, { exitCode: 0 }],
    ["the pause image does not end", { image: "registry.k8s.io/pause:3.10" }, { runMs: undefined }],
    ["agnhost pause does not end", { image: "agnhost:2.5", args: ["pause"] }, { runMs: undefined }],
  ])("%s", (_, container, expected) => {
    expect(main(container)).toMatchObject(expected);
  });

  test.each<[string, Partial<Container>]>([
    ["another program", { command: ["python", "train.py"] }],
    ["a script with another program", { command: ["sh", "-c", "echo start; torchrun x"] }],
    ["arguments of an entrypoint", { args: ["--port", "80"] }],
    ["an image alone", {}],
  ])("is not understood: %s", (_, container) => {
    expect(main(container)).toBeUndefined();
  });

  test("keeps files in volumes across restarts, and others not", () => {
    const volumeMounts = [{ name: "data", mountPath: "/data" }];
    const once = (path: string) => `if [[ -r ${path} ]]; then exit 0; else touch ${path}; exit 1; fi`;
    const runs = (path: string) =>
      [0, 1, 2].map((restarts) => main({ command: ["sh", "-c", once(path)], volumeMounts }, restarts)?.exitCode);
    expect(runs("/data/foo")).toEqual([1, 0, 0]);
    expect(runs("/tmp/foo")).toEqual([1, 1, 1]);
  });

  test("gets its environment, and Kubernetes' substitution of $(NAME)", () => {
    const env = [
      { name: "INDEX", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
      { name: "GREETING", value: "hi $(INDEX)" },
    ];
    const run = main({ command: ["echo", "$(GREETING)", "$$(X)"], env });
    expect(run && textOf(run)).toBe("hi p $(X)\n");
  });

  test("is seen by exec probes: a health file that is removed after ten seconds", () => {
    const pod = podWith({ command: ["sh", "-c", "touch /tmp/healthy; sleep 10; rm /tmp/healthy; sleep 600"] });
    const probe = { exec: { command: ["cat", "/tmp/healthy"] } };
    expect([5_000, 15_000].map((atMs) => probeSucceeds(probe, { ...input, pod }, atMs))).toEqual([true, false]);
  });
});

describe("nvidia-smi", () => {
  test("lists only the GPUs of its container", () => {
    expect(textOf(runCommand(["nvidia-smi", "-L"], input)).match(/GPU-/g)).toHaveLength(2);
    expect(runCommand(["nvidia-smi"], { ...input, pod: testPod() })).toMatchObject({ exitCode: 6 });
  });

  test("shows the GPU of a share, with the memory of the whole GPU", () => {
    const h200 = nodeOf("h200");
    const annotations = { "gpu-fraction": "0.5", "muster.dev/gpu-devices": `{"g": "${h200.devices[3]?.uuid}"}` };
    const share = { ...input, sim: h200, pod: testPod({ annotations }) };
    expect(textOf(runCommand(["nvidia-smi", "-L"], share))).toBe(
      `GPU 0: NVIDIA H200 (UUID: ${h200.devices[3]?.uuid})\n`,
    );
    const query = runCommand(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader"], share);
    expect(textOf(query)).toBe("143771 MiB\n");
  });

  test("prints the table of a real H200", () => {
    const h200 = nodeOf("h200");
    const annotations = {
      "sim.muster.dev/devices": JSON.stringify({ main: { "nvidia.com/gpu": [h200.devices[0]?.uuid] } }),
    };
    const nowMs = Date.UTC(2026, 10, 16, 6, 44, 56);
    const run = runCommand(["nvidia-smi"], { pod: testPod({ annotations }), container: "main", sim: h200, nowMs });
    const lines = textOf(run).split("\n");
    expect(lines.slice(0, 8)).toEqual([
      "Mon Nov 16 06:44:56 2026       ",
      "+-----------------------------------------------------------------------------------------+",
      expect.stringMatching(/^\| NVIDIA-SMI [\d.]+ +Driver Version: [\d.]+ +CUDA Version: [\d.]+ +\|$/),
      "+-----------------------------------------+------------------------+----------------------+",
      "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
      "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
      "|                                         |                        |               MIG M. |",
      "|=========================================+========================+======================|",
    ]);
    expect(lines[8]).toMatch(/^\| {3}0 {2}NVIDIA H200 {20}On {2}\| {3}00000000:[0-9A-F]{2}:00\.0 Off \| {20}0 \|$/);
    expect(lines[9]).toMatch(
      /^\| N\/A {3}\d\dC {4}P0 +\d+W \/ {2}700W \| +\d+MiB \/ 143771MiB \| +\d+% {6}Default \|$/,
    );
    expect(lines[10]).toBe(
      "|                                         |                        |             Disabled |",
    );
    expect(new Set(lines.slice(1, -1).map((line) => line.length))).toEqual(new Set([91, 0]));
  });
});
