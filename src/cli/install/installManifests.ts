import type { NewObject } from "../../model/intent.ts";
import { installedDefinitions, installObjects, partOf } from "./installObjects.ts";
import { evaluate, holds, type Values } from "./installTree.ts";
import { installVersion } from "./installValues.ts";

/** The objects of an installation without Helm, in the order in which they are created. */
export function manifestsOf(values: Values, namespace: string): NewObject[] {
  const all: Values = {
    ...values,
    "release.namespace": namespace,
    "release.service": "muster",
    "chart.version": installVersion,
  };
  const labels = { ...partOf, "pod-security.kubernetes.io/enforce": "restricted" };
  const own = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace, labels } };
  const objects = installObjects()
    .filter(({ condition }) => condition === undefined || holds(condition, all))
    .map(({ tree }) => evaluate(tree, all) as NewObject);
  return [own, ...(holds("crds.install", all) ? installedDefinitions() : []), ...objects];
}
