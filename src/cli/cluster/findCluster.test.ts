import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { kubeconfigText } from "../../apiserver/auth/kubeconfig.ts";
import { findCluster } from "./findCluster.ts";

const folder = mkdtempSync(join(tmpdir(), "muster-find-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a folder without a cluster is refused, and does not choose that of KUBECONFIG", async () => {
  const file = join(folder, "elsewhere");
  const server = "https://192.0.2.1:6443";
  writeFileSync(file, kubeconfigText({ server, authority: "", user: "ann", credential: { token: "t" } }));
  const env = { KUBECONFIG: file };
  expect((await findCluster({}, env)).server).toContain("192.0.2.1");
  await expect(findCluster({ dataDir: join(folder, "typo") }, env)).rejects.toMatchObject({ code: "cluster-missing" });
});
