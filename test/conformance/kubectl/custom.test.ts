import type { Manifest } from "../changeCluster.ts";
import { kubectlRows } from "./kubectlRows.ts";

// Rows 91 to 94: custom resources.
//
//   91 apply a definition    92 wait until it is established    93 defaults, pruning, rules    94 columns

const kubectlRow = kubectlRows("custom");

/** Rows run concurrently: each has its own group and names. */
function groupOf(row: number): string {
  return `row${row}.example.com`;
}

/** A definition with everything that the rows test: defaults, pruning, a rule, columns, status and scale. */
function definition(row: number): Manifest {
  const group = groupOf(row);
  const names = { plural: `trains${row}`, singular: `train${row}`, kind: `Train${row}`, shortNames: [`tr${row}`] };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${names.plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { ...names, categories: [`rolling${row}`] },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          subresources: {
            status: {},
            scale: { specReplicasPath: ".spec.wagons", statusReplicasPath: ".status.wagons" },
          },
          additionalPrinterColumns: [
            { name: "Wagons", type: "integer", jsonPath: ".spec.wagons" },
            { name: "Line", type: "string", jsonPath: ".spec.line", priority: 1 },
            { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
          ],
          schema: {
            openAPIV3Schema: {
              type: "object",
              properties: {
                spec: {
                  type: "object",
                  "x-kubernetes-validations": [{ rule: "self.wagons <= self.wagonsMax", message: "too many wagons" }],
                  properties: {
                    wagons: { type: "integer", minimum: 1, default: 4 },
                    wagonsMax: { type: "integer", default: 12 },
                    line: { type: "string", enum: ["coast", "hills"] },
                  },
                },
                status: { type: "object", properties: { wagons: { type: "integer" } } },
              },
            },
          },
        },
        {
          name: "v1beta1",
          served: true,
          storage: false,
          deprecated: true,
          schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
        },
      ],
    },
  };
}

function train(row: number, name: string, spec: object): Manifest {
  return { apiVersion: `${groupOf(row)}/v1`, kind: `Train${row}`, metadata: { name }, spec };
}

kubectlRow("[91] apply of a definition makes the kind known", async ({ row, expect }) => {
  expect((await row.kubectl("apply -f -", { stdin: definition(91) })).text).toBe(
    "customresourcedefinition.apiextensions.k8s.io/trains91.row91.example.com created",
  );
  expect((await row.kubectl("apply -f -", { stdin: definition(91) })).text).toBe(
    "customresourcedefinition.apiextensions.k8s.io/trains91.row91.example.com unchanged",
  );
  expect((await row.kubectl("api-resources --api-group=row91.example.com")).text).toMatchInlineSnapshot(`
    "NAME   SHORTNAMES   APIVERSION   NAMESPACED   KIND
    trains91   tr91   row91.example.com/v1   true   Train91"
  `);
  expect((await row.kubectl("get crd trains91.row91.example.com")).text).toMatchInlineSnapshot(`
    "NAME   CREATED AT
    trains91.row91.example.com   <time>"
  `);
});

kubectlRow("[92] wait --for=condition=Established returns at once", async ({ row, expect }) => {
  const wait = row.start("wait --for=create crd/trains92.row92.example.com --timeout=20s");
  await row.requested(/customresourcedefinitions/);
  await row.kubectl("apply -f -", { stdin: definition(92) });
  await wait.ended();
  expect(
    (await row.kubectl("wait --for=condition=Established crd/trains92.row92.example.com --timeout=10s")).text,
  ).toBe("customresourcedefinition.apiextensions.k8s.io/trains92.row92.example.com condition met");
  const conditions = await row.kubectl([
    "get",
    "crd",
    "trains92.row92.example.com",
    "-o",
    "jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}{'\\n'}{end}",
  ]);
  expect(conditions.text).toBe("NamesAccepted=True NoConflicts\nEstablished=True InitialNamesAccepted");
});

