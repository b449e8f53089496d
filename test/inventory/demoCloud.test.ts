import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { demoCloudOf } from "../../src/cli/inventory/openInventory.ts";

/** The folder of a demo that runs, or was killed: its cloud is made up, and must not reach another database. */
const folder = mkdtempSync(join(tmpdir(), "muster-played-"));
const demo = { url: "http://127.0.0.1:4566", region: "us-east-2", database: "gpudev@127.0.0.1:6000/gpudev" };
beforeAll(() => writeFileSync(join(folder, "cloud.json"), JSON.stringify(demo)));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const named = {
  POSTGRES_HOST: "db.example",
  POSTGRES_USER: "gpudev",
  POSTGRES_PASSWORD: "secret",
  POSTGRES_DB: "gpudev",
};

describe("the demo's cloud", () => {
  test.each([
    { fact: "for the demo's own database", flags: {}, env: {} },
    { fact: "with a region, which names no account", flags: {}, env: { AWS_REGION: "us-west-2" } },
    {
      fact: "for the demo's database by its address",
      flags: { databaseUrl: "postgresql://gpudev:x@127.0.0.1:6000/gpudev" },
      env: {},
    },
    { fact: "with settings that are empty", flags: {}, env: { AWS_PROFILE: "" } },
  ])("is used $fact", ({ flags, env }) => {
    expect(demoCloudOf({ dataDir: folder, ...flags }, env)).toMatchObject({ url: demo.url });
  });

  test.each([
    { fact: "a profile", flags: {}, env: { AWS_PROFILE: "prod" } },
    { fact: "an endpoint", flags: {}, env: { AWS_ENDPOINT_URL: "http://x" } },
    { fact: "an endpoint of one service", flags: {}, env: { AWS_ENDPOINT_URL_EC2: "http://x" } },
    { fact: "a key", flags: {}, env: { AWS_ACCESS_KEY_ID: "AKIA" } },
    { fact: "a web identity", flags: {}, env: { AWS_ROLE_ARN: "arn:x", AWS_WEB_IDENTITY_TOKEN_FILE: "/token" } },
    { fact: "a pod identity", flags: {}, env: { AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://x" } },
    { fact: "a file of credentials", flags: {}, env: { AWS_SHARED_CREDENTIALS_FILE: "/aws" } },
    {
      fact: "a pod's service account",
      flags: {},
      env: { KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "443" },
    },
    { fact: "another database by its parts", flags: {}, env: named },
    { fact: "another database by DATABASE_URL", flags: {}, env: { DATABASE_URL: "postgresql://u:p@db/x" } },
    { fact: "another database by the flag", flags: { databaseUrl: "postgresql://u:p@db/x" }, env: {} },
    {
      fact: "another database of the same server",
      flags: { databaseUrl: "postgresql://gpudev:x@127.0.0.1:6000/real" },
      env: {},
    },
  ])("gives way to $fact", ({ flags, env }) => {
    expect(demoCloudOf({ dataDir: folder, ...flags }, env)).toBeUndefined();
  });
});
