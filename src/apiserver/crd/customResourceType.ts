import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import { copyJson, type JsonObject } from "../../model/objects/json.ts";
import { apiVersionOf, type KubeObject } from "../../model/objects/object.ts";
import { badRequest } from "../../model/objects/status.ts";
import { checkKind } from "../builtinResource.ts";
import type { ResourceType, Subresource } from "../builtinResources.ts";
import { definitionName } from "../builtinResources.ts";
import { sameVersion } from "../registry.ts";
import type { CustomFacts, Resource, Sent } from "../resource.ts";
import { DecodeError, type FieldValidation, strictErrors, strictMessage } from "../schema/decode.ts";
import { type Cell, nameColumn, type TableKind } from "../table/tableKind.ts";
import { isTerminating } from "./crdNames.ts";
import { type CustomResource, customResources } from "./customResource.ts";

const verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const changeVerbs = ["get", "patch", "update"];

/** Every served version of a definition, as the verbs see it. */
export function servedResources(crd: CustomResourceDefinition): Resource[] {
  // Compiled versions are cached by UID and generation, but accepted names can change without either.
  const { uid: _, ...metadata } = crd.metadata;
  const versions = customResources({ ...crd, metadata } as CustomResourceDefinition);
  const stored = versions.find((version) => version.isStorage) ?? versions[0];
  if (stored === undefined) return [];
  return versions
    .filter((version) => version.served || version.isStorage)
    .map((version) => resourceOf(crd, version, stored));
}

function resourceOf(crd: CustomResourceDefinition, version: CustomResource, stored: CustomResource): Resource {
  const type = typeOf(version, stored);
  const apiVersion = apiVersionOf(version.group, version.version);
  const kind = { apiVersion, kind: version.kind };
  return {
    type,
    apiVersion,
    groupResource: { group: version.group, resource: version.plural },
    schema: version.schema,
    strategy: {},
    deprecation: version.deprecationWarning || undefined,
    custom: factsOf(crd, version),
    decode: (sent, fieldValidation, warn) => decodeCustom(version, kind, sent, fieldValidation, warn),
    setDefaults: (object) => version.setDefaults(object as JsonObject),
    toStorage: version.isStorage ? sameVersion : (object) => converted(object, version.storageVersion, stored),
    fromStorage: readerOf(crd, version, apiVersion),
    table: tableOf(version),
    // Objects are stored in the storage version, and so are the values by which they are selected.
    selectFields: (object) => stored.selectFields(object as JsonObject),
  };
}

function typeOf(version: CustomResource, stored: CustomResource): ResourceType {
  const { group, plural, kind } = version;
  const subresources: Subresource[] = [];
  if (version.scale !== undefined) {
    subresources.push({
      name: "scale",
      group: "autoscaling",
      version: "v1",
      kind: "Scale",
      verbs: changeVerbs,
      definition: definitionName("autoscaling", "v1", "Scale"),
    });
  }
  if (version.hasStatus) {
    subresources.push({ name: "status", group, version: version.version, kind, verbs: changeVerbs, definition: "" });
  }
  return {
    group,
    version: version.version,
    plural,
    singular: version.singular,
    kind,
    listKind: version.listKind,
    shortNames: version.shortNames,
    categories: version.categories,
    namespaced: version.namespaced,
    verbs,
    subresources,
    selectableFields: stored.selectableFields,
    hasStatus: version.hasStatus,
    storageKey: `${group}/${plural}`,
    storageVersion: version.storageVersion,
    definition: "",
    virtual: false,
  };
}

function factsOf(crd: CustomResourceDefinition, version: CustomResource): CustomFacts {
  const paths = crd.spec.versions.find(({ name }) => name === version.version)?.subresources?.scale;
  return {
    definitionUid: crd.metadata.uid ?? "",
    terminating: isTerminating(crd.status) || crd.metadata.deletionTimestamp !== undefined,
    served: version.served,
    openApiSchema: version.openApiSchema,
    hasStatusSubresource: version.hasStatus,
    scale:
      version.scale === undefined || paths === undefined
        ? undefined
        : {
            specReplicasPath: paths.specReplicasPath,
            statusReplicasPath: paths.statusReplicasPath,
            labelSelectorPath: paths.labelSelectorPath,
          },
    validate: (object, old) => version.validate(object as JsonObject, old as JsonObject | undefined),
  };
}

function decodeCustom(
  version: CustomResource,
  kind: { apiVersion: string; kind: string },
  sent: Sent,
  fieldValidation: FieldValidation,
  warn: (text: string) => void,
): KubeObject {
  checkKind(kind, sent.value);
  const refuse = (why: string) =>
    badRequest(`${kind.kind} in version "${version.version}" cannot be handled as a ${kind.kind}: ${why}`);
  try {
    const { object, unknownPaths } = version.decode(copyJson(sent.value) as JsonObject);
    if (fieldValidation !== "Ignore" && unknownPaths.length + sent.duplicates.length > 0) {
      const complaints = strictErrors(unknownPaths, sent.duplicates, sent.positions);
      if (fieldValidation === "Strict") throw refuse(strictMessage(complaints));
      for (const text of complaints) warn(text);
    }
    object["kind"] = kind.kind;
    object["apiVersion"] = kind.apiVersion;
    object["metadata"] ??= {};
    return object as KubeObject;
  } catch (error) {
    if (error instanceof DecodeError) throw refuse(error.message);
    throw error;
  }
}

/** The object in another version, without the fields that this version does not have. The input is not changed. */
function converted(object: KubeObject, apiVersion: string, into: CustomResource): KubeObject {
  const copy = copyJson(object);
  copy.apiVersion = apiVersion;
  into.prune(copy as JsonObject);
  return copy;
}

/**
 * Objects that were written in another version or with an older schema are pruned and defaulted by this version. A
 * definition with one version that never changed needs neither.
 */
function readerOf(crd: CustomResourceDefinition, version: CustomResource, apiVersion: string): Resource["fromStorage"] {
  if ((crd.metadata.generation ?? 1) <= 1 && crd.spec.versions.length === 1) return sameVersion;
  const seen = new WeakMap<KubeObject, KubeObject>();
  return (object) => {
    const known = seen.get(object);
    if (known !== undefined) return known;
    const shown = converted(object, apiVersion, version);
    version.setDefaults(shown as JsonObject);
    seen.set(object, shown);
    return shown;
  };
}

function tableOf(version: CustomResource): TableKind {
  const { columns } = version;
  return {
    columns: [
      nameColumn,
      ...columns.map(({ name, type, format, description, priority }) => ({
        name,
        type,
        format,
        description,
        priority,
      })),
    ],
    cells: (object, nowMs) => [
      object.metadata.name,
      ...columns.map((column) => column.cell(object as JsonObject, nowMs) as Cell),
    ],
  };
}
