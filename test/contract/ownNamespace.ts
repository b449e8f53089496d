import { beforeEach } from "vitest";
import { type ContractCluster, fresh, namespaces, value } from "./contractCluster.ts";

/** A namespace for each fact, so that none sees the objects of another. */
export function ownNamespace(word: string, cluster: () => ContractCluster): () => string {
  let count = 0;
  let namespace = "";
  beforeEach(async () => {
    namespace = `${word}-${++count}`;
    const object = fresh({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    value(await cluster().api.create(namespaces, object));
  });
  return () => namespace;
}
