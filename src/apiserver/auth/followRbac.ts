import type { ObjectStore } from "../storage/objectStore.ts";
import { RbacAuthorizer, rbacResources } from "./rbac.ts";

/**
 * An authorizer that follows the roles and bindings of a store. Call it once the store is open. A change applies as
 * soon as it is durable, which is before its writer gets a response.
 */
export function followRbac(store: ObjectStore): RbacAuthorizer {
  const rbac = new RbacAuthorizer();
  for (const resource of rbacResources) {
    for (const version of store.collection(resource).all()) {
      rbac.apply(resource, version.namespace, version.name, version.object());
    }
  }
  const watched = new Set(rbacResources);
  store.onEvent(({ current }) => {
    const { resource, namespace, name } = current;
    if (watched.has(resource)) rbac.apply(resource, namespace, name, current.deleted ? undefined : current.object());
  });
  return rbac;
}
