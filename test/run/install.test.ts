/** `muster install` and `muster uninstall` on the embedded server: what the cluster has before and afterwards. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { applyInstallation, type Installed } from "../../src/cli/install/installApply.ts";
import { installKinds, resourceOf } from "../../src/cli/install/installKinds.ts";
import { manifestsOf } from "../../src/cli/install/installManifests.ts";
import { installedComponents, installedDefinitions } from "../../src/cli/install/installObjects.ts";
import { readValues } from "../../src/cli/install/installValues.ts";
import { removeInstallation, type Uninstalled } from "../../src/cli/install/uninstallObjects.ts";
import { ensureDefinitions, ensureStartObjects } from "../../src/control/assembly/ensureObjects.ts";
import { ensureWebhooks } from "../../src/control/webhooks/ensureWebhooks.ts";
import { webhookConfigurations } from "../../src/control/webhooks/webhookConfigurations.ts";
import { finalizers, gangResources } from "../../src/model/gang/keys.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import { type Refusal, refused } from "../../src/model/outcome.ts";
import type { KubeApi, ObjectRef, WriteOptions } from "../../src/ports/kubeApi.ts";

const namespace = "muster-system";
const pods: Resource = { group: "", version: "v1", plural: "pods" };

let server: ApiServer;
let kube: KubeApi;
let before: string[];

beforeEach(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom() });
  kube = kubeAs("admin");
  before = await world();
});
afterEach(() => server.stop());

function kubeAs(fieldManager: string): KubeApi {
  return inProcessKube(server.core, { user: { username: "admin", groups: ["system:masters"] }, fieldManager });
}

/**
 * Every object of a kind that an installation may have, by name. What the server makes in every namespace is its own.
 */
async function world(): Promise<string[]> {
  const names: string[] = [];
  for (const kind of installKinds.filter(({ isOptional }) => isOptional !== true)) {
    const found = await kube.list(resourceOf(kind));
    if (!found.ok) throw new Error(found.message);
    for (const { metadata } of found.value.items) {
      if (metadata.name === "default" && kind.kind === "ServiceAccount") continue;
      if (metadata.deletionTimestamp === undefined)
        names.push(`${kind.kind} ${metadata.namespace ?? ""}/${metadata.name}`);
    }
  }
  return names.sort();
}

async function install(values: object = {}, through: KubeApi = kube): Promise<Installed> {
  return applyInstallation(through, manifestsOf(await readValues(undefined, values as never), namespace));
}

function uninstall(
  options: { readonly definitions?: boolean; readonly dryRun?: boolean; readonly through?: KubeApi } = {},
): Promise<Uninstalled> {
  const { definitions = false, dryRun = false, through = kube } = options;
  return removeInstallation(
    { kube: through, clock: systemClock() },
    { namespace, definitions, dryRun, tell: () => {} },
  );
}

/** The same API, which refuses some writes for real and not when they are only tried. */
function refusing(verb: "patch" | "delete", plural: string, refusal: Refusal): KubeApi {
  return new Proxy(kube, {
    get: (target, property: keyof KubeApi) => {
      const method = target[property] as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => {
        const [ref, , options] = args as [ObjectRef, unknown, WriteOptions | undefined];
        if (property === verb && ref.plural === plural && options?.dryRun !== true) return Promise.resolve(refusal);
        return method.apply(target, args);
      };
    },
  });
}

function object(apiVersion: string, kind: string, metadata: object, rest: object = {}): KubeObject {
  return { apiVersion, kind, metadata, ...rest } as unknown as KubeObject;
}

/** The resource without the type of its objects: what is written may be anything. */
const sets: Resource = gangResources.PodCliqueSet;
const set = object(
  "grove.io/v1alpha1",
  "PodCliqueSet",
  {
    name: "gang",
    namespace: "default",
    finalizers: [finalizers.PodCliqueSet, "example.com/other"],
  },
  {
    spec: {
      replicas: 1,
      template: {
        cliques: [
          { name: "a", spec: { roleName: "a", replicas: 1, podSpec: { containers: [{ name: "c", image: "i" }] } } },
        ],
      },
    },
  },
);

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}

