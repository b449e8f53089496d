/**
 * Runs what the pages tell their readers to type. A block is run when `<!-- tested -->` stands before it; its commands
 * run in one shell, with KUBECONFIG of a server of its own, in a folder that links to `examples/`.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { startApiServer } from "../../src/apiserver/startApiServer.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const pages = ["README.md", "examples/README.md", "docs/hacking.md"];
const hasKubectl = spawnSync("kubectl", ["version", "--client"]).status === 0;

function blocksOf(page: string): string[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(/<!-- tested -->\n```sh\n([\s\S]*?)```/g)].map((match) => match[1] as string);
}

describe.each(pages)("%s", (page) => {
  const blocks = blocksOf(page);
  test("every mark stands before a shell block", () => {
    const marks = readFileSync(join(root, page), "utf8").match(/^<!-- tested -->$/gm)?.length ?? 0;
    expect(blocks).toHaveLength(marks);
    expect(marks).toBeGreaterThan(0);
  });

  const rows = blocks.map((block) => ({ title: block.split("\n", 1)[0] as string, block }));
  test.skipIf(!hasKubectl).each(rows)("runs: $title (needs kubectl on the PATH)", async ({ block }) => {
    const { code, out } = await runBlock(block);
    expect({ code, out }).toMatchObject({ code: 0 });
  });
});

async function runBlock(block: string): Promise<{ code: number | null; out: string }> {
  const folder = mkdtempSync(join(tmpdir(), "muster-docs-"));
  const server = await startApiServer({ clock: systemClock(), random: systemRandom() });
  try {
    const kubeconfig = join(folder, "kubeconfig");
    writeFileSync(kubeconfig, server.kubeconfig, { mode: 0o600 });
    symlinkSync(join(root, "examples"), join(folder, "examples"));
    return await shell(block, folder, { ...process.env, KUBECONFIG: kubeconfig, HOME: folder });
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Every command must succeed. A line that is meant to fail begins with `!`, which turns its meaning round. */
function shell(block: string, cwd: string, env: NodeJS.ProcessEnv): Promise<{ code: number | null; out: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn("sh", ["-c", asserted(block)], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    child.stdout.on("data", (text) => {
      out += text;
    });
    child.stderr.on("data", (text) => {
      out += text;
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, out }));
  });
}

/** `set -e` overlooks a command behind `!`, so those lines say themselves what a success of theirs means. */
function asserted(block: string): string {
  const lines = block
    .split("\n")
    .map((line) => (line.startsWith("! ") ? `if ${line.slice(2)}; then exit 9; fi` : line));
  return `set -e\n${lines.join("\n")}`;
}
