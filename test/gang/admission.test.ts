/** Validation of PodCliqueSets and topology bindings at the API server. */
import { beforeAll, describe, expect, test } from "vitest";
import { createAdmission } from "../../src/apiserver/admission/createAdmission.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { gangDefinitions } from "../../src/model/gang/definitions.ts";
import { gangHooks } from "../../src/model/gang/hooks.ts";
import { gangResources } from "../../src/model/gang/keys.ts";
import { defaultGangSettings, type GangSettings } from "../../src/model/gang/settings.ts";
import type { ClusterTopologyBinding, GroupTemplate, PodCliqueSet } from "../../src/model/gang/types.ts";
import type { AdmissionLookup } from "../../src/model/objects/admissionHook.ts";
import { invalid } from "../../src/model/objects/fieldError.ts";
import { copyJson } from "../../src/model/objects/json.ts";
import type { Unstored } from "../../src/model/objects/object.ts";
import { builtin } from "../../src/model/resources.generated.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { clique, pcs } from "./setBuilder.ts";

const definitions = builtin.CustomResourceDefinition;

async function serverWith(settings: Partial<GangSettings> = {}): Promise<{ kube: KubeApi; api: TestApi }> {
  const hooks = gangHooks({ ...defaultGangSettings, ...settings });
  const api = await TestApi.start({ admission: createAdmission({ hooks }) });
  const user = { username: "someone", groups: ["system:masters"] };
  const kube = inProcessKube(api.core, { user, fieldManager: "test" });
  for (const each of gangDefinitions) {
    expect(await kube.create(definitions, copyJson(each))).toMatchObject({ ok: true });
  }
  await api.settle();
  await kube.create(gangResources.ClusterTopologyBinding, binding("grove-topology"));
  return { kube, api };
}

const levels = ["zone", "block", "rack", "host"].map((domain) => ({ domain, key: `example.com/${domain}` }));
const binding = (name: string, spec: object = { levels }) =>
  ({
    apiVersion: "grove.io/v1alpha1",
    kind: "ClusterTopologyBinding",
    metadata: { name },
    spec,
  }) as Unstored<ClusterTopologyBinding>;

let server: Awaited<ReturnType<typeof serverWith>>;
beforeAll(async () => {
  server = await serverWith();
});

let made = 0;
async function create(set: PodCliqueSet, kube = server.kube) {
  made++;
  const named = { ...set, metadata: { ...set.metadata, name: set.metadata.name || `s${made}` } };
  return kube.create(gangResources.PodCliqueSet, copyJson(named));
}

const a = clique({ name: "a" });
const b = clique({ name: "b" });
const group = (fields: Partial<GroupTemplate> = {}): GroupTemplate => ({ name: "g", cliqueNames: ["a"], ...fields });

describe("defaults", () => {
  test("a minimal set gets the defaults", async () => {
    const bare = pcs("", [{ name: "a", spec: { podSpec: { containers: [{ name: "c", image: "i" }] } } } as never], {
      groups: [group({ scaleConfig: { maxReplicas: 3 } })],
    });
    const outcome = await create(bare);
    expect(outcome).toMatchObject({
      ok: true,
      value: {
        spec: {
          replicas: 1,
          template: {
            cliqueStartupType: "CliqueStartupTypeAnyOrder",
            terminationDelay: "4h0m0s",
            headlessServiceConfig: { publishNotReadyAddresses: true },
            cliques: [
              {
                spec: {
                  roleName: "",
                  replicas: 1,
                  minAvailable: 1,
                  podSpec: { restartPolicy: "Always", terminationGracePeriodSeconds: 30 },
                },
              },
            ],
            podCliqueScalingGroups: [{ replicas: 1, minAvailable: 1, scaleConfig: { minReplicas: 1 } }],
          },
        },
      },
    });
  });

  test("the minimum and the lower bound of scaling are the replicas", async () => {
    const set = pcs("", [clique({ name: "a", replicas: 3, spec: { autoScalingConfig: { maxReplicas: 5 } } })]);
    expect(await create(set)).toMatchObject({
      ok: true,
      value: {
        spec: { template: { cliques: [{ spec: { minAvailable: 3, autoScalingConfig: { minReplicas: 3 } } }] } },
      },
    });
  });
});

