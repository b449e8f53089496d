import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const [recorded] = JSON.parse(readFileSync(join(root, "src/apiserver/wire/testdata/kubectlBodies.json"), "utf8")) as {
  body: string;
}[];

test("the bundled program finds its data files: a Deployment as kubectl sends it, in protobuf, is created", async () => {
  const folder = mkdtempSync(join(tmpdir(), "muster-compiled-"));
  const args = [
    join(root, "dist/bundle/program/main.js"),
    "apiserver",
    "--memory",
    "--port",
    "0",
    "--data-dir",
    folder,
    "-o",
    "json",
  ];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
    const config = readFileSync(join(folder, "kubeconfig"), "utf8");
    const code = await post(
      (JSON.parse(line) as { api: string }).api,
      config,
      Buffer.from(recorded?.body ?? "", "base64"),
    );
    expect(code).toBe(201);
  } finally {
    child.kill();
    await once(child, "exit");
    rmSync(folder, { recursive: true, force: true });
  }
});

function post(api: string, config: string, body: Buffer): Promise<number | undefined> {
  const part = (key: string): Buffer =>
    Buffer.from(new RegExp(`${key}: (\\S+)`).exec(config)?.[1]?.replaceAll('"', "") ?? "", "base64");
  return new Promise((resolve, reject) => {
    const asked = request(`${api}/apis/apps/v1/namespaces/default/deployments`, {
      method: "POST",
      ca: part("certificate-authority-data"),
      cert: part("client-certificate-data"),
      key: part("client-key-data"),
      headers: { "content-type": "application/vnd.kubernetes.protobuf" },
    });
    asked.on("error", reject);
    asked.on("response", (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode));
    });
    asked.end(body);
  });
}
