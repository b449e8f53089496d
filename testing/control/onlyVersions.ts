import type { Resource } from "../../src/model/objects/resource.ts";
import { refused } from "../../src/model/outcome.ts";
import type { KubeApi } from "../../src/ports/kubeApi.ts";

/** A server that serves `resource.k8s.io` in these versions only; the list may change. */
export function onlyVersions(kube: KubeApi, versions: readonly string[]): KubeApi {
  const no = refused("NotFound", "the server could not find the requested resource");
  const isServed = ({ group, version }: Resource): boolean => group !== "resource.k8s.io" || versions.includes(version);
  return {
    get: async (ref, ...rest) => (isServed(ref) ? kube.get(ref, ...rest) : no),
    list: async (ref, ...rest) => (isServed(ref) ? kube.list(ref, ...rest) : no),
    watch: (ref, options, sink) => {
      if (isServed(ref)) return kube.watch(ref, options, sink);
      let isOver = false;
      void Promise.resolve().then(() => {
        if (!isOver) sink.ended(no);
      });
      return {
        stop: () => {
          isOver = true;
        },
      };
    },
    create: async (ref, ...rest) => (isServed(ref) ? kube.create(ref, ...rest) : no),
    update: async (ref, ...rest) => (isServed(ref) ? kube.update(ref, ...rest) : no),
    patch: async (ref, ...rest) => (isServed(ref) ? kube.patch(ref, ...rest) : no),
    delete: async (ref, ...rest) => (isServed(ref) ? kube.delete(ref, ...rest) : no),
    bind: (...given) => kube.bind(...given),
    evict: (...given) => kube.evict(...given),
  };
}
