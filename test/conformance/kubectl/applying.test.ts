import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Manifest } from "../changeCluster.ts";
import { kubectlRows } from "./kubectlRows.ts";
import { configMap, deployment, pod } from "./manifests.ts";

// Rows 43 to 56: apply, replace and edit.
//
//   43 apply creates           47 apply --server-side     51 apply --dry-run=server   54 replace
//   44 apply without change    48 conflict                52 diff                     55 replace --force
//   45 apply with a change     49 --force-conflicts       53 apply --prune            56 edit
//   46 a list element goes     50 from client to server

const kubectlRow = kubectlRows("applying");

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration";

/** A Deployment with two containers, so that a list item can be removed. */
function web(change: (spec: { containers: { name: string; image: string }[] }) => void = () => {}): Manifest {
  const made = deployment("web", { replicas: 2 });
  const spec = {
    containers: [
      { name: "main", image: "nginx:1.29" },
      { name: "side", image: "envoy:1" },
    ],
  };
  change(spec);
  (made["spec"] as { template: { spec: unknown } }).template.spec = spec;
  return made;
}

function containersOf(object: unknown): string[] {
  const { spec } = object as { spec: { template: { spec: { containers: { name: string; image: string }[] } } } };
  return spec.template.spec.containers.map((one) => `${one.name}=${one.image}`);
}

kubectlRow("[43] apply creates, and remembers what was applied", async ({ row, expect }) => {
  const { text } = await row.kubectl("apply -f -", { stdin: web() });
  expect(text).toBe("deployment.apps/web created");
  expect(row.requests()).toEqual([
    "GET /apis/apps/v1/namespaces/row-43/deployments/web",
    "GET /api/v1/namespaces/row-43",
    "POST /apis/apps/v1/namespaces/row-43/deployments?fieldManager=kubectl-client-side-apply&fieldValidation=Strict",
  ]);
  expect(row.stored("apps/deployments", "web")?.metadata.annotations).toHaveProperty([lastApplied]);
});

kubectlRow("[44] apply of the same again sends no change", async ({ row, expect }) => {
  await row.kubectl("apply -f -", { stdin: web() });
  const before = row.stored("apps/deployments", "web")?.metadata.resourceVersion;
  row.forget();
  const { text } = await row.kubectl("apply -f -", { stdin: web() });
  expect(text).toBe("deployment.apps/web unchanged");
  expect(row.requests()).toEqual(["GET /apis/apps/v1/namespaces/row-44/deployments/web"]);
  expect(row.stored("apps/deployments", "web")?.metadata.resourceVersion).toBe(before);
});

kubectlRow(
  "[45] apply with a change sends a strategic merge patch that names the order of the list",
  async ({ row, expect }) => {
    await row.kubectl("apply -f -", { stdin: web() });
    row.forget();
    const changed = web((spec) => {
      spec.containers[1] = { name: "side", image: "envoy:2" };
    });
    const { text } = await row.kubectl("apply -f -", { stdin: changed });
    expect(text).toBe("deployment.apps/web configured");
    expect(row.requests().at(-1)).toBe(
      "PATCH /apis/apps/v1/namespaces/row-45/deployments/web?fieldManager=kubectl-client-side-apply&fieldValidation=Strict",
    );
    expect(row.bodies(/^PATCH/)).toMatchObject([
      {
        spec: {
          template: {
            spec: {
              "$setElementOrder/containers": [{ name: "main" }, { name: "side" }],
              containers: [{ name: "side", image: "envoy:2" }],
            },
          },
        },
      },
    ]);
    const object = row.stored("apps/deployments", "web");
    expect(containersOf(object)).toEqual(["main=nginx:1.29", "side=envoy:2"]);
    expect(object?.metadata.generation).toBe(2);
  },
);

