import { kubectlRows } from "./kubectlRows.ts";
import { configMap } from "./manifests.ts";

// Rows 84 to 90: access reviews and explain.
//
//   84 auth can-i          86 auth whoami    88 explain pod.spec     90 explain --recursive
//   85 auth can-i --list   87 --as           89 explain of a custom resource

const kubectlRow = kubectlRows("access");

const reader = (name: string) => [
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: { name },
    rules: [
      { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list"] },
      { apiGroups: ["apps"], resources: ["deployments"], verbs: ["*"], resourceNames: ["web"] },
    ],
  },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
    subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name }],
  },
];

kubectlRow("[84] auth can-i answers yes and no, and by exit code", async ({ row, expect }) => {
  await row.given(...reader("ann-84"));
  expect((await row.kubectl("auth can-i create pods")).text).toBe("yes");
  expect((await row.kubectl("auth can-i list configmaps --as ann-84")).text).toBe("yes");
  expect((await row.kubectl("auth can-i delete configmaps --as ann-84")).text).toBe("no\nexit 1");
  expect((await row.kubectl("auth can-i update deployments.apps/web --as ann-84")).text).toBe("yes");
  expect((await row.kubectl("auth can-i update deployments.apps/other --as ann-84")).text).toBe("no\nexit 1");
  expect((await row.kubectl("auth can-i get pods --subresource=log --as ann-84")).text).toBe("no\nexit 1");
  expect((await row.kubectl("auth can-i get /metrics")).text).toBe("yes");
  expect((await row.kubectl("auth can-i list configmaps --as ann-84 -n default")).text).toBe("no\nexit 1");
});

kubectlRow("[85] auth can-i --list shows the rules of the namespace", async ({ row, expect }) => {
  await row.given(...reader("ann-85"));
  const { text } = await row.kubectl("auth can-i --list --as ann-85");
  expect(text).toMatchInlineSnapshot(`
    "Resources   Non-Resource URLs   Resource Names   Verbs
    deployments.apps   []   [web]   [*]
    selfsubjectreviews.authentication.k8s.io   []   []   [create]
    selfsubjectaccessreviews.authorization.k8s.io   []   []   [create]
    selfsubjectrulesreviews.authorization.k8s.io   []   []   [create]
    configmaps   []   []   [get list]
                                                    [/api/*]   []   [get]
                                                    [/api]   []   [get]
                                                    [/apis/*]   []   [get]
                                                    [/apis]   []   [get]
                                                    [/healthz]   []   [get]
                                                    [/healthz]   []   [get]
                                                    [/livez]   []   [get]
                                                    [/livez]   []   [get]
                                                    [/openapi/*]   []   [get]
                                                    [/openapi]   []   [get]
                                                    [/readyz]   []   [get]
                                                    [/readyz]   []   [get]
                                                    [/version/]   []   [get]
                                                    [/version/]   []   [get]
                                                    [/version]   []   [get]
                                                    [/version]   []   [get]"
  `);
});

kubectlRow("[86] auth whoami says who the certificate, and who is impersonated", async ({ row, expect }) => {
  expect((await row.kubectl("auth whoami")).text).toMatchInlineSnapshot(`
    "ATTRIBUTE   VALUE
    Username   kubectl-86
    Groups   [system:masters system:authenticated]
    Extra: authentication.kubernetes.io/credential-id   [<certificate>]"
  `);
  expect((await row.kubectl("auth whoami --as ann --as-group crew")).text).toMatchInlineSnapshot(`
    "ATTRIBUTE   VALUE
    Username   ann
    Groups   [crew system:authenticated]"
  `);
});

kubectlRow("[87] --as acts as another user, and is refused what that user may not do", async ({ row, expect }) => {
  await row.given(...reader("ann-87"), configMap("c", { a: "1" }));
  expect((await row.kubectl("get configmap c -o name --as ann-87")).text).toBe("configmap/c");
  expect((await row.kubectl("get pods --as ann-87")).text).toBe(
    `! Error from server (Forbidden): pods is forbidden: User "ann-87" cannot list resource "pods" in API group "" in the namespace "row-87"\nexit 1`,
  );
  expect((await row.kubectl("delete configmap c --as ann-87")).text).toBe(
    `! Error from server (Forbidden): configmaps "c" is forbidden: User "ann-87" cannot delete resource "configmaps" in API group "" in the namespace "row-87"\nexit 1`,
  );
  expect((await row.kubectl("get nodes --as ann-87")).text).toBe(
    `! Error from server (Forbidden): nodes is forbidden: User "ann-87" cannot list resource "nodes" in API group "" at the cluster scope\nexit 1`,
  );
  expect((await row.kubectl("get configmaps -o name --as system:serviceaccount:row-87:robot")).text).toBe(
    `! Error from server (Forbidden): configmaps is forbidden: User "system:serviceaccount:row-87:robot" cannot list resource "configmaps" in API group "" in the namespace "row-87"\nexit 1`,
  );
});

kubectlRow(
  "[88] explain pod.spec.tolerations reads the OpenAPI document once and keeps it",
  async ({ row, expect }) => {
    const { text, code } = await row.kubectl("explain pod.spec.tolerations", { env: { KUBECACHEDIR: "cold-88" } });
    expect(code).toBe(0);
    await expect(text).toMatchFileSnapshot("golden/explain-tolerations.txt");
    const document = /^GET \/openapi\/v3\/api\/v1\?hash=/;
    expect(row.discovery().filter((line) => document.test(line))).toHaveLength(1);
    row.forget();
    expect((await row.kubectl("explain pods.spec.nodeName", { env: { KUBECACHEDIR: "cold-88" } })).code).toBe(0);
    expect(row.discovery().filter((line) => document.test(line))).toEqual([]);
    expect((await row.kubectl("explain pod.spec.nothing")).err).toBe('error: field "nothing" does not exist\n');
  },
);

kubectlRow("[89] explain of a custom resource reads the schema of its definition", async ({ row, expect }) => {
  await row.given({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "boats.row89.example.com" },
    spec: {
      group: "row89.example.com",
      scope: "Namespaced",
      names: { plural: "boats", kind: "Boat" },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              type: "object",
              description: "A boat floats.",
              properties: {
                spec: {
                  type: "object",
                  required: ["masts"],
                  properties: { masts: { type: "integer", description: "How many masts it has." } },
                },
              },
            },
          },
        },
      ],
    },
  });
  expect((await row.kubectl("explain boats.spec --api-version=row89.example.com/v1")).text).toMatchInlineSnapshot(`
    "GROUP:   row89.example.com
    KIND:   Boat
    VERSION:   v1

    FIELD: spec <Object>


    DESCRIPTION:
        <empty>
    FIELDS:
      masts	<integer> -required-
        How many masts it has."
  `);
});

kubectlRow("[90] explain --recursive prints the whole tree", async ({ row, expect }) => {
  const { text } = await row.kubectl("explain poddisruptionbudget --recursive");
  await expect(text).toMatchFileSnapshot("golden/explain-pdb-recursive.txt");
});
