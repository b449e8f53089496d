import type { KubeObject } from "../../model/objects/object.ts";

/**
 * Whether the API server has a field of the object from Muster. `muster run --install` adds no labels; the API server
 * keeps the name of the program that wrote a field.
 */
export function writtenByMuster({ metadata }: KubeObject): boolean {
  const { managedFields = [] } = metadata as { managedFields?: readonly { readonly manager?: string }[] };
  return managedFields.some(({ manager = "" }) => /^muster([/-]|$)/.test(manager));
}

/** Whether another program owns the object: KAI, Grove, or a release of Helm, which may be Muster's own. */
export function isOthers(object: KubeObject): boolean {
  const labels = object.metadata.labels ?? {};
  if (labels["app.kubernetes.io/managed-by"] === "Helm") return true;
  return labels["app.kubernetes.io/part-of"] !== "muster" && !writtenByMuster(object);
}