const share = (fields: object) => ({ name: "t", scope: "AllReplicas", ...fields }) as never;
const claimTemplate = (name: string, requests: unknown[] = [{ name: "gpu", exactly: { deviceClassName: "g" } }]) =>
  ({ name, templateSpec: { spec: { devices: { requests } } } }) as never;
const explicit = { cliqueStartupType: "CliqueStartupTypeExplicit" as const };
const pack = (required: string, more: object = {}) => ({ topologyName: "grove-topology", pack: { required }, ...more });

describe("refused", () => {
  const long = "x".repeat(43);
  test.each<{ rule: string; set: PodCliqueSet; says: string }>([
    { rule: "a name that is not a DNS subdomain", set: pcs("Bad_Name", [a]), says: "metadata.name" },
    {
      rule: "negative replicas",
      set: pcs("", [a], { replicas: -1 }),
      says: "spec.replicas: Invalid value: -1",
    },
    {
      rule: "a start-up type that does not exist",
      set: pcs("", [a], { template: { cliqueStartupType: "Sometimes" as never } }),
      says: "spec.template.cliqueStartupType",
    },
    {
      rule: "a claim template without a device request",
      set: pcs("", [a], { template: { resourceClaimTemplates: [claimTemplate("t", [])] } }),
      says: "spec.template.resourceClaimTemplates[0].templateSpec.spec.devices.requests: Required",
    },
    {
      rule: "two claim templates of one name",
      set: pcs("", [a], { template: { resourceClaimTemplates: [claimTemplate("t"), claimTemplate("t")] } }),
      says: "spec.template.resourceClaimTemplates[1].name: Duplicate",
    },
    {
      rule: "the same claim shared twice",
      set: pcs("", [a], { template: { resourceSharing: [share({}), share({})] } }),
      says: "spec.template.resourceSharing[1].name: Duplicate",
    },
    {
      rule: "a scope that does not exist",
      set: pcs("", [a], { template: { resourceSharing: [share({ scope: "Some" })] } }),
      says: "spec.template.resourceSharing[0].scope",
    },
    {
      rule: "a namespace for a template of the set itself",
      set: pcs("", [a], {
        template: { resourceClaimTemplates: [claimTemplate("t")], resourceSharing: [share({ namespace: "x" })] },
      }),
      says: "spec.template.resourceSharing[0].namespace: Invalid",
    },
    {
      rule: "an empty filter",
      set: pcs("", [a], { template: { resourceSharing: [share({ filter: {} })] } }),
      says: "spec.template.resourceSharing[0].filter: Required",
    },
    {
      rule: "a filter that names a clique that does not exist",
      set: pcs("", [a], { template: { resourceSharing: [share({ filter: { childCliqueNames: ["z"] } })] } }),
      says: "childCliqueNames[0]: Not found",
    },
    {
      rule: "a group's filter that names a clique of no member",
      set: pcs("", [a, b], { groups: [group({ resourceSharing: [share({ filter: { childCliqueNames: ["b"] } })] })] }),
      says: "podCliqueScalingGroups[0].resourceSharing[0].filter.childCliqueNames[0]: Not found",
    },
    { rule: "no clique at all", set: pcs("", []), says: "spec.template.cliques: Required" },
    {
      rule: "a clique name that is not a DNS subdomain",
      set: pcs("", [clique({ name: "A_b" })]),
      says: "cliques[0].name",
    },
    {
      rule: "an invalid label",
      set: pcs("", [clique({ name: "a", more: { labels: { "not a key": "x" } } })]),
      says: "spec.template.cliques[0].labels",
    },
    {
      rule: "a clique whose names would be too long",
      set: pcs("set", [clique({ name: long })]),
      says: "spec.template.cliques[0].name: Invalid",
    },
    {
      rule: "a group whose names would be too long",
      set: pcs("set", [clique({ name: "a" })], { groups: [group({ name: long })] }),
      says: "spec.template.podCliqueScalingGroups[0].name: Invalid",
    },
    {
      rule: "two cliques of one role",
      set: pcs("", [clique({ name: "a" }), clique({ name: "b", spec: { roleName: "role-a" } })]),
      says: "spec.template.cliques[1].spec.roleName: Duplicate",
    },
    {
      rule: "two schedulers",
      set: pcs("", [a, clique({ name: "b", pod: { schedulerName: "kai-scheduler" } })]),
      says: "all cliques must have the same schedulerName",
    },
    {
      rule: "a scheduler that is not enabled",
      set: pcs("", [clique({ name: "a", pod: { schedulerName: "volcano" } })]),
      says: "must be one of default-scheduler, kai-scheduler",
    },
    {
      rule: "no pods",
      set: pcs("", [clique({ name: "a", replicas: -1, min: 1 })]),
      says: "spec.replicas: Invalid",
    },
    {
      rule: "a minimum of zero",
      set: pcs("", [clique({ name: "a", min: 0 })]),
      says: "spec.minAvailable: Invalid",
    },
    {
      rule: "a minimum above the replicas",
      set: pcs("", [clique({ name: "a", replicas: 1, min: 2 })]),
      says: "spec.template.cliques[0].spec.minAvailable: Invalid value: 2",
    },
    {
      rule: "a clique that starts after itself",
      set: pcs("", [clique({ name: "a", after: ["a"] })], { template: explicit }),
      says: "spec.template.cliques[0].spec.startsAfter[0]: Invalid",
    },
    {
      rule: "a clique that starts after one that does not exist",
      set: pcs("", [clique({ name: "a", after: ["z"] })], { template: explicit }),
      says: "startsAfter[0]: Not found",
    },
    {
      rule: "the same clique twice",
      set: pcs("", [clique({ name: "a", after: ["b", "b"] }), b], { template: explicit }),
      says: "startsAfter[1]: Duplicate",
    },
    {
      rule: "a cycle",
      set: pcs("", [clique({ name: "a", after: ["b"] }), clique({ name: "b", after: ["a"] })], { template: explicit }),
      says: "in a cycle",
    },
    {
      rule: "scaling below the minimum",
      set: pcs("", [
        clique({ name: "a", replicas: 2, spec: { autoScalingConfig: { minReplicas: 1, maxReplicas: 3 } } }),
      ]),
      says: "autoScalingConfig.minReplicas: Invalid",
    },
    {
      rule: "an upper bound below the replicas",
      set: pcs("", [clique({ name: "a", replicas: 4, spec: { autoScalingConfig: { maxReplicas: 3 } } })]),
      says: "autoScalingConfig.maxReplicas: Invalid",
    },
    {
      rule: "a group of a clique that does not exist",
      set: pcs("", [a], { groups: [group({ cliqueNames: ["z"] })] }),
      says: "podCliqueScalingGroups[0].cliqueNames[0]: Not found",
    },
    {
      rule: "a clique in two groups",
      set: pcs("", [a], { groups: [group(), group({ name: "h" })] }),
      says: "podCliqueScalingGroups[1].cliqueNames[0]: Duplicate",
    },
    {
      rule: "a group's minimum above its replicas",
      set: pcs("", [a], { groups: [group({ replicas: 1, minAvailable: 2 })] }),
      says: "podCliqueScalingGroups[0].minAvailable: Invalid",
    },
    {
      rule: "a group that scales below its minimum",
      set: pcs("", [a], {
        groups: [group({ replicas: 2, minAvailable: 2, scaleConfig: { minReplicas: 1, maxReplicas: 3 } })],
      }),
      says: "scaleConfig.minReplicas: Invalid",
    },
    {
      rule: "a member of a group that scales by itself",
      set: pcs("", [clique({ name: "a", spec: { autoScalingConfig: { maxReplicas: 2 } } })], { groups: [group()] }),
      says: "spec.template.cliques[0].spec.autoScalingConfig: Forbidden",
    },
    {
      rule: "no delay before termination",
      set: pcs("", [a], { template: { terminationDelay: "0s" } }),
      says: "spec.template.terminationDelay: Invalid",
    },
    {
      rule: "a delay that is not a duration",
      set: pcs("", [a], { template: { terminationDelay: "soon" } }),
      says: "must be a duration",
    },
    {
      rule: "spread constraints",
      set: pcs("", [clique({ name: "a", pod: { topologySpreadConstraints: [{ maxSkew: 1 }] } })]),
      says: "podSpec.topologySpreadConstraints: Forbidden",
    },
    {
      rule: "a node",
      set: pcs("", [clique({ name: "a", pod: { nodeName: "n" } })]),
      says: "podSpec.nodeName: Forbidden",
    },
    {
      rule: "a variable twice",
      set: pcs("", [
        clique({ name: "a", pod: { containers: [{ name: "c", image: "i", env: [{ name: "X" }, { name: "X" }] }] } }),
      ]),
      says: "containers[0].env[1].name: Duplicate",
    },
    {
      rule: "MNNVL while it is disabled",
      set: pcs("", [a], { metadata: { annotations: { "grove.io/mnnvl-group": "x" } } }),
      says: "automatic MNNVL is not supported",
    },
    {
      rule: "kai-scheduler without a queue",
      set: pcs("", [clique({ name: "a", pod: { schedulerName: "kai-scheduler" } })]),
      says: "needs the label kai.scheduler/queue",
    },
    {
      rule: "a topology that does not exist",
      set: pcs("", [a], { template: { topologyConstraint: pack("rack", { topologyName: "nope" }) } }),
      says: "spec.template.topologyConstraint.topologyName: Not found",
    },
    {
      rule: "a domain that the topology lacks",
      set: pcs("", [a], { template: { topologyConstraint: pack("pod") } }),
      says: "pack.required: Invalid",
    },
    {
      rule: "a set with a narrower domain than its clique",
      set: pcs("", [clique({ name: "a", more: { topologyConstraint: pack("zone") } })], {
        template: { topologyConstraint: pack("rack") },
      }),
      says: "spec.template.cliques[0].topologyConstraint.pack.required: Invalid",
    },
    {
      rule: "a constraint without a topology",
      set: pcs("", [a], { template: { topologyConstraint: { pack: { required: "rack" } } } }),
      says: "spec.template.topologyConstraint.topologyName: Required",
    },
    {
      rule: "packDomain on the set",
      set: pcs("", [a], { template: { topologyConstraint: { topologyName: "grove-topology", packDomain: "rack" } } }),
      says: "packDomain is no longer accepted",
    },
    {
      rule: "packDomain on a clique",
      set: pcs("", [
        clique({ name: "a", more: { topologyConstraint: { topologyName: "grove-topology", packDomain: "rack" } } }),
      ]),
      says: "packDomain is no longer accepted in a clique",
    },
    {
      rule: "packDomain on a group",
      set: pcs("", [a], {
        groups: [group({ topologyConstraint: { topologyName: "grove-topology", packDomain: "rack" } })],
      }),
      says: "packDomain is no longer accepted in a scaling group",
    },
    {
      rule: "a constraint without a domain",
      set: pcs("", [a], { template: { topologyConstraint: { topologyName: "grove-topology" } } }),
      says: "a topology constraint needs pack",
    },
    {
      rule: "both forms of a constraint",
      set: pcs("", [a], { template: { topologyConstraint: pack("rack", { packDomain: "rack" }) } }),
      says: "exclude each other",
    },
    {
      rule: "an empty pack",
      set: pcs("", [a], { template: { topologyConstraint: { topologyName: "grove-topology", pack: {} } } }),
      says: "pack needs required or preferred",
    },
  ])("$rule", async ({ set, says }) => {
    const outcome = await create(set);
    expect(outcome).toMatchObject({ ok: false, reason: "Invalid", message: expect.stringContaining(says) });
  });
});

