/** Enough of a Dockerfile to carry its steps out in folders: a stage is a folder, and its paths lie below it. */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

export interface Step {
  readonly name: string;
  readonly text: string;
}

export interface Stage {
  readonly name: string;
  readonly steps: readonly Step[];
}

export function stagesOf(text: string): Stage[] {
  const stages: { name: string; steps: Step[] }[] = [];
  const lines = text
    .replaceAll(/^\s*#.*\n?/gm, "")
    .replaceAll(/\\\n/g, " ")
    .split("\n");
  for (const line of lines) {
    const [, name = "", rest = ""] = /^\s*([A-Z]+)\s+(.*?)\s*$/.exec(line) ?? [];
    if (name === "FROM") stages.push({ name: / AS (\S+)$/i.exec(rest)?.[1] ?? `${stages.length}`, steps: [] });
    else if (name !== "") stages.at(-1)?.steps.push({ name, text: rest });
  }
  return stages;
}

/** Whether .dockerignore keeps a path (relative, with slashes) out of the build. */
export function ignoredBy(patterns: string): (path: string) => boolean {
  const tests = patterns
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((pattern) => {
      const body = pattern
        .replaceAll(/[.+^${}()|[\]\\]/g, "\\$&")
        .replaceAll("**/", "\u0000")
        .replaceAll("*", "[^/]*")
        .replaceAll("\u0000", "(?:.*/)?");
      return new RegExp(`^${body}(?:/|$)`);
    });
  return (path) => tests.some((test) => test.test(path));
}

/** What the last stage starts as, and where. */
export interface Image {
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
  readonly command: readonly string[];
}

export interface BuildOptions {
  readonly dockerfile: string;
  readonly context: string;
  readonly scratch: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Carries out every step of every stage. Commands run in the stage's folder on this machine, with its Node.js. */
export async function build({ dockerfile, context, scratch, env }: BuildOptions): Promise<Image> {
  const ignored = ignoredBy(readFileSync(join(context, ".dockerignore"), "utf8"));
  let image: Image = { folder: scratch, env: {}, user: undefined, command: [] };
  for (const { name: stage, steps } of stagesOf(readFileSync(dockerfile, "utf8"))) {
    const root = join(scratch, stage);
    const vars: Record<string, string> = {};
    let folder = root;
    let user: Image["user"];
    let entry: string[] = [];
    let words: string[] = [];
    for (const { name, text } of steps) {
      if (name === "WORKDIR") folder = join(root, text);
      else if (name === "ENV") vars[text.split("=")[0] ?? ""] = text.slice(text.indexOf("=") + 1);
      else if (name === "USER") user = { uid: Number(text.split(":")[0]), gid: Number(text.split(":")[1]) };
      else if (name === "ENTRYPOINT") entry = JSON.parse(text) as string[];
      else if (name === "CMD") words = JSON.parse(text) as string[];
      else if (name === "RUN") await shell(text, folder, { ...env, ...vars });
      else if (name === "COPY") {
        const components = text.split(/\s+/);
        const from = /^--from=(.*)$/.exec(components[0] ?? "")?.[1];
        const paths = from === undefined ? components : components.slice(1);
        const target = paths.at(-1) ?? ".";
        for (const source of paths.slice(0, -1)) {
          const base = from === undefined ? context : join(scratch, from);
          copy(join(base, source), join(folder, target), from === undefined ? { context, ignored } : undefined);
        }
      } else throw new Error(`the step ${name} is not known here`);
      mkdirSync(folder, { recursive: true });
    }
    image = { folder, env: vars, user, command: [...entry, ...words] };
  }
  return image;
}

/** A folder's contents go into the target; a file goes into a target that ends in a slash. */
function copy(
  source: string,
  target: string,
  rules: { readonly context: string; readonly ignored: (path: string) => boolean } | undefined,
): void {
  const to = target.endsWith("/") ? join(target, source.split("/").at(-1) ?? "") : target;
  mkdirSync(dirname(to), { recursive: true });
  cpSync(source, to, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (path) => rules === undefined || !rules.ignored(relative(rules.context, path)),
  });
}

export class StepFailed extends Error {
  readonly output: string;

  constructor(step: string, output: string) {
    super(`${step}: ${output.trim().split("\n").slice(-5).join("; ")}`);
    this.output = output;
  }
}

function shell(command: string, cwd: string, env: Record<string, string>): Promise<void> {
  mkdirSync(cwd, { recursive: true });
  return new Promise((done, fail) => {
    execFile("/bin/sh", ["-c", command], { cwd, env, maxBuffer: 50_000_000 }, (error, stdout, stderr) => {
      if (error === null) done();
      else fail(new StepFailed(command, stdout + stderr));
    });
  });
}
