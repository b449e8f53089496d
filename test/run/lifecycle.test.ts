/** The embedded cluster of a data folder from the command line: start, status, stop, delete, and what it never touches. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, "dist/bundle/program/main.js");

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "muster-life-"));
});
afterEach(() => {
  muster("down");
  rmSync(folder, { recursive: true, force: true });
});

interface Result {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function muster(...args: string[]): Result {
  return musterWith({}, ...args);
}

function musterWith(env: Record<string, string>, ...args: string[]): Result {
  const { KUBECONFIG: _, ...inherited } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd: folder,
    encoding: "utf8",
    env: { ...inherited, HOME: folder, ...env },
  });
  return { code: status, out: stdout, err: stderr };
}

const upFlags = ["up", "--detach", "--port", "0", "--no-dashboard"];
function up(...flags: string[]): { api: string; kubeconfig: string; context: string; pid: number } {
  const { code, out, err } = muster(...upFlags, "-o", "json", ...flags);
  expect([code, err]).toEqual([0, ""]);
  return JSON.parse(out) as ReturnType<typeof up>;
}

const nodesOf = (): string[] => {
  const { out } = muster("nodes", "-o", "json");
  return (JSON.parse(out) as { types: { type: string; nodes: number }[] }).types.map(
    (row) => `${row.type} ${row.nodes}`,
  );
};

describe("the embedded cluster of a folder", () => {
  test("starts in the background, shows its status, stops with its data kept, and is deleted on request", () => {
    expect(muster("status")).toMatchObject({ code: 3, out: expect.stringContaining("there is no cluster in") });
    const started = muster(...upFlags, "--pool", "h100=1");
    expect(started).toMatchObject({ code: 0, out: expect.stringContaining("`muster down` stops it") });
    const { pid, api } = JSON.parse(muster("status", "-o", "json").out) as ReturnType<typeof up>;
    const status = muster("status");
    expect(status.code).toBe(0);
    expect(status.out).toContain(`running: muster up, process ${pid}`);
    expect(status.out).toContain(`api: ${api}`);
    expect(status.out).toContain("nodes: 1, ");
    expect(muster("reset", "--yes")).toMatchObject({ code: 1, err: expect.stringContaining("(cluster-running)") });
    expect(muster("down").out).toContain(`stopped process ${pid}; its data is in`);
    expect(readFileSync(join(folder, ".muster/up.log"), "utf8")).toContain("stopped: the data is in");
    expect(muster("status")).toMatchObject({ code: 3, out: expect.stringContaining("stopped: ") });
    expect(muster("down").out).toContain("no cluster is running");
    expect(muster("reset")).toMatchObject({ code: 2, err: expect.stringContaining("(confirmation-missing)") });
    expect(muster("reset", "--yes").code).toBe(0);
    expect(existsSync(join(folder, ".muster"))).toBe(false);
  });

  test("has no simulated nodes after `--pool none`, at the next start too", () => {
    const count = (): number => (JSON.parse(muster("nodes", "-o", "json").out) as { nodes: unknown[] }).nodes.length;
    up("--pool", "none");
    expect(count()).toBe(0);
    muster("down");
    up();
    expect(count()).toBe(0);
    muster("down");
    up("--pool", "h100=2");
    expect(count()).toBe(2);
    expect(muster("up", "--pool", "none", "--pool", "h100=1")).toMatchObject({
      code: 2,
      err: expect.stringContaining("(pool-malformed)"),
    });
  });

  test("is never chosen silently while it is stopped", () => {
    up("--pool", "h100=1");
    muster("down");
    for (const command of [["q"], ["nodes"], ["queues"], ["gangs"], ["fault", "list"], ["run"]]) {
      const { code, err } = muster(...command);
      expect([command, code, err]).toEqual([command, 1, expect.stringContaining("is not running (cluster-stopped)")]);
    }
  });

  test("gives way to KUBECONFIG", () => {
    const { kubeconfig } = up("--pool", "h100=1");
    const elsewhere = join(folder, "elsewhere");
    writeFileSync(elsewhere, readFileSync(kubeconfig, "utf8").replace(/server: .*/, "server: https://127.0.0.1:1"));
    const { code, err } = musterWith({ KUBECONFIG: elsewhere }, "nodes");
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/connect ECONNREFUSED 127\.0\.0\.1:1.*\(cluster-refused\)/s),
    ]);
    expect(musterWith({ KUBECONFIG: elsewhere }, "nodes", "--data-dir", join(folder, ".muster")).code).toBe(0);
  });

  test("is refused to a second process at once, by the name of the first", () => {
    const { pid, api } = up("--pool", "h100=1");
    const { code, err } = muster("up");
    expect([code, err]).toEqual([1, expect.stringContaining(`Muster already runs there at ${api}, process ${pid}`)]);
  });

  test("has its own controllers: `muster run` says so and does not start", () => {
    const { pid, kubeconfig } = up("--pool", "h100=1");
    for (const env of [{}, { KUBECONFIG: kubeconfig }]) {
      const { code, err } = musterWith(env as Record<string, string>, "run");
      expect([code, err]).toEqual([
        1,
        expect.stringContaining(`\`muster up\` (process ${pid}) already runs the scheduler`),
      ]);
    }
  });

  test("takes a free port when the usual one is in use", async () => {
    const other = createServer();
    await new Promise<void>((done) => {
      other.once("error", () => done());
      other.listen(6443, "127.0.0.1", done);
    });
    try {
      const { code, out } = muster("up", "--detach", "--no-dashboard", "-o", "json", "--pool", "h100=1");
      expect(code).toBe(0);
      expect((JSON.parse(out) as { api: string }).api).not.toContain(":6443");
    } finally {
      other.close();
    }
  });

  test("that cannot start in the background says why", () => {
    const { code, err } = muster("up", "--detach", "--pool", "nope=1");
    expect([code, err]).toEqual([1, expect.stringContaining("(cluster-not-started)")]);
    expect(err).toContain("profile-unknown");
  });

  test("serves the metrics of its controllers beside those of the API server", () => {
    const { kubeconfig } = up("--pool", "h100=1");
    const { stdout } = spawnSync("kubectl", ["--kubeconfig", kubeconfig, "get", "--raw", "/metrics"], {
      encoding: "utf8",
    });
    expect(stdout).toContain("apiserver_request_total");
    expect(stdout).toMatch(/^kai_queue_gpu_usage\{.*default-queue/m);
  });
});