describe("a value in a pod template with another type than in a pod is refused with its path", () => {
  const root = "spec.template.cliques[1].spec.podSpec";
  test.each([
    { pod: { tolerations: [{ key: "a" }, { tolerationSeconds: "abc" }] }, path: "tolerations[1].tolerationSeconds" },
    { pod: { hostNetwork: "yes" }, path: "hostNetwork" },
    { pod: { nodeSelector: { gpu: true } }, path: "nodeSelector.gpu" },
    { pod: { containers: [{ name: "c", image: 1 }] }, path: "containers[0].image" },
    { pod: { containers: [{ name: "c", image: "i", ports: { http: 80 } }] }, path: "containers[0].ports" },
    { pod: { initContainers: "none" }, path: "initContainers" },
  ])("$path", async ({ pod, path }) => {
    const outcome = await create(pcs("", [a, clique({ name: "b", pod })]));
    expect(outcome).toMatchObject({ ok: false, reason: "Invalid", status: { code: 422 } });
    expect(outcome).toMatchObject({ message: expect.stringContaining(`${root}.${path}: Invalid value: `) });
    expect(outcome).toMatchObject({ message: expect.stringContaining("must be of type ") });
  });

  test("a quantity that is none", async () => {
    const pod = { containers: [{ name: "c", image: "i", resources: { limits: { cpu: "much" } } }] };
    const outcome = await create(pcs("", [a, clique({ name: "b", pod })]));
    expect(outcome).toMatchObject({ ok: false, reason: "Invalid", message: expect.stringContaining(`${root}: `) });
  });

  test("also in an update", async () => {
    expect(await create(pcs("updated", [a, b]))).toMatchObject({ ok: true });
    const set = copyJson(server.api.get("grove.io/podcliquesets", "default/updated")) as unknown as PodCliqueSet;
    Object.assign(set.spec.template.cliques[1]?.spec.podSpec ?? {}, { hostNetwork: "yes" });
    const at = { ...gangResources.PodCliqueSet, namespace: "default", name: "updated" };
    expect(await server.kube.update(at, set)).toMatchObject({
      ok: false,
      message: expect.stringContaining(`${root}.hostNetwork: `),
    });
  });

  test("but not where it was stored before and does not change", async () => {
    expect(await create(pcs("stored", [a]))).toMatchObject({ ok: true });
    const stored = server.api.get("grove.io/podcliquesets", "default/stored") as unknown as PodCliqueSet;
    const other = copyJson(stored);
    Object.assign(other.spec.template.cliques[0]?.spec.podSpec ?? {}, { hostNetwork: true });
    const hook = gangHooks(defaultGangSettings).find(({ name }) => name.startsWith("podcliqueset-validating"));
    const request = {
      uid: "",
      namespace: "default",
      name: "stored",
      user: { username: "u", groups: [] },
      dryRun: false,
    };
    const lookup: AdmissionLookup = {
      get: () => undefined,
      list: () => [],
      podSpecError: (_, field) => invalid(field, "", "another type"),
    };
    const review = (operation: "CREATE" | "UPDATE", oldObject?: PodCliqueSet) =>
      hook?.review({ ...request, operation, object: stored, oldObject }, lookup).allowed;
    expect([review("CREATE"), review("UPDATE", stored), review("UPDATE", other)]).toEqual([false, true, false]);
  });
});

