import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { inClusterConnection, isInCluster } from "./inCluster.ts";

const env = { KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" };
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "in-cluster-"));
  write("token", "first\n");
  write("ca.crt", "PEM");
  write("namespace", "team");
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);

test("a pod finds its cluster in its environment and its service account in its files", async () => {
  expect(isInCluster(env)).toBe(true);
  const connection = await inClusterConnection({ env, folder });
  expect(connection).toMatchObject({ server: "https://10.96.0.1:443", namespace: "team", authority: "PEM" });
  expect(await connection.credentials({ refused: false })).toMatchObject({ authorization: "Bearer first" });
});

test("a token that was replaced is read again", async () => {
  const { credentials } = await inClusterConnection({ env, folder });
  write("token", "second\n");
  const found = await credentials({ refused: false });
  expect(found).toMatchObject({ authorization: "Bearer second" });
  expect(found.goodForMs).toBeLessThanOrEqual(60_000);
});

test("an IPv6 address is put in brackets", async () => {
  const { server } = await inClusterConnection({ env: { ...env, KUBERNETES_SERVICE_HOST: "fd00::1" }, folder });
  expect(server).toBe("https://[fd00::1]:443");
});

test("without a namespace file the namespace is default", async () => {
  rmSync(join(folder, "namespace"));
  expect((await inClusterConnection({ env, folder })).namespace).toBe("default");
});

test("outside of a pod is an error with a cure", async () => {
  expect(isInCluster({})).toBe(false);
  await expect(inClusterConnection({ env: {}, folder })).rejects.toMatchObject({ code: "not-in-cluster" });
});

test.each(["token", "ca.crt"])("a service account without %s is a problem with a cure", async (name) => {
  rmSync(join(folder, name));
  await expect(inClusterConnection({ env, folder })).rejects.toMatchObject({ code: "credential-file-unreadable" });
});
