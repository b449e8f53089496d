import { type OpenApiSchema, patchDefinition, reference, statusDefinition } from "./openApiSchemas.ts";

/**
 * The operations of one resource. kubectl reads three things here: that a kind can be patched, that the server supports
 * `fieldValidation` and `dryRun` (then it leaves validation to the server), and which patch types it accepts (kubectl
 * sends strategic merge patches only to kinds that list them).
 */
export interface PathsOf {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  readonly schema: string;
  /** Empty where the kind cannot be listed. */
  readonly listSchema: string;
  readonly strategicMerge: boolean;
  readonly subresources: readonly {
    readonly name: string;
    readonly group: string;
    readonly version: string;
    readonly kind: string;
    readonly verbs: readonly string[];
    readonly schema: string;
  }[];
}

export function pathsFor(resource: PathsOf): Record<string, unknown> {
  const { group, version, plural, namespaced, verbs, schema, listSchema } = resource;
  const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  const collection = namespaced ? `${root}/namespaces/{namespace}/${plural}` : `${root}/${plural}`;
  const scope = namespaced ? [pathParameter("namespace")] : [];
  const paths: Record<string, unknown> = {};

  paths[collection] = {
    ...operation(
      verbs,
      "list",
      "get",
      "list",
      resource,
      [...listParameters, ...watchParameters],
      undefined,
      listSchema,
    ),
    ...operation(verbs, "create", "post", "post", resource, writeParameters, anyBody(schema), schema),
    ...operation(verbs, "deletecollection", "delete", "deletecollection", resource, [
      ...deleteParameters,
      ...listParameters,
    ]),
    // An empty list is lost by a client that decodes and encodes the document.
    ...(scope.length > 0 && { parameters: scope }),
  };
  if (namespaced && verbs.includes("list")) {
    const parameters = [...listParameters, ...watchParameters];
    paths[`${root}/${plural}`] = operation(verbs, "list", "get", "list", resource, parameters, undefined, listSchema);
  }
  if (verbs.includes("get")) {
    paths[`${collection}/{name}`] = {
      ...objectOperations(verbs, resource, schema, resource.strategicMerge),
      ...operation(verbs, "delete", "delete", "delete", resource, deleteParameters),
      parameters: [...scope, pathParameter("name")],
    };
  }
  for (const sub of resource.subresources) {
    if (sub.schema === "") continue;
    paths[`${collection}/{name}/${sub.name}`] = {
      ...objectOperations(sub.verbs, sub, sub.schema, resource.strategicMerge),
      ...operation(sub.verbs, "create", "post", "post", sub, writeParameters, anyBody(sub.schema), sub.schema),
      parameters: [...scope, pathParameter("name")],
    };
  }
  return paths;
}

type Kind = { readonly group: string; readonly version: string; readonly kind: string };

function objectOperations(verbs: readonly string[], of: Kind, schema: string, strategicMerge: boolean): OpenApiSchema {
  const patchTypes = [
    "application/json-patch+json",
    "application/merge-patch+json",
    ...(strategicMerge ? ["application/strategic-merge-patch+json"] : []),
    "application/apply-patch+yaml",
  ];
  const patchBody = Object.fromEntries(patchTypes.map((type) => [type, { schema: reference(patchDefinition) }]));
  return {
    ...operation(verbs, "get", "get", "get", of, [], undefined, schema),
    ...operation(verbs, "update", "put", "put", of, writeParameters, anyBody(schema), schema),
    ...operation(verbs, "patch", "patch", "patch", of, [...writeParameters, force], patchBody, schema),
  };
}

function operation(
  verbs: readonly string[],
  verb: string,
  method: string,
  action: string,
  { group, version, kind }: Kind,
  parameters: readonly OpenApiSchema[],
  body?: OpenApiSchema,
  answer: string = statusDefinition,
): OpenApiSchema {
  if (!verbs.includes(verb)) return {};
  const code = method === "post" ? "201" : "200";
  return {
    [method]: {
      ...(parameters.length > 0 ? { parameters } : {}),
      ...(body === undefined ? {} : { requestBody: { required: true, content: body } }),
      responses: {
        [code]: { description: "OK", content: { "application/json": { schema: reference(answer) } } },
      },
      "x-kubernetes-action": action,
      "x-kubernetes-group-version-kind": { group, version, kind },
    },
  };
}

function anyBody(schema: string): OpenApiSchema {
  return { "*/*": { schema: reference(schema) } };
}

function pathParameter(name: string): OpenApiSchema {
  return { name, in: "path", required: true, schema: { type: "string", uniqueItems: true } };
}

function query(name: string, type: "string" | "boolean" | "integer"): OpenApiSchema {
  return { name, in: "query", schema: { type, uniqueItems: true } };
}

const force = query("force", "boolean");
const writeParameters = [
  query("dryRun", "string"),
  query("fieldManager", "string"),
  query("fieldValidation", "string"),
];
const deleteParameters = [
  query("dryRun", "string"),
  query("gracePeriodSeconds", "integer"),
  query("propagationPolicy", "string"),
];
const listParameters = [
  query("continue", "string"),
  query("fieldSelector", "string"),
  query("labelSelector", "string"),
  query("limit", "integer"),
  query("resourceVersion", "string"),
  query("resourceVersionMatch", "string"),
];
const watchParameters = [
  query("allowWatchBookmarks", "boolean"),
  query("sendInitialEvents", "boolean"),
  query("timeoutSeconds", "integer"),
  query("watch", "boolean"),
];