describe("accepted", () => {
  test.each<{ fact: string; set: PodCliqueSet; warns?: string }>([
    {
      fact: "startsAfter has no effect without the explicit order",
      set: pcs("", [clique({ name: "a", after: ["z"] })]),
    },
    {
      fact: "a topology is inherited from the level above",
      set: pcs("", [clique({ name: "a", more: { topologyConstraint: { pack: { required: "host" } } } })], {
        template: { topologyConstraint: pack("rack") },
      }),
    },
    {
      fact: "a group whose upper bound is too low, with a warning",
      set: pcs("", [a], { groups: [group({ replicas: 3, scaleConfig: { maxReplicas: 2 } })] }),
      warns: "scaleConfig.maxReplicas",
    },
    {
      fact: "another restart policy, with a warning",
      set: pcs("", [clique({ name: "a", pod: { restartPolicy: "Never" } })]),
      warns: "restartPolicy",
    },
    {
      fact: "a queue that all cliques agree on",
      set: pcs("", [
        clique({
          name: "a",
          pod: { schedulerName: "kai-scheduler" },
          more: { labels: { "kai.scheduler/queue": "test" } },
        }),
      ]),
    },
    {
      fact: "MNNVL that is opted out of",
      set: pcs("", [a], { metadata: { annotations: { "grove.io/mnnvl-group": "none" } } }),
    },
  ])("$fact", async ({ set }) => {
    expect(await create(set)).toMatchObject({ ok: true });
  });

  test("topology constraints are refused where they are disabled", async () => {
    const { kube } = await serverWith({ topologyAware: false });
    const outcome = await create(pcs("", [a], { template: { topologyConstraint: pack("rack") } }), kube);
    expect(outcome).toMatchObject({ ok: false, message: expect.stringContaining("is disabled") });
  });
});

