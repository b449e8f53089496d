/** The chart, the manifests for kubectl and the roles come from one source; Helm reads the chart as we do. */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, parseAllDocuments, stringify } from "yaml";
import { deployFiles } from "../../src/cli/install/installFiles.ts";
import { manifestsOf } from "../../src/cli/install/installManifests.ts";
import { installedDefinitions } from "../../src/cli/install/installObjects.ts";
import { componentRights } from "../../src/cli/install/installRights.ts";
import { each, evaluate, type Tree, templateOf, type Values, when } from "../../src/cli/install/installTree.ts";
import { installVersion, readValues, usualValues, valuesText } from "../../src/cli/install/installValues.ts";
import { groupers, passedOver } from "../../src/decide/schedule/grouper/kinds.ts";
import { gangDefinitions } from "../../src/model/gang/definitions.ts";
import type { NewObject } from "../../src/model/intent.ts";
import { schedulingDefinitions } from "../../src/model/scheduling/definitions.ts";
import { type ServerForClients, serverForClients } from "../clientNode/serverForClients.ts";

const root = join(import.meta.dirname, "../..");
const deploy = join(root, "deploy");
const chart = join(deploy, "chart");
const helm = process.env["HELM"] ?? "helm";
const hasHelm = spawnSync(helm, ["version"]).status === 0;
const hasKubectl = spawnSync("kubectl", ["version", "--client"]).status === 0;
const folder = mkdtempSync(join(tmpdir(), "muster-chart-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function filesUnder(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => filesUnder(join(path, name)));
}

describe("what deploy/ has of the controllers", () => {
  test("is what tools/genDeploy.ts writes: run `npm run deploy` after a change", async () => {
    for (const [path, text] of await deployFiles())
      expect([path, readFileSync(join(deploy, path), "utf8")]).toEqual([path, text]);
  });

  test("has no file in the chart that the tool does not write", async () => {
    const written = new Set((await deployFiles()).keys());
    expect(
      filesUnder(chart)
        .map((file) => relative(deploy, file))
        .filter((file) => !written.has(file)),
    ).toEqual([]);
  });

  test("has the definitions of the model, each labelled with the version of the program", () => {
    const wanted = [...schedulingDefinitions, ...gangDefinitions].map(({ metadata }) => metadata.name);
    const files = readdirSync(join(chart, "files/crds")).map((name) => name.replace(/\.yaml$/, ""));
    for (const name of wanted) expect(files).toContain(name);
    expect(files).toHaveLength(installedDefinitions().length);
    for (const name of files) {
      const { metadata, spec } = parse(readFileSync(join(chart, `files/crds/${name}.yaml`), "utf8")) as NewObject;
      const labels = { "app.kubernetes.io/part-of": "muster", "app.kubernetes.io/version": installVersion };
      expect(metadata).toEqual({ name, labels });
      const known = [...schedulingDefinitions, ...gangDefinitions].find((one) => one.metadata.name === name);
      if (known !== undefined) expect(spec).toEqual(JSON.parse(JSON.stringify(known.spec)));
    }
  });

  test("has the version of package.json", () => {
    expect(installVersion).toBe(
      (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string }).version,
    );
  });

  test("says all defaults in values.yaml", () => {
    expect(parse(valuesText())).toEqual(usualValues());
  });
});

describe("rights", () => {
  const rights = Object.values(componentRights).flat();

  test("name every group, resource and verb: nothing is given by a star", () => {
    for (const { apiGroups, resources, verbs } of rights) {
      for (const word of [...apiGroups, ...resources, ...verbs]) expect(word).not.toContain("*");
    }
  });

  test("lead neither into containers nor to the kubelet's API, and only the gang operator reads Secrets", () => {
    const resources = rights.flatMap((right) => right.resources);
    for (const one of ["pods/exec", "pods/attach", "pods/portforward", "nodes/proxy", "services/proxy"]) {
      expect(resources).not.toContain(one);
    }
    for (const name of ["scheduler", "binder"] as const) {
      expect(componentRights[name].flatMap((right) => right.resources)).not.toContain("secrets");
    }
  });

  test("let the pod grouper read every kind of owner that it knows how to group", () => {
    const readable = new Set(
      componentRights.scheduler
        .filter(({ verbs }) => verbs.includes("get"))
        .flatMap(({ apiGroups, resources }) => apiGroups.flatMap((group) => resources.map((one) => `${group}/${one}`))),
    );
    for (const kind of [...Object.keys(groupers), ...passedOver]) expect(readable).toContain(`${kind.toLowerCase()}s`);
  });

  test("to make and delete pods are the binder's in the namespace of reservations alone", async () => {
    const roles = manifestsOf(await readValues(undefined), "muster-system").filter(({ kind }) => kind.endsWith("Role"));
    const making = roles.filter((role) =>
      (role["rules"] as { resources: string[]; verbs: string[] }[]).some(
        ({ resources, verbs }) => resources.includes("pods") && verbs.includes("create"),
      ),
    );
    expect(making.map(({ kind, metadata }) => `${kind} ${metadata.namespace ?? ""} ${metadata.name}`)).toEqual([
      "ClusterRole  muster-gang",
      "Role kai-resource-reservation muster-binder",
    ]);
  });
});

