/** The KAI quick start as its page says it: kubectl against `muster up`, with the stand-in for the operators. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CoreEvent, Pod } from "../../src/model/kubernetes.generated.ts";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, "dist/bundle/program/main.js");
let folder: string;
let up: ChildProcess;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "muster-kai-"));
  up = spawn(process.execPath, [program, "up", "--memory", "--port", "0", "--pool", "h100=2", "-o", "json"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise<void>((resolve, reject) => {
    up.stdout?.once("data", () => resolve());
    up.once("exit", (code) => reject(new Error(`muster up ended with ${code}`)));
  });
});
afterAll(async () => {
  const gone = new Promise((resolve) => up.once("exit", resolve));
  up.kill("SIGTERM");
  await gone;
  rmSync(folder, { recursive: true, force: true });
});

async function run(command: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, KUBECONFIG: join(folder, ".muster/kubeconfig") };
  const { stdout } = await promisify(execFile)(command, args, { cwd: root, env, maxBuffer: 64 * 2 ** 20 });
  return stdout;
}

async function list<T>(kind: string): Promise<T[]> {
  return (JSON.parse(await run("kubectl", "get", kind, "--all-namespaces", "--output", "json")) as { items: T[] })
    .items;
}

/** The lines of the page that are typed after the cluster is up. */
function commands(): string[][] {
  const page = readFileSync(join(root, "examples/kai/README.md"), "utf8");
  const [, block = ""] = /```\n([\s\S]*?)```/.exec(page) ?? [];
  return block
    .split("\n")
    .map((line) => line.replace(/#.*/, "").trim().split(/\s+/))
    .filter(([first = "", second]) => first !== "" && first !== "export" && second !== "up");
}

test("the KAI quick start works as its page says, and no node refuses anything", async () => {
  const said = new Map<string, string>();
  for (const [command = "", ...args] of commands().filter(([command]) => command !== "./muster")) {
    said.set(args.join(" "), await run(command, ...args));
  }
  const isDone = async (): Promise<boolean> => {
    const pods = await list<Pod>("pods");
    const ours = pods.filter(({ metadata }) => /^(half|resnet|tuning)/.test(metadata.name));
    return ours.length === 9 && ours.every(({ status }) => status?.phase === "Running");
  };
  // Until the world is so: what it takes is the cluster's to say.
  while (!(await isDone())) await new Promise((resolve) => setTimeout(resolve, 200));
  for (const [, ...args] of commands().filter(([command]) => command === "./muster")) {
    said.set(args.join(" "), await run(process.execPath, program, ...args));
  }
  expect(said.get("q")).toContain("too-big");
  expect(said.get("why too-big")).toContain("needs places for 100 pods at once");
  expect(said.get("queues")).toContain("team-vision");
  const pods = await list<Pod>("pods");
  expect(pods.filter(({ status }) => status?.phase === "Failed")).toEqual([]);
  expect(
    pods.filter(({ metadata, spec }) => metadata.name.startsWith("too-big") && spec?.nodeName !== undefined),
  ).toEqual([]);
  const events = await list<CoreEvent>("events");
  const refusals = events.filter(({ reason = "" }) => /^(UnexpectedAdmissionError|OutOf|Outof|Failed$)/.test(reason));
  expect(refusals.map(({ reason, message }) => `${reason}: ${message}`)).toEqual([]);
});