describe("--pool on an existing folder", () => {
  test("resizes the pools that it names, and removes the others", () => {
    up("--pool", "h100=3");
    muster("down");
    up("--pool", "h100=1", "--pool", "t4=2");
    expect(nodesOf()).toEqual([expect.stringMatching(/H100.* 1$/), expect.stringMatching(/T4.* 2$/)]);
  });

  test("is not needed: without it the pools stay as they are", () => {
    up("--pool", "t4=2");
    muster("down");
    up();
    expect(nodesOf()).toEqual([expect.stringMatching(/T4.* 2$/)]);
  });
});

describe("the kubeconfig", () => {
  const mine = `apiVersion: v1
kind: Config
clusters: [{ name: prod, cluster: { server: https://prod } }]
users: [{ name: me, user: { token: secret } }]
contexts: [{ name: prod, context: { cluster: prod, user: me } }]
current-context: prod
`;
  const contextsIn = (file: string): string[] =>
    (parse(readFileSync(file, "utf8")) as { contexts: { name: string }[] }).contexts.map(({ name }) => name);

  test("of the user keeps its clusters: the context is merged into it", () => {
    const file = join(folder, "mine");
    writeFileSync(file, mine);
    const { context } = up("--kubeconfig", file);
    expect(context).toBe("muster");
    expect(contextsIn(file)).toEqual(["prod", "muster"]);
    expect(readFileSync(file, "utf8")).toContain("token: secret");
  });

  test("of the user is not written when it is not a kubeconfig", () => {
    const file = join(folder, "notes");
    writeFileSync(file, "my notes: {\n");
    const { code, err } = muster(...upFlags, "--kubeconfig", file);
    expect([code, err]).toEqual([1, expect.stringContaining("kubeconfig-invalid")]);
    expect(readFileSync(file, "utf8")).toBe("my notes: {\n");
  });

  test("of the data folder keeps its namespace and other users over a restart", () => {
    const { kubeconfig } = up("--pool", "h100=1");
    muster("down");
    const kubectl = (...args: string[]): void => {
      expect(spawnSync("kubectl", ["--kubeconfig", kubeconfig, "config", ...args]).status).toBe(0);
    };
    kubectl("set-context", "--current", "--namespace=research");
    kubectl("set-credentials", "ada", "--token=t");
    up();
    const text = readFileSync(kubeconfig, "utf8");
    expect(text).toContain("namespace: research");
    expect(text).toContain("name: ada");
  });
});

describe("tools/ready.mjs", () => {
  /** A clone with a lock file, and an npm that does what a test says. */
  function clone(npm: string): { run: (signalAfter?: string) => Result; has: (path: string) => boolean } {
    mkdirSync(join(folder, "tools"));
    mkdirSync(join(folder, "bin"));
    const ready = readFileSync(join(root, "tools/ready.mjs"), "utf8");
    writeFileSync(join(folder, "tools/ready.mjs"), ready);
    writeFileSync(
      join(folder, "package-lock.json"),
      JSON.stringify({ packages: { "": {}, "node_modules/a": { version: "1" } } }),
    );
    writeFileSync(join(folder, "bin/npm"), `#!/bin/sh\n${npm}`, { mode: 0o755 });
    const path = `${join(folder, "bin")}:${process.env["PATH"]}`;
    return {
      has: (name) => existsSync(join(folder, name)),
      run: () => {
        const { status, stdout, stderr } = spawnSync(process.execPath, ["tools/ready.mjs", "--install-only"], {
          cwd: folder,
          encoding: "utf8",
          env: { ...process.env, PATH: path },
        });
        return { code: status, out: stdout, err: stderr };
      },
    };
  }
  const installs = `mkdir -p node_modules && echo '{"packages":{"node_modules/a":{"version":"1"}}}' > node_modules/.package-lock.json`;

  test("waits for npm when it is interrupted, and leaves a clone that the next call installs", () => {
    // The first call of npm interrupts its parent, as Ctrl-C does, and needs a while to clean up.
    const { run, has } = clone(`if [ ! -e interrupted ]; then
      touch interrupted; trap '' INT TERM; mkdir -p node_modules/half; kill -INT $PPID; i=0
      while [ $i -lt 20000 ]; do i=$((i+1)); done
      rm -rf node_modules; touch cleaned; exit 1
    fi
    ${installs}`);
    const first = run();
    expect([first.code, has("cleaned"), has("node_modules")]).toEqual([130, true, false]);
    expect(first.err).toContain("stopped; the next call continues");
    expect(run().code).toBe(0);
    expect(has("node_modules/.muster-installed")).toBe(true);
  });

  test("installs again when the packages are gone, whatever its stamp says", () => {
    const { run, has } = clone(`touch again; ${installs}`);
    expect(run().code).toBe(0);
    rmSync(join(folder, "again"));
    rmSync(join(folder, "node_modules/.package-lock.json"));
    expect(run().code).toBe(0);
    expect(has("again")).toBe(true);
  });
});
