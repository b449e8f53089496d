import type { KubeObject } from "../../model/objects/object.ts";
import type { ResourceType } from "../builtinResources.ts";
import type { Resource } from "../resource.ts";
import type { Core } from "../verbs/core.ts";
import type { AdmissionAttributes } from "./admission.ts";

/** A request as webhooks and expressions see it. */
export interface AdmissionRequest {
  readonly [field: string]: unknown;
}

/**
 * The attributes converted to the version of the resource that a webhook or policy matched; the same attributes when
 * that is the version of the request.
 */
export function attributesIn(core: Core, attributes: AdmissionAttributes, resource: Resource): AdmissionAttributes {
  if (resource.type === attributes.type) return attributes;
  return {
    ...attributes,
    object: convert(core, attributes.object, attributes.type, resource),
    oldObject: convert(core, attributes.oldObject, attributes.type, resource),
  };
}

/** Converts between two versions of one resource, through the stored version. */
export function convert<T extends KubeObject | undefined>(core: Core, object: T, from: ResourceType, to: Resource): T {
  if (object === undefined || from === to.type) return object;
  const source = core.registry.find(from.group, from.version, from.plural);
  return (source === undefined ? object : to.fromStorage(source.toStorage(object))) as T;
}

/** `shown` are the attributes in the version of `resource`; `attributes` are those of the request. */
export function admissionRequest(
  uid: string,
  attributes: AdmissionAttributes,
  shown: AdmissionAttributes,
  resource: Resource,
): AdmissionRequest {
  const { user, subresource, name, namespace } = attributes;
  const request = {
    uid,
    kind: kindOf(resource.type),
    resource: resourceOf(resource.type),
    ...(subresource === "" ? {} : { subResource: subresource }),
    requestKind: kindOf(attributes.type),
    requestResource: resourceOf(attributes.type),
    ...(subresource === "" ? {} : { requestSubResource: subresource }),
    ...(name === "" ? {} : { name }),
    ...(namespace === "" ? {} : { namespace }),
    operation: attributes.operation,
    userInfo: {
      username: user.username,
      ...(user.uid === undefined ? {} : { uid: user.uid }),
      groups: user.groups,
      ...(user.extra === undefined ? {} : { extra: user.extra }),
    },
    object: shown.object ?? null,
    oldObject: shown.oldObject ?? null,
    dryRun: attributes.dryRun,
    options: optionsOf(attributes),
  };
  return request;
}

/** The request for CEL expressions: without the objects, which have variables of their own. */
export function requestForExpressions(attributes: AdmissionAttributes, resource: Resource): AdmissionRequest {
  const { object: _, oldObject: __, ...request } = admissionRequest("", attributes, attributes, resource);
  return request;
}

function optionsOf({ options }: AdmissionAttributes): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function kindOf({ group, version, kind }: ResourceType): object {
  return { group, version, kind };
}

function resourceOf({ group, version, plural }: ResourceType): object {
  return { group, version, resource: plural };
}