describe("settings that make no sense", () => {
  test.each([
    [{ replicas: 0 }, "replicas is 0: it must be from 1 to 9"],
    [{ replicas: "two" }, 'replicas is "two": it must be of type integer'],
    [{ logLevel: "loud" }, 'logLevel is "loud": choose from debug, info, warn, error'],
    [{ logLvel: "info" }, "there is no setting logLvel"],
    [{ image: { tga: "1" } }, "there is no setting image.tga"],
    [{ image: "muster:1" }, "image is not a mapping"],
    [{ image: { repository: "UPPER" } }, 'image.repository is "UPPER": it must match'],
    [{ controllers: [] }, "controllers must not be empty"],
    [{ controllers: ["sheduler"] }, 'controllers[0] is "sheduler": choose from scheduler, binder, gang'],
    [{ webhooks: { certificates: "vault" } }, 'webhooks.certificates is "vault": choose from own, cert-manager'],
    [{ resources: { requests: { cpu: "lots" } } }, 'resources.requests.cpu is "lots": it must be an amount'],
    [{ resources: { request: {} } }, "there is no setting resources.request"],
    [{ extraOwners: [{ apiGroups: ["x.io"] }] }, "extraOwners[0] lacks resources"],
    [{ nodeSelector: { gpu: true } }, "nodeSelector.gpu is true: it must be of type string"],
  ])("%j are refused with a sentence", async (values, sentence) => {
    const file = join(folder, "values.yaml");
    writeFileSync(file, stringify(values));
    const refusal = await readValues(file).then(
      () => "accepted",
      (error: Error) => error.message,
    );
    expect(refusal).toContain(sentence);
    if (hasHelm) expect(rendered(values)).toMatch(/values don't meet the specifications of the schema/);
  });
});

/** What Helm makes of the chart: its objects, or what it says instead. */
function rendered(values: object): NewObject[] | string {
  const file = join(folder, "rendered-values.yaml");
  writeFileSync(file, stringify(values));
  const args = ["template", "muster", chart, "-n", "muster-system", "--kube-version", "1.36.0", "-f", file];
  const { status, stdout, stderr } = spawnSync(helm, args, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  if (status !== 0) return stderr;
  return parseAllDocuments(stdout).flatMap((document) => (document.toJS() as NewObject | null) ?? []);
}

/** By name; what Helm adds and leaves out by its nature is left out here too. */
function comparable(objects: readonly NewObject[]): Record<string, unknown> {
  const entries = objects
    .filter(({ kind, metadata }) => !(kind === "Namespace" && metadata.name === "muster-system"))
    .map((object) => {
      const { annotations, ...metadata } = object.metadata as NewObject["metadata"] & { annotations?: object };
      const { "helm.sh/resource-policy": _, ...others } = (annotations ?? {}) as Record<string, string>;
      const kept = Object.keys(others).length === 0 ? metadata : { ...metadata, annotations: others };
      const text = JSON.stringify({ ...object, metadata: kept }).replaceAll('"Helm"', '"muster"');
      return [`${object.kind} ${object.metadata.namespace ?? ""}/${object.metadata.name}`, JSON.parse(text)];
    });
  return Object.fromEntries(entries);
}

describe.skipIf(!hasHelm)("Helm (needs helm on the PATH, or HELM)", () => {
  test("finds nothing to complain about", () => {
    const { status, stdout } = spawnSync(helm, ["lint", "--strict", chart], { encoding: "utf8" });
    expect([status, stdout]).toEqual([0, expect.stringContaining("0 chart(s) failed")]);
  });

  test.each<[string, object]>([
    ["the defaults", {}],
    ["the scheduler alone", { controllers: ["scheduler"], replicas: 1 }],
    ["the gang operator alone, without definitions", { controllers: ["gang"], crds: { install: false } }],
    [
      "keys of cert-manager",
      { webhooks: { certificates: "cert-manager", failurePolicy: "Ignore", timeoutSeconds: 3 } },
    ],
    ["no webhooks", { webhooks: { enabled: false } }],
    [
      "everything that can be set",
      {
        image: { repository: "registry.example.com:5000/muster", tag: "1.2", pullPolicy: "Always" },
        imagePullSecrets: [{ name: "pull" }],
        extraArgs: ["--no-gpu-sharing", '--reservation-resources={"requests":{"cpu":"10m"}}'],
        extraOwners: [{ apiGroups: ["example.com"], resources: ["trainings"] }],
        resources: { requests: { cpu: 1, memory: "1Gi" }, limits: { memory: null } },
        nodeSelector: { pool: "system", "on/off": "x" },
        tolerations: [{ key: "a", operator: "Exists" }],
        podAnnotations: { a: 'b"\\<>&' },
        podLabels: { team: "infra", count: "1" },
        serviceAccount: { annotations: { role: "arn:x" } },
        priorityClass: { create: false, name: "system-cluster-critical" },
        podDisruptionBudget: { enabled: false },
        networkPolicy: { enabled: false },
        reservations: { image: "registry.example.com/resource-reservation:1", runtimeClassName: "nvidia" },
        serviceMonitor: { enabled: true, labels: { release: "prometheus" }, interval: "1m" },
        logLevel: "debug",
      },
    ],
  ])("renders the objects of `muster install`: %s", async (_, values) => {
    const file = join(folder, "install-values.yaml");
    writeFileSync(file, stringify(values));
    const found = rendered(values);
    if (typeof found === "string") throw new Error(found);
    const wanted = manifestsOf(await readValues(file), "muster-system");
    expect(comparable(found)).toEqual(JSON.parse(JSON.stringify(comparable(wanted))));
  });

  test("keeps the definitions when the release goes, unless it is asked not to", () => {
    const policies = (values: object): unknown[] => {
      const objects = rendered(values);
      if (typeof objects === "string") throw new Error(objects);
      return objects
        .filter(({ kind }) => kind === "CustomResourceDefinition")
        .map(({ metadata }) => metadata.annotations?.["helm.sh/resource-policy"]);
    };
    expect(new Set(policies({}))).toEqual(new Set(["keep"]));
    expect(new Set(policies({ crds: { keep: false } }))).toEqual(new Set([undefined]));
  });
});

describe.skipIf(!hasHelm || !hasKubectl)("kubectl and helm on the embedded server (needs both on the PATH)", () => {
  let world: ServerForClients;
  beforeAll(async () => {
    world = await serverForClients();
    writeFileSync(join(folder, "kubeconfig"), world.server.kubeconfig);
  });
  afterAll(() => world.server.stop());

  function run(program: string, ...args: string[]): Promise<{ code: number | null; out: string }> {
    return new Promise((done) => {
      const env = { ...process.env, HOME: folder, KUBECONFIG: join(folder, "kubeconfig") };
      const child = spawn(program, args, { env });
      let out = "";
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (out += chunk));
      child.once("close", (code) => done({ code, out }));
    });
  }

  test("what Helm renders is accepted, twice, and the second time changes nothing", async () => {
    await run("kubectl", "create", "namespace", "muster-system");
    const objects = rendered({});
    if (typeof objects === "string") throw new Error(objects);
    const file = join(folder, "rendered.yaml");
    writeFileSync(file, objects.map((object) => stringify(object, { aliasDuplicateObjects: false })).join("---\n"));
    const first = await run("kubectl", "apply", "--server-side", "-f", file);
    expect(first).toMatchObject({ code: 0 });
    expect(first.out.trim().split("\n")).toHaveLength(objects.length);
    const again = await run("kubectl", "diff", "--server-side", "-f", file);
    expect(again).toEqual({ code: 0, out: "" });
    expect(await run("kubectl", "delete", "--ignore-not-found", "-f", file)).toMatchObject({ code: 0 });
  });

  test("deploy/muster.yaml is accepted by kubectl apply, with and without --server-side", async () => {
    const file = join(deploy, "muster.yaml");
    expect(await run("kubectl", "apply", "-f", file)).toMatchObject({ code: 0 });
    expect(await run("kubectl", "apply", "--server-side", "--force-conflicts", "-f", file)).toMatchObject({ code: 0 });
    expect(await run("kubectl", "delete", "--ignore-not-found", "--wait=false", "-f", file)).toMatchObject({ code: 0 });
  });
});

describe("a tree", () => {
  const tree: Tree = {
    name: "«a.name»-x",
    list: ["fixed", when("a.name", "named"), each("items")],
    maybe: when({ path: "kind", equals: "b" }, { deep: [{ only: when("none", 1), kept: "yes" }] }),
    more: each("words"),
  };
  const values: Values = { a: { name: "n" }, items: ["i", "j"], kind: "b", none: [], words: { w: "1" } };

  test("has settings in it, conditions, and items of lists", () => {
    expect(evaluate(tree, values)).toEqual({
      name: "n-x",
      list: ["fixed", "named", "i", "j"],
      maybe: { deep: [{ kept: "yes" }] },
      w: "1",
    });
  });

  test("that names a setting which does not exist is a mistake", () => {
    expect(() => evaluate("«nope»", values)).toThrow("there is no setting nope");
  });

  test("as a template asks Helm the same questions", () => {
    expect(templateOf(tree)).toContain('{{- if eq .Values.kind "b" }}\nmaybe:');
  });
});