kubectlRow("[46] apply without a list element removes it, and keeps what others added", async ({ row, expect }) => {
  await row.kubectl("apply -f -", { stdin: web() });
  await row.patched({ ...web(), metadata: { name: "web", labels: { other: "here" } }, spec: { paused: true } });
  row.forget();
  const fewer = web((spec) => {
    spec.containers.pop();
  });
  expect((await row.kubectl("apply -f -", { stdin: fewer })).text).toBe("deployment.apps/web configured");
  expect(row.bodies(/^PATCH/)).toMatchObject([
    { spec: { template: { spec: { containers: [{ $patch: "delete", name: "side" }] } } } },
  ]);
  const object = row.stored("apps/deployments", "web");
  expect(containersOf(object)).toEqual(["main=nginx:1.29"]);
  expect(object).toMatchObject({ metadata: { labels: { app: "web", other: "here" } }, spec: { paused: true } });
});

kubectlRow("[47] apply --server-side creates and owns what it named", async ({ row, expect }) => {
  const first = await row.kubectl("apply --server-side -f -", { stdin: configMap("c", { a: "1" }) });
  expect(first.text).toBe("configmap/c serverside-applied");
  expect(row.requests()).toEqual([
    "PATCH /api/v1/namespaces/row-47/configmaps/c?fieldManager=kubectl&fieldValidation=Strict&force=false",
  ]);
  const object = row.stored("/configmaps", "c");
  expect(object?.metadata.managedFields).toMatchObject([
    { manager: "kubectl", operation: "Apply", apiVersion: "v1", fieldsV1: { "f:data": { "f:a": {} } } },
  ]);
  expect(object?.metadata.annotations).toBeUndefined();
  const again = await row.kubectl("apply --server-side -f -", { stdin: configMap("c", { b: "2" }) });
  expect(again.text).toBe("configmap/c serverside-applied");
  expect(row.stored("/configmaps", "c")).toMatchObject({ data: { b: "2" } });
  expect(row.stored("/configmaps", "c")?.["data"]).toEqual({ b: "2" });
});

kubectlRow(
  "[48] apply --server-side of a field that another manager holds is refused, field by field",
  async ({ row, expect }) => {
    await row.kubectl("apply --server-side --field-manager=first -f -", { stdin: web() });
    const mine = { ...web(), spec: { ...(web()["spec"] as object), replicas: 5, minReadySeconds: 0 } };
    const { text } = await row.kubectl("apply --server-side --field-manager=second -f -", { stdin: mine });
    expect(text).toMatchInlineSnapshot(`
    "! error: Apply failed with 1 conflict: conflict with "first": .spec.replicas
    ! Please review the fields above--they currently have other managers. Here
    ! are the ways you can resolve this warning:
    ! * If you intend to manage all of these fields, please re-run the apply
    !   command with the \`--force-conflicts\` flag.
    ! * If you do not intend to manage all of the fields, please edit your
    !   manifest to remove references to the fields that should keep their
    !   current managers.
    ! * You may co-own fields by updating your manifest to match the existing
    !   value; in this case, you'll become the manager if the other manager(s)
    !   stop managing the field (remove it from their configuration).
    ! See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts
    exit 1"
  `);
    expect(row.stored("apps/deployments", "web")).toMatchObject({ spec: { replicas: 2 } });
    const other = configMap("c", { a: "1", b: "1" });
    await row.kubectl("apply --server-side --field-manager=first -f -", { stdin: other });
    const two = await row.kubectl("apply --server-side --field-manager=second -f -", {
      stdin: configMap("c", { a: "2", b: "2" }),
    });
    expect(two.text).toMatchInlineSnapshot(`
    "! error: Apply failed with 2 conflicts: conflicts with "first":
    ! - .data.a
    ! - .data.b
    ! Please review the fields above--they currently have other managers. Here
    ! are the ways you can resolve this warning:
    ! * If you intend to manage all of these fields, please re-run the apply
    !   command with the \`--force-conflicts\` flag.
    ! * If you do not intend to manage all of the fields, please edit your
    !   manifest to remove references to the fields that should keep their
    !   current managers.
    ! * You may co-own fields by updating your manifest to match the existing
    !   value; in this case, you'll become the manager if the other manager(s)
    !   stop managing the field (remove it from their configuration).
    ! See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts
    exit 1"
  `);
  },
);

