import { fileURLToPath } from "node:url";

/** Programs that a benchmark runs as processes of their own. */
export type ChildProgram = "serverProcess" | "cloudProcess" | "nodesProcess";

/** The file of a program: `tools/ready.mjs` bundles it beside the program that runs the benchmarks. */
export function childProgram(name: ChildProgram): string {
  return fileURLToPath(new URL(`${name}.js`, import.meta.url));
}
