import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { sentByUs } from "../../src/apiserver/resource.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { systemCall } from "../../src/apiserver/systemCall.ts";
import { patchObject } from "../../src/apiserver/verbs/patch.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";

const folder = fileURLToPath(new URL("../../examples/", import.meta.url));
const files = readdirSync(folder).filter((name) => name.endsWith(".yaml"));
/** Files that speak of a kind which another file defines. */
const needs: Readonly<Record<string, string>> = { "gpu-reservation.yaml": "gpu-reservation-crd.yaml" };
const hasKubectl = spawnSync("kubectl", ["version", "--client"]).status === 0;

let server: ApiServer;
let scratch: string;

beforeEach(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom() });
  scratch = mkdtempSync(join(tmpdir(), "muster-examples-"));
});
afterEach(async () => {
  await server.stop();
  rmSync(scratch, { recursive: true, force: true });
});

function objectsOf(file: string): KubeObject[] {
  return parseAllDocuments(readFileSync(join(folder, file), "utf8")).map((document) => document.toJS() as KubeObject);
}

async function apply(object: KubeObject, force = false): Promise<KubeObject> {
  const { core } = server;
  const resource = core.registry.kind(object.apiVersion, object.kind);
  if (resource === undefined) throw new Error(`${object.apiVersion} ${object.kind} is not served`);
  const { name, namespace = "" } = object.metadata;
  const target = { resource, namespace, name, subresource: "" };
  const warnings: string[] = [];
  const call = {
    ...systemCall("examples"),
    fieldValidation: "Strict" as const,
    warn: (text: string) => warnings.push(text),
    force,
  };
  const written = await patchObject(core, target, "apply", sentByUs(object), call);
  expect(warnings).toEqual([]);
  // A definition is served once its controller has established it.
  await server.controllers.idle();
  return written.version.object();
}

describe("every example", () => {
  test("that a message or the dashboard names exists", () => {
    const src = join(folder, "../src");
    const named = readdirSync(src, { recursive: true, encoding: "utf8" })
      .filter((path) => /(?<!\.test)\.tsx?$/.test(path))
      .flatMap((path) => readFileSync(join(src, path), "utf8").match(/\bexamples\/[\w/.-]+\.yaml/g) ?? []);
    expect(named.length).toBeGreaterThan(2);
    expect(named.filter((path) => !existsSync(join(folder, "..", path)))).toEqual([]);
  });

  test("has a line in the README of the examples", () => {
    const page = readFileSync(join(folder, "README.md"), "utf8");
    expect(files.filter((file) => !page.includes(`[${file}](${file})`))).toEqual([]);
  });

  test.each(files)("%s is applied without a warning, and again without a change", async (file) => {
    for (const object of needs[file] === undefined ? [] : objectsOf(needs[file])) await apply(object);
    for (const object of objectsOf(file)) {
      const first = await apply(object);
      const again = await apply(object);
      expect(withoutControllers(again)).toEqual(withoutControllers(first));
    }
  });

  test.skipIf(!hasKubectl).each(files)("%s is applied by kubectl (needs kubectl on the PATH)", async (file) => {
    const kubeconfig = join(scratch, "kubeconfig");
    writeFileSync(kubeconfig, server.kubeconfig, { mode: 0o600 });
    for (const one of needs[file] === undefined ? [file] : [needs[file], file]) {
      const applied = await kubectl(["apply", "-f", join(folder, one)], kubeconfig);
      expect(applied).toMatchObject({ code: 0, err: "" });
      expect(applied.out.trim().split("\n")).toHaveLength(objectsOf(one).length);
      await server.controllers.idle();
    }
  });
});

describe("the rules of the GpuReservation example", () => {
  test.each([
    { name: "part of a node may be reserved", spec: { model: "h100", count: 3 }, refused: undefined },
    { name: "two whole nodes may be reserved", spec: { model: "h100", count: 16 }, refused: undefined },
    { name: "one and a half nodes may not", spec: { model: "h100", count: 12 }, refused: /in whole nodes/ },
    { name: "an unknown model may not", spec: { model: "abacus", count: 8 }, refused: /Unsupported value/ },
  ])("$name", async ({ spec, refused }) => {
    const [definition] = objectsOf("gpu-reservation-crd.yaml") as [KubeObject];
    const [reservation] = objectsOf("gpu-reservation.yaml") as [KubeObject];
    await apply(definition);
    const attempt = apply({ ...reservation, spec } as KubeObject);
    if (refused === undefined) expect((await attempt)["spec"]).toEqual({ ...spec, perNode: 8 });
    else await expect(attempt).rejects.toThrow(refused);
  });

  test("the model of a reservation cannot be changed", async () => {
    const [definition] = objectsOf("gpu-reservation-crd.yaml") as [KubeObject];
    const [reservation] = objectsOf("gpu-reservation.yaml") as [KubeObject];
    await apply(definition);
    await apply(reservation);
    const changed = { ...reservation, spec: { model: "b200", count: 16 } } as KubeObject;
    await expect(apply(changed)).rejects.toThrow(/keeps its model/);
  });
});

/** What the applier wrote: controllers write status, and with it a revision, whenever they get to it. */
function withoutControllers({ status: _, metadata, ...rest }: KubeObject): object {
  const { resourceVersion: __, managedFields = [], ...meta } = metadata;
  const ours = (managedFields as { manager?: string }[]).filter(({ manager }) => manager?.endsWith("examples"));
  return { ...rest, metadata: { ...meta, managedFields: ours } };
}

/** Without blocking the loop: the server that answers lives in it. */
function kubectl(args: string[], kubeconfig: string): Promise<{ code: number | null; out: string; err: string }> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, KUBECONFIG: kubeconfig, HOME: scratch };
    const child = spawn("kubectl", args, { env, stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    let err = "";
    child.stdout.on("data", (text) => {
      out += text;
    });
    child.stderr.on("data", (text) => {
      err += text;
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, out, err }));
  });
}