kubectlRow("[49] apply --force-conflicts takes the field over", async ({ row, expect }) => {
  await row.kubectl("apply --server-side --field-manager=first -f -", { stdin: configMap("c", { a: "1", b: "1" }) });
  const { text } = await row.kubectl("apply --server-side --field-manager=second --force-conflicts -f -", {
    stdin: configMap("c", { a: "2" }),
  });
  expect(text).toBe("configmap/c serverside-applied");
  const object = row.stored("/configmaps", "c");
  expect(object?.["data"]).toEqual({ a: "2", b: "1" });
  const owners = Object.fromEntries((object?.metadata.managedFields ?? []).map((one) => [one.manager, one.fieldsV1]));
  expect(owners).toEqual({
    first: { "f:data": { "f:b": {} } },
    second: { "f:data": { "f:a": {} } },
  });
});

kubectlRow(
  "[50] the first apply --server-side after client-side apply moves ownership over",
  async ({ row, expect }) => {
    await row.kubectl("apply -f -", { stdin: configMap("c", { a: "1", b: "1" }) });
    const { text } = await row.kubectl("apply --server-side -f -", { stdin: configMap("c", { a: "2" }) });
    expect(text).toBe("configmap/c serverside-applied");
    const object = row.stored("/configmaps", "c");
    // `b` was applied before and is left out now: with the ownership moved, it is removed.
    expect(object?.["data"]).toEqual({ a: "2" });
    expect(object?.metadata.managedFields?.map((one) => `${one.manager} ${one.operation}`).sort()).toEqual([
      "kubectl Apply",
      "kubectl-last-applied Apply",
    ]);
  },
);

kubectlRow("[51] apply --dry-run=server answers as if, and leaves nothing", async ({ row, expect }) => {
  const revision = row.server.core.store.revision;
  const { text } = await row.kubectl("apply --dry-run=server -o jsonpath={.metadata.uid}{.spec.strategy.type} -f -", {
    stdin: web(),
  });
  expect(text).toBe("<uid>RollingUpdate");
  expect(row.stored("apps/deployments", "web")).toBeUndefined();
  expect(row.requests().at(-1)).toContain("dryRun=All");
  expect(row.server.core.store.revision).toBeGreaterThanOrEqual(revision);
  await row.kubectl("apply -f -", { stdin: web() });
  const changed = await row.kubectl("apply --dry-run=server -f -", { stdin: web((spec) => spec.containers.pop()) });
  expect(changed.text).toBe("deployment.apps/web configured (server dry run)");
  expect(containersOf(row.stored("apps/deployments", "web"))).toHaveLength(2);
});

kubectlRow("[52] diff exits with 1 and shows the change, and changes nothing", async ({ row, expect }) => {
  await row.kubectl("apply -f -", { stdin: configMap("c", { a: "1" }) });
  const same = await row.kubectl("diff -f -", { stdin: configMap("c", { a: "1" }) });
  expect(same).toMatchObject({ code: 0, out: "" });
  const { code, out } = await row.kubectl("diff -f -", { stdin: configMap("c", { a: "2" }) });
  expect(code).toBe(1);
  expect(out.split("\n").filter((line) => /^[-+] /.test(line))).toEqual(['-   a: "1"', '+   a: "2"']);
  expect(row.stored("/configmaps", "c")).toMatchObject({ data: { a: "1" } });
});