describe("a change", () => {
  const base = () =>
    pcs("", [clique({ name: "a", replicas: 2, min: 1, after: ["b"] }), clique({ name: "b" }), clique({ name: "c" })], {
      groups: [group({ cliqueNames: ["c"], replicas: 2 })],
      template: { ...explicit, topologyConstraint: pack("rack"), resourceSharing: [share({ name: "ext" })] },
    });
  test.each<{ rule: string; edit: (set: PodCliqueSet) => void; says?: string }>([
    {
      rule: "an added clique",
      edit: ({ spec }) => {
        spec.template.cliques.push(clique({ name: "d" }));
      },
      says: "cliques: Forbidden",
    },
    {
      rule: "another order of cliques",
      edit: ({ spec }) => {
        spec.template.cliques.reverse();
      },
      says: "start order",
    },
    {
      rule: "another role",
      edit: ({ spec }) => {
        spec.template.cliques[0]!.spec.roleName = "x";
      },
      says: "roleName",
    },
    {
      rule: "another minimum",
      edit: ({ spec }) => {
        spec.template.cliques[0]!.spec.minAvailable = 2;
      },
      says: "minAvailable",
    },
    {
      rule: "another start",
      edit: ({ spec }) => {
        spec.template.cliques[0]!.spec.startsAfter = ["c"];
      },
      says: "startsAfter",
    },
    {
      rule: "another start-up type",
      edit: ({ spec }) => {
        spec.template.cliqueStartupType = "CliqueStartupTypeAnyOrder";
      },
      says: "cliqueStartupType",
    },
    {
      rule: "other sharing",
      edit: ({ spec }) => {
        spec.template.resourceSharing = [];
      },
      says: "resourceSharing",
    },
    {
      rule: "another minimum of a group",
      edit: ({ spec }) => {
        spec.template.podCliqueScalingGroups![0]!.minAvailable = 2;
      },
      says: "podCliqueScalingGroups[0].minAvailable",
    },
    {
      rule: "a removed group",
      edit: ({ spec }) => {
        spec.template.podCliqueScalingGroups = [];
      },
      says: "Forbidden",
    },
    {
      rule: "another topology",
      edit: ({ spec }) => {
        spec.template.topologyConstraint = pack("zone");
      },
      says: "topologyConstraint",
    },
    {
      rule: "MNNVL added",
      edit: ({ metadata }) => {
        metadata.annotations = { "grove.io/mnnvl-group": "none" };
      },
      says: "grove.io/mnnvl-group",
    },
    {
      rule: "replicas, image, delay, priority and strategy may change",
      edit: ({ spec }) => {
        spec.replicas = 3;
        spec.updateStrategy = { type: "OnDelete" };
        spec.template.terminationDelay = "10s";
        spec.template.priorityClassName = "build";
        spec.template.cliques[0]!.spec.podSpec.containers[0]!.image = "registry/app:2";
      },
    },
  ])("$rule", async ({ edit, says }) => {
    const made = await create(base());
    expect(made).toMatchObject({ ok: true });
    if (!made.ok) return;
    const next = copyJson(made.value) as unknown as PodCliqueSet;
    edit(next);
    const ref = { ...gangResources.PodCliqueSet, namespace: "default", name: made.value.metadata.name };
    const outcome = await server.kube.update(ref, next);
    if (says === undefined) expect(outcome).toMatchObject({ ok: true });
    else expect(outcome).toMatchObject({ ok: false, reason: "Invalid", message: expect.stringContaining(says) });
  });
});

