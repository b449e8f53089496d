import type { NewObject } from "../intent.ts";
import type { CustomResourceDefinition } from "../kubernetes.generated.ts";
import { type Schema, text } from "../objects/crdSchema.ts";

interface Shape {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly description: string;
  readonly isNamespaced: boolean;
  readonly shortNames?: string[];
  readonly hasStatus: boolean;
  readonly spec: Schema;
  readonly status?: Schema;
  readonly columns?: { name: string; type: string; jsonPath: string }[];
}

export type Definition = NewObject<CustomResourceDefinition>;

export function definition(shape: Shape): Definition {
  const { group, version, kind, plural, description, isNamespaced, shortNames, hasStatus, spec, status, columns } =
    shape;
  const properties = { apiVersion: text, kind: text, metadata: { type: "object" }, spec, ...(status && { status }) };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: isNamespaced ? "Namespaced" : "Cluster",
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        ...(shortNames && { shortNames }),
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { description, type: "object", properties } },
          ...(hasStatus && { subresources: { status: {} } }),
          ...(columns && { additionalPrinterColumns: columns }),
        },
      ],
    },
  };
}
