import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ignoredBy, stagesOf } from "./dockerfile.ts";

/** What can be known about the image without building it; image.long.test.ts carries its steps out. */
const root = join(import.meta.dirname, "../..");
const stages = stagesOf(readFileSync(join(root, "deploy/Dockerfile"), "utf8"));

interface Locked {
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
}

describe("the image", () => {
  test("has the compiler of its platform when it compiles", () => {
    const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
      packages: Record<string, Locked>;
    };
    const compiler = Object.entries(packages).filter(
      ([path, { os, cpu }]) =>
        /^node_modules\/(@typescript\/typescript-|typescript$)/.test(path) &&
        (os === undefined || (os.includes("linux") && cpu?.includes("x64") === true)),
    );
    expect(compiler.length).toBe(2);
    const commands = stages.flatMap(({ steps }) => steps.filter(({ name }) => name === "RUN")).map(({ text }) => text);
    const words = commands.flatMap((command) => command.split("&&")).map((each) => each.trim());
    const compiles = words.findIndex((command) => /tools\/ready\.mjs/.test(command));
    expect(compiles).toBeGreaterThan(0);
    const before = words.slice(0, compiles).join(" ");
    for (const [path, { dev, optional }] of compiler) {
      if (dev === true) expect(before, path).not.toMatch(/--omit=dev|--production/);
      if (optional === true) expect(before, path).not.toContain("--omit=optional");
    }
  });

  test("leaves out the laptop's database and the tools that built it", () => {
    const prune = stages.flatMap(({ steps }) => steps).find(({ text }) => text.includes("npm prune"));
    expect(prune?.text).toContain("--omit=dev");
    expect(prune?.text).toContain("--omit=optional");
  });

  test("runs as a user without rights, and starts what the CronJob starts", () => {
    const last = stages.at(-1)?.steps ?? [];
    expect(last.find(({ name }) => name === "USER")?.text).toBe("1000:1000");
    expect(last.find(({ name }) => name === "CMD")?.text).toBe('["inventory", "run", "--once"]');
  });

  test("is built without this folder's packages, data and history", () => {
    const ignored = ignoredBy(readFileSync(join(root, ".dockerignore"), "utf8"));
    for (const path of [
      ".git/config",
      "node_modules/pg/package.json",
      "src/dashboard/node_modules/x",
      "dist/bundle/program/main.js",
      ".muster/kubeconfig",
      "examples/.muster/pki/ca.key",
      "src/cli/tsconfig.tsbuildinfo",
      ".env",
    ]) {
      expect(ignored(path), path).toBe(true);
    }
    for (const path of ["package-lock.json", "src/main/main.ts", "tsconfig.json", "src/model/distribution.ts"]) {
      expect(ignored(path), path).toBe(false);
    }
  });
});