describe("muster install", () => {
  test("makes everything, and the second time changes nothing", async () => {
    const wanted = manifestsOf(await readValues(undefined), namespace).length;
    const first = await install();
    expect([first.created.length, first.changed, first.left, first.removed]).toEqual([wanted, [], [], []]);
    const again = await install();
    expect([again.created, again.changed, again.unchanged.length]).toEqual([[], [], wanted]);
  });

  test("with fewer controllers takes away what the others had", async () => {
    await install();
    const { removed } = await install({ controllers: ["scheduler", "binder"] });
    expect([...removed].sort()).toEqual([
      "ClusterRole muster-gang",
      "ClusterRoleBinding muster-gang",
      "MutatingWebhookConfiguration muster-gang",
      "ValidatingWebhookConfiguration muster-gang",
    ]);
  });

  test.each(["deployments", "clusterroles", "validatingwebhookconfigurations", "customresourcedefinitions"])(
    "that is rejected at the %s is rolled back",
    async (plural) => {
      const through = refusing("patch", plural, refused("Forbidden", "not today"));
      await expect(install({}, through)).rejects.toThrow(
        /was rejected: not today; all earlier changes were rolled back/,
      );
      await until(async () => (await world()).join() === before.join());
    },
  );

  test("that is rejected at an upgrade restores the earlier objects", async () => {
    await install();
    const images = async (): Promise<string> => {
      const roles = await kube.list(resourceOf({ kind: "Role" }));
      const found = await kube.get({
        ...resourceOf({ kind: "PriorityClass" }),
        namespace: "",
        name: "muster-controllers",
      });
      return JSON.stringify([roles.ok && roles.value.items.map(({ rules }) => rules), found.ok, await world()]);
    };
    const earlier = await images();
    const through = refusing("patch", "validatingwebhookconfigurations", refused("Invalid", "no"));
    await expect(
      install({ replicas: 5, extraOwners: [{ apiGroups: ["x.io"], resources: ["xs"] }] }, through),
    ).rejects.toThrow(/was rejected: no/);
    expect(await images()).toBe(earlier);
    const deployment = await kube.get({ ...resourceOf({ kind: "Deployment" }), namespace, name: "muster" });
    expect(deployment).toMatchObject({ ok: true, value: { spec: { replicas: 2 } } });
  });

  test("that the server would refuse writes nothing at all", async () => {
    const writes: string[] = [];
    const watched = new Proxy(kube, {
      get: (target, property: keyof KubeApi) => {
        const method = target[property] as (...args: unknown[]) => unknown;
        return (...args: unknown[]) => {
          const [ref, , options] = args as [ObjectRef, unknown, WriteOptions | undefined];
          if (property === "patch" && options?.dryRun === true && ref.plural === "priorityclasses") {
            return Promise.resolve(refused("Invalid", "value is too high"));
          }
          if (["patch", "create", "update", "delete"].includes(property) && options?.dryRun !== true)
            writes.push(ref.name);
          return method.apply(target, args);
        };
      },
    });
    await expect(install({}, watched)).rejects.toThrow(/nothing was installed: PriorityClass .* would be rejected/);
    expect(writes).toEqual([]);
  });

  test("leaves definitions and priority classes of another program as they are, and names them", async () => {
    const queues = installedDefinitions().find(({ metadata }) => metadata.name === "queues.scheduling.run.ai");
    const foreign = { ...queues, metadata: { name: "queues.scheduling.run.ai", labels: { owner: "kai" } } };
    const made = await kube.create(resourceOf({ kind: "CustomResourceDefinition" }), foreign as unknown as KubeObject);
    expect(made).toMatchObject({ ok: true });
    const classes = resourceOf({ kind: "PriorityClass" });
    await kube.create(classes, object("scheduling.k8s.io/v1", "PriorityClass", { name: "train" }, { value: 7 }));
    const { left } = await install();
    expect([...left].sort()).toEqual(["CustomResourceDefinition queues.scheduling.run.ai", "PriorityClass train"]);
    expect(await kube.get({ ...classes, namespace: "", name: "train" })).toMatchObject({ value: { value: 7 } });
    await uninstall({ definitions: true });
    expect((await world()).filter((name) => /queues|train/.test(name))).toHaveLength(2);
  });

  test.each([
    [{ "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/part-of": "muster" }, /belongs to a Helm release/],
    [{}, /exists and was not created by `muster install`/],
  ])("over a role with labels %j is refused before anything is written", async (labels, message) => {
    const role = object("rbac.authorization.k8s.io/v1", "ClusterRole", { name: "muster-gang", labels }, { rules: [] });
    await kube.create(resourceOf(role), role);
    const now = await world();
    await expect(install()).rejects.toThrow(message);
    expect(await world()).toEqual(now);
  });
});

describe("muster install after another one", () => {
  test("of Helm, which kept the definitions, works with them and names them", async () => {
    const kept = { "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/part-of": "muster" };
    for (const definition of installedDefinitions()) {
      const metadata = { ...definition.metadata, labels: kept };
      await kube.create(resourceOf(definition), { ...definition, metadata } as unknown as KubeObject);
    }
    const { left } = await install();
    expect(left).toHaveLength(installedDefinitions().length);
  });

  test("that is still being deleted waits for nothing and is refused before anything is written", async () => {
    const queues = installedDefinitions().find(({ metadata }) => metadata.name === "queues.scheduling.run.ai");
    const metadata = { name: "queues.scheduling.run.ai", finalizers: ["example.com/slow"] };
    await kube.create(resourceOf({ kind: "CustomResourceDefinition" }), {
      ...queues,
      metadata,
    } as unknown as KubeObject);
    await kube.delete({ ...resourceOf({ kind: "CustomResourceDefinition" }), namespace: "", name: metadata.name });
    await expect(install()).rejects.toThrow(/queues.scheduling.run.ai is being deleted; nothing was installed/);
    expect(await world()).toEqual(before);
  });
});

