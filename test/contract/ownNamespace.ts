import { beforeEach } from "vitest";
import { type ContractWorld, fresh, namespaces, value } from "./contractWorld.ts";

/** A namespace for each fact, so that none sees the objects of another. */
export function ownNamespace(word: string, world: () => ContractWorld): () => string {
  let count = 0;
  let namespace = "";
  beforeEach(async () => {
    namespace = `${word}-${++count}`;
    const object = fresh({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    value(await world().api.create(namespaces, object));
  });
  return () => namespace;
}