kubectlRow("[53] apply --prune removes what was applied before and is not any more", async ({ row, expect }) => {
  const labels = { part: "row-53" };
  await row.kubectl("apply -f -", { stdin: [configMap("a", { x: "1" }, labels), configMap("b", { x: "1" }, labels)] });
  await row.given(configMap("mine", { x: "1" }, labels));
  row.forget();
  const { out } = await row.kubectl("apply --prune -l part=row-53 -f -", { stdin: configMap("a", { x: "1" }, labels) });
  expect(out).toBe("configmap/a unchanged\nconfigmap/b pruned\n");
  expect(row.stored("/configmaps", "b")).toBeUndefined();
  // Not applied, so not pruned.
  expect(row.stored("/configmaps", "mine")).toBeDefined();
  const listed = row.requests().filter((line) => /^GET .*labelSelector=part%3Drow-53/.test(line));
  expect(listed.map((line) => line.replace(/\?.*/, "")).sort()).toMatchInlineSnapshot(`
    [
      "GET /api/v1/namespaces",
      "GET /api/v1/namespaces/row-53/configmaps",
      "GET /api/v1/namespaces/row-53/endpoints",
      "GET /api/v1/namespaces/row-53/persistentvolumeclaims",
      "GET /api/v1/namespaces/row-53/pods",
      "GET /api/v1/namespaces/row-53/replicationcontrollers",
      "GET /api/v1/namespaces/row-53/secrets",
      "GET /api/v1/namespaces/row-53/services",
      "GET /api/v1/persistentvolumes",
      "GET /apis/apps/v1/namespaces/row-53/daemonsets",
      "GET /apis/apps/v1/namespaces/row-53/deployments",
      "GET /apis/apps/v1/namespaces/row-53/replicasets",
      "GET /apis/apps/v1/namespaces/row-53/statefulsets",
      "GET /apis/batch/v1/namespaces/row-53/cronjobs",
      "GET /apis/batch/v1/namespaces/row-53/jobs",
      "GET /apis/networking.k8s.io/v1/namespaces/row-53/ingresses",
    ]
  `);
});

kubectlRow("[54] replace puts the object with the revision it has, and refuses an old one", async ({ row, expect }) => {
  await row.given(configMap("c", { a: "1", b: "1" }));
  const { text } = await row.kubectl("replace -f -", { stdin: configMap("c", { a: "2" }) });
  expect(text).toBe("configmap/c replaced");
  expect(row.requests()).toEqual([
    "GET /api/v1/namespaces/row-54/configmaps/c",
    "PUT /api/v1/namespaces/row-54/configmaps/c?fieldManager=kubectl-replace&fieldValidation=Strict",
  ]);
  expect(row.stored("/configmaps", "c")?.["data"]).toEqual({ a: "2" });
  const old = configMap("c", { a: "3" });
  old.metadata["resourceVersion"] = "1";
  expect((await row.kubectl("replace -f -", { stdin: old })).text).toBe(
    `! Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest version and try again\nexit 1`,
  );
  expect((await row.kubectl("replace -f -", { stdin: configMap("none", {}) })).text).toBe(
    `! Error from server (NotFound): error when replacing "STDIN": configmaps "none" not found\nexit 1`,
  );
});

kubectlRow("[55] replace --force deletes and creates", async ({ row, expect }) => {
  await row.given(pod("p"));
  const before = row.stored("/pods", "p")?.metadata.uid;
  const { out } = await row.kubectl("replace --force -f -", { stdin: pod("p", { image: "redis:8" }) });
  expect(out).toBe('pod "p" deleted\npod/p replaced\n');
  expect(row.stored("/pods", "p")).toMatchObject({ spec: { containers: [{ image: "redis:8" }] } });
  expect(row.stored("/pods", "p")?.metadata.uid).not.toBe(before);
});

kubectlRow("[56] edit sends what the editor changed", async ({ row, expect }) => {
  await row.given(configMap("c", { a: "old" }));
  const editor = join(await row.directory(), "editor.sh");
  await writeFile(editor, '#!/bin/sh\nsed -i "s/a: old/a: new/" "$1"\n');
  await chmod(editor, 0o755);
  const { text } = await row.kubectl("edit configmap c", { env: { KUBE_EDITOR: editor } });
  expect(text).toBe("configmap/c edited");
  expect(row.requests().at(-1)).toBe(
    "PATCH /api/v1/namespaces/row-56/configmaps/c?fieldManager=kubectl-edit&fieldValidation=Strict",
  );
  expect(row.stored("/configmaps", "c")?.["data"]).toEqual({ a: "new" });
});