describe("muster uninstall", () => {
  test("removes everything but the definitions, and says so", async () => {
    await install();
    const { notes, failed } = await uninstall();
    expect(failed).toEqual([]);
    expect(notes).toEqual([expect.stringMatching(/^11 CRDs are kept/)]);
    await until(
      async () => (await world()).filter((name) => !name.startsWith("CustomResource")).join() === before.join(),
    );
  });

  test("with --crds leaves nothing, although gangs had finalizers, and blocks nothing", async () => {
    await install();
    await until(async () => (await kube.list(gangResources.PodCliqueSet)).ok);
    // Nothing answers for the webhooks: this is a cluster whose processes have died.
    const hooks = await kube.create(sets, set);
    expect(hooks).toMatchObject({ ok: false });
    const { removed, failed } = await uninstall();
    expect(failed).toEqual([]);
    expect(removed[0]).toMatch(/^ValidatingWebhookConfiguration/);
    expect(await kube.create(sets, set)).toMatchObject({ ok: true });
    const pod = object(
      "v1",
      "Pod",
      { name: "p", namespace: "default" },
      {
        spec: { schedulerName: "kai-scheduler", containers: [{ name: "c", image: "i" }] },
      },
    );
    expect(await kube.create(pods, pod)).toMatchObject({ ok: true });
    const ref = { ...gangResources.PodCliqueSet, namespace: "default", name: "gang" };
    expect(await uninstall()).toMatchObject({ failed: [] });
    expect(await kube.get(ref)).toMatchObject({ value: { metadata: { finalizers: ["example.com/other"] } } });
    await kube.patch(ref, { type: "merge", body: { metadata: { finalizers: null } } });
    await uninstall({ definitions: true });
    await until(async () => (await world()).join() === before.join());
    await until(async () => !(await kube.list(gangResources.PodCliqueSet)).ok);
  });

  test("removes the webhooks before the processes, and the roles after them", async () => {
    await install();
    const { removed } = await uninstall();
    const kinds = [...new Set(removed.map((name) => name.split(" ")[0]))];
    const place = (kind: string): number => kinds.indexOf(kind);
    expect(kinds.slice(0, 3)).toEqual(["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "Deployment"]);
    expect(place("Deployment")).toBeLessThan(place("ClusterRole"));
    expect(kinds.at(-1)).toBe("Namespace");
  });

  test("that cannot remove one thing removes the others, and names it", async () => {
    await install();
    const { failed, removed } = await uninstall({
      through: refusing("delete", "services", refused("Forbidden", "no")),
    });
    expect(failed).toEqual(["Service muster-system/muster-metrics: no", "Service muster-system/muster-webhooks: no"]);
    expect(removed.some((name) => name.startsWith("ClusterRole "))).toBe(true);
  });

  test("with --dry-run only says what it would remove", async () => {
    await install();
    const now = await world();
    const { removed } = await uninstall({ dryRun: true, definitions: true });
    expect(removed.length).toBeGreaterThan(40);
    expect(await world()).toEqual(now);
  });

  test("removes what `muster run --install` made, which has no labels", async () => {
    const process = kubeAs("muster");
    const components = installedComponents();
    const clock = systemClock();
    expect(await ensureDefinitions({ kube: process, clock }, components)).toMatchObject({ ok: true });
    expect(await ensureStartObjects(process, components)).toMatchObject({ ok: true });
    const place = { client: { url: "https://127.0.0.1:1" }, authority: "", ownNamespace: namespace };
    expect(await ensureWebhooks(process, webhookConfigurations(components, place))).toMatchObject({ ok: true });
    expect((await world()).length).toBeGreaterThan(before.length);
    expect(await uninstall({ definitions: true })).toMatchObject({ failed: [] });
    await until(async () => (await world()).join() === before.join());
  });

  test("keeps reservations while pods with shares of GPUs run, and says so", async () => {
    const labels = { "runai-gpu-group": "g1" };
    const spec = { containers: [{ name: "c", image: "i" }] };
    await kube.create(pods, object("v1", "Pod", { name: "share", namespace: "default", labels }, { spec }));
    await install();
    const { notes, removed } = await uninstall();
    expect(notes[0]).toMatch(/^Namespace kai-resource-reservation is kept: 1 pods with GPU shares are running/);
    expect(removed).not.toContain("Namespace kai-resource-reservation");
  });

  test("of a release of Helm is refused before anything is removed", async () => {
    await install();
    const ref = { ...resourceOf({ kind: "Deployment" }), namespace, name: "muster" };
    const body = {
      metadata: {
        labels: { "app.kubernetes.io/managed-by": "Helm" },
        annotations: { "meta.helm.sh/release-name": "gpu" },
      },
    };
    await kube.patch(ref, { type: "merge", body });
    const now = await world();
    await expect(uninstall()).rejects.toThrow(/belongs to the release gpu of Helm; nothing was removed/);
    expect(await world()).toEqual(now);
  });
});
