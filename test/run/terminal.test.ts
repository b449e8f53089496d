/** Help, version and completion. */
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const program = join(root, "dist/bundle/program/main.js");
const muster = (...args: string[]): string =>
  spawnSync(process.execPath, [program, ...args], { encoding: "utf8" }).stdout;

const commands = [...muster("--help").matchAll(/^ {2}([a-z][a-z-]*)/gm)].map(([, name]) => name ?? "");

describe("--help", () => {
  test("lists the commands in order", () => {
    expect(commands.length).toBeGreaterThan(20);
    expect(commands).toEqual([...commands].sort());
  });

  test.each(["", ...commands])("of %j fits into 80 columns", (command) => {
    const lines = muster(...(command === "" ? [] : [command]), "--help").split("\n");
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });
});

test("the version is a command too", () => {
  expect(muster("version")).toBe(muster("--version"));
});

describe("the completion of bash", () => {
  const complete = (...words: string[]): string[] => {
    const script = `${muster("completion", "bash")}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _muster; echo "\${COMPREPLY[@]}"`;
    const { stdout } = spawnSync("bash", ["-c", script], { encoding: "utf8" });
    return stdout.trim().split(" ");
  };

  test.each([
    [["muster", "qu"], ["queues"]],
    [["muster", "fault", "cl"], ["clear"]],
    [["muster", "q", "--na"], ["--namespace"]],
    [
      ["muster", "inventory", "run", "--on"],
      ["--on-change", "--once"],
    ],
  ])("of %j is %j", (words, found) => {
    expect(complete(...words)).toEqual(found);
  });
});
