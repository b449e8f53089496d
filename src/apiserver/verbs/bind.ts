import type { Binding, Node } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { badRequest, StatusError } from "../../model/objects/status.ts";
import { bindPod } from "../kinds/pods/bindPod.ts";
import type { Call, Core, Target, Written } from "./core.ts";
import { updateObject } from "./update.ts";

/** POST to pods/binding: one atomic write that gives the pod its node. */
export async function bindObject(core: Core, target: Target, binding: KubeObject, call: Call): Promise<Written> {
  const named = binding.metadata.name ?? "";
  if (named !== "" && named !== target.name) {
    throw badRequest(`name in URL does not match name in Binding object: ${target.name} and ${named}`);
  }
  const options = { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1", fieldManager: call.fieldManager };
  const change = {
    options,
    build: (current: KubeObject) => {
      const { target: where } = binding as Binding;
      const node = core.store.get("/nodes", "", where?.name ?? "")?.object() as Node | undefined;
      const bound = bindPod({
        pod: current,
        binding: binding as Binding,
        node,
        nowMs: core.clock.nowMs(),
      });
      if (bound instanceof StatusError) throw bound;
      return bound;
    },
    restrict: (next: KubeObject) => next,
    validate: () => [],
  };
  return updateObject(core, target, change, call);
}
