/** Writes what deploy/ has of the controllers: the Helm chart, the manifests for kubectl, and the role of the binder alone. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { deployFiles } from "../src/cli/install/installFiles.ts";

const deploy = join(dirname(dirname(fileURLToPath(import.meta.url))), "deploy");
rmSync(join(deploy, "chart"), { recursive: true, force: true });
for (const [path, text] of await deployFiles()) {
  mkdirSync(dirname(join(deploy, path)), { recursive: true });
  writeFileSync(join(deploy, path), text);
}