kubectlRow("[93] a custom object is defaulted, pruned, and judged by schema and rules", async ({ row, expect }) => {
  await row.given(definition(93));
  const apply = (object: Manifest, flags = "") => row.kubectl(`apply ${flags}-f -`, { stdin: object });
  expect((await apply(train(93, "a", { line: "coast" }))).text).toBe("train93.row93.example.com/a created");
  expect(row.stored("row93.example.com/trains93", "a")?.["spec"]).toEqual({ line: "coast", wagons: 4, wagonsMax: 12 });
  expect((await apply(train(93, "b", { lane: 1 }))).text).toMatchInlineSnapshot(`
    "! Error from server (BadRequest): error when creating "STDIN": Train93 in version "v1" cannot be handled as a Train93: strict decoding error: unknown field "spec.lane"
    exit 1"
  `);
  expect((await apply(train(93, "b", { lane: 1 }), "--validate=false ")).text).toBe(
    "train93.row93.example.com/b created",
  );
  expect(row.stored("row93.example.com/trains93", "b")?.["spec"]).toEqual({ wagons: 4, wagonsMax: 12 });
  expect((await apply(train(93, "a", { line: "coast", wagons: 20 }))).text).toMatchInlineSnapshot(`
    "! The Train93 "a" is invalid: spec: Invalid value: "object": too many wagons
    exit 1"
  `);
  expect((await apply(train(93, "c", { line: "desert", wagons: 0 }))).text).toMatchInlineSnapshot(`
    "! The Train93 "c" is invalid:
    ! * spec.line: Unsupported value: "desert": supported values: "coast", "hills"
    ! * spec.wagons: Invalid value: 0: spec.wagons in body should be greater than or equal to 1
    ! * <nil>: Invalid value: "null": some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    exit 1"
  `);
  // kubectl uses merge patches for custom resources: they have no strategic merge patch.
  expect((await apply(train(93, "a", { line: "hills" }))).text).toBe("train93.row93.example.com/a configured");
  expect((await row.kubectl("scale train93 a --replicas=6")).text).toBe("train93.row93.example.com/a scaled");
  expect(row.stored("row93.example.com/trains93", "a")).toMatchObject({
    metadata: { generation: 3 },
    spec: { wagons: 6 },
  });
  expect((await row.kubectl(["patch", "train93", "a", "-p", '{"spec":{"wagons":5}}'])).text).toMatchInlineSnapshot(`
    "! error: application/strategic-merge-patch+json is not supported by row93.example.com/v1, Kind=Train93: the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml
    exit 1"
  `);
});

kubectlRow("[94] get of custom objects prints the columns of the definition", async ({ row, expect }) => {
  await row.given(definition(94));
  await row.given(train(94, "a", { line: "coast", wagons: 3 }), train(94, "b", {}));
  expect((await row.kubectl("get tr94")).text).toMatchInlineSnapshot(`
    "NAME   WAGONS   AGE
    a   3   <age>
    b   4   <age>"
  `);
  expect((await row.kubectl("get trains94 -o wide")).text).toMatchInlineSnapshot(`
    "NAME   WAGONS   LINE   AGE
    a   3   coast   <age>
    b   4   <age>"
  `);
  expect((await row.kubectl("get trains94.v1beta1.row94.example.com")).text).toBe(
    "NAME   AGE\na   <age>\nb   <age>\n! Warning: row94.example.com/v1beta1 Train94 is deprecated; use row94.example.com/v1 Train94",
  );
  expect((await row.kubectl("get rolling94 -o name")).out).toContain("train94.row94.example.com/a");
  expect((await row.kubectl("delete crd trains94.row94.example.com")).text).toBe(
    'customresourcedefinition.apiextensions.k8s.io "trains94.row94.example.com" deleted',
  );
  expect((await row.kubectl("get trains94")).text).toBe(
    `! Error from server (NotFound): Unable to list "row94.example.com/v1, Resource=trains94": the server could not find the requested resource\nexit 1`,
  );
});