describe("a topology binding is refused", () => {
  const to = (schedulerName: string) => ({ schedulerName, topologyReference: "t" });
  test.each([
    ["a domain twice", { levels: [levels[0], { ...levels[1], domain: "zone" }] }, "spec.levels[1].domain: Duplicate"],
    ["a key twice", { levels: [levels[0], { ...levels[1], key: levels[0]?.key }] }, "spec.levels[1].key: Duplicate"],
    [
      "a scheduler twice",
      { levels, schedulerTopologyBindings: [to("kai-scheduler"), to("kai-scheduler")] },
      "spec.schedulerTopologyReferences[1].schedulerName: Duplicate",
    ],
    ["a scheduler that is not enabled", { levels, schedulerTopologyBindings: [to("volcano")] }, "is not enabled"],
    [
      "a scheduler without topology",
      { levels, schedulerTopologyBindings: [to("default-scheduler")] },
      "does not support topology",
    ],
    ["no level", { levels: [] }, "spec.levels"],
  ])("%s", async (_, spec, says) => {
    const outcome = await server.kube.create(gangResources.ClusterTopologyBinding, binding("bad", spec));
    expect(outcome).toMatchObject({ ok: false, reason: "Invalid", message: expect.stringContaining(says) });
  });
});

test("the authorizer lets only the operator change children, unless their set allows more", async () => {
  const { kube, api } = await serverWith({ authorizer: { enabled: true, exemptUsers: ["helper"] } });
  await create(pcs("s", [a]), kube);
  const as = (username: string) =>
    inProcessKube(api.core, { user: { username, groups: ["system:masters"] }, fieldManager: "t" });
  const child = (name: string) => ({
    apiVersion: "grove.io/v1alpha1",
    kind: "PodClique",
    metadata: {
      name,
      namespace: "default",
      labels: { "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "s" },
    },
    spec: { roleName: "", replicas: 1, podSpec: { containers: [{ name: "c" }] } },
  });
  const make = (username: string, name: string) => as(username).create(gangResources.PodClique, child(name));
  expect(await make("someone", "x")).toMatchObject({ ok: false, reason: "Forbidden" });
  expect(await make("helper", "x")).toMatchObject({ ok: true });
  expect(await make("system:muster", "y")).toMatchObject({ ok: true });
  const body = { metadata: { annotations: { "grove.io/disable-managed-resource-protection": "true" } } };
  await kube.patch({ ...gangResources.PodCliqueSet, namespace: "default", name: "s" }, { type: "merge", body });
  expect(await make("someone", "z")).toMatchObject({ ok: true });
});

test("scale subresources and short names are Grove's", async () => {
  for (const each of gangDefinitions) {
    const { names, versions } = each.spec as unknown as {
      names: { kind: string; shortNames: string[] };
      versions: { subresources: object; additionalPrinterColumns: { name: string }[] }[];
    };
    const columns = versions[0]!.additionalPrinterColumns.map(({ name }) => name).join(" ");
    expect({
      kind: names.kind,
      short: names.shortNames[0],
      scale: "scale" in versions[0]!.subresources,
      columns,
    }).toEqual(
      {
        PodCliqueSet: {
          kind: "PodCliqueSet",
          short: "pcs",
          scale: true,
          columns: "Replicas Available Updated PCLQs-Updated PCLQs-Total PCSGs-Updated PCSGs-Total Age",
        },
        PodClique: {
          kind: "PodClique",
          short: "pclq",
          scale: true,
          columns: "MinAvail Replicas Ready Scheduled Updated Gated MinBreached Age",
        },
        PodCliqueScalingGroup: {
          kind: "PodCliqueScalingGroup",
          short: "pcsg",
          scale: true,
          columns: "MinAvail Replicas Available Scheduled Updated PCLQs-Updated PCLQs-Total MinBreached Age",
        },
        PodGang: { kind: "PodGang", short: "pg", scale: false, columns: "Phase Age" },
        ClusterTopologyBinding: { kind: "ClusterTopologyBinding", short: "ct", scale: false, columns: "Domains Age" },
      }[names.kind],
    );
  }
});
