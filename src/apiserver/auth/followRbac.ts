import type { ObjectStore } from "../storage/objectStore.ts";
import { RbacAuthorizer, rbacResources } from "./rbac.ts";

/**
 * An authorizer that knows the roles and bindings of a store, now and after every change. Call it once the store is
 * open. A change counts from the moment it is on the disk, which is before its writer gets an answer.
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
