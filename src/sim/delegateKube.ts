import type { KubeApi } from "../ports/kubeApi.ts";

/**
 * The same API as an object with own methods, some of which a caller can replace by spreading: spreading an instance of
 * a class would lose its methods.
 */
export function delegateKube(kube: KubeApi): KubeApi {
  return {
    get: (...args) => kube.get(...args),
    list: (...args) => kube.list(...args),
    watch: (...args) => kube.watch(...args),
    create: (...args) => kube.create(...args),
    update: (...args) => kube.update(...args),
    patch: (...args) => kube.patch(...args),
    delete: (...args) => kube.delete(...args),
    bind: (...args) => kube.bind(...args),
    evict: (...args) => kube.evict(...args),
  };
}
