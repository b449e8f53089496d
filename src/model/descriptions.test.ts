import { expect, test } from "vitest";
import { gangDefinitions } from "./gang/definitions.ts";
import type { Schema } from "./objects/crdSchema.ts";
import { schedulingDefinitions } from "./scheduling/definitions.ts";

/** The paths below `schema` that `kubectl explain` would print with `<no description>`. */
function undescribed(schema: Schema, path: string): string[] {
  const { items, additionalProperties, properties = {} } = schema;
  const inner = [items, additionalProperties].filter((each) => typeof each === "object") as Schema[];
  return [
    ...inner.flatMap((each) => undescribed(each, path)),
    ...Object.entries(properties).flatMap(([name, field]) => [
      ...((field.description ?? "") === "" ? [`${path}.${name}`] : []),
      ...undescribed(field, `${path}.${name}`),
    ]),
  ];
}

// apiVersion, kind and metadata are described by the API server.
test.each([...schedulingDefinitions, ...gangDefinitions].map((each) => ({ name: each.metadata.name, each })))(
  "every field of $name has a description",
  ({ each }) => {
    const schema = each.spec.versions[0]?.schema?.openAPIV3Schema as Schema;
    const { spec, status } = schema.properties as Record<"spec" | "status", Schema | undefined>;
    const described = { properties: { spec, ...(status && { status }) } } as Schema;
    expect(schema.description).toBeTruthy();
    expect(undescribed(described, "")).toEqual([]);
  },
);
