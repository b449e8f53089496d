import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
// @ts-expect-error: plain JavaScript, shared with `npm run peers`, which runs before anything is compiled.
import { writeImage } from "../../../tools/peers/ociImage.mjs";

const root = fileURLToPath(new URL("../../../", import.meta.url));
export const musterImage = "muster.dev/muster:real";

/** What deploy/Dockerfile makes, without a container builder: this machine's Node.js, its libraries, and the program. */
export function buildMusterImage(file: string): void {
  const tree = mkdtempSync(join(tmpdir(), "muster-tree-"));
  try {
    const put = (from: string, to: string): void => {
      mkdirSync(dirname(join(tree, to)), { recursive: true });
      cpSync(from, join(tree, to), { dereference: true, recursive: true });
    };
    const node = realpathSync(process.execPath);
    put(node, "/usr/local/bin/node");
    const linked = execFileSync("ldd", [node], { encoding: "utf8" });
    for (const [, path = ""] of linked.matchAll(/(\/\S+) \(0x/g)) put(path, path);
    // The sh of the image, for the nvidia-smi that is played.
    put("/usr/bin/busybox", "/bin/busybox");
    for (const applet of ["sh", "printf", "cat", "env"]) symlinkSync("busybox", join(tree, "bin", applet));
    put(join(root, "package.json"), "/muster/package.json");
    put(join(root, "dist/bundle"), "/muster/dist/bundle");
    // Schemas that the program reads at run time.
    put(join(root, "src/apiserver"), "/muster/src/apiserver");
    const entrypoint = ["node", "--max-semi-space-size=32", "dist/bundle/program/main.js"];
    const env = ["NODE_ENV=production"];
    writeImage({ root: tree, file, name: musterImage, entrypoint, user: "1000:1000", workingDir: "/muster", env });
  } finally {
    rmSync(tree, { recursive: true, force: true });
  }
}
