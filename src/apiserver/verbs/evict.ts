import type { Pod, PodDisruptionBudget } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { badRequest, notFound, StatusError } from "../../model/objects/status.ts";
import { withPodCondition } from "../kinds/pods/podConditions.ts";
import { budgetStillProcessing, evictionCondition, evictionDecision } from "../kinds/policy/evictionDecision.ts";
import type { Resource } from "../resource.ts";
import type { Call, Core, Target } from "./core.ts";
import { checkDeletePreconditions, type DeleteOptions, deleteObject } from "./delete.ts";
import { updateObject } from "./update.ts";

const budgetsKey = "policy/poddisruptionbudgets";

/** POST to pods/eviction: a delete that respects the disruption budget. */
export async function evictObject(
  core: Core,
  target: Target,
  eviction: KubeObject,
  options: DeleteOptions,
  call: Call,
): Promise<void> {
  const named = eviction.metadata.name ?? "";
  if (named !== "" && named !== target.name) {
    throw badRequest(`name in URL does not match name in Eviction object: ${target.name} and ${named}`);
  }
  // Another request may change the budget or the pod between the read and the write. Then both are repeated.
  for (;;) {
    const version = core.store.get(target.resource.type.storageKey, target.namespace, target.name);
    if (version === undefined) throw notFound(target.resource.groupResource, target.name);
    // Before the budget is changed or the pod is marked: an eviction with failed preconditions has no effect.
    checkDeletePreconditions(target.resource, target.name, version, options);
    const demanded = options.preconditions?.resourceVersion;
    const pod = version.object();
    const budgets = budgetsOf(core, target.namespace);
    const decision = evictionDecision({ pod, budgets, nowMs: core.clock.nowMs() });
    switch (decision.kind) {
      case "refuse":
        throw decision.error;
      case "delete":
        await markAndDelete(core, target, version.side.uid, demanded, options, call);
        return;
      case "deleteWithRevision":
        try {
          await markAndDelete(core, target, version.side.uid, decision.resourceVersion, options, call);
        } catch (error) {
          if (!isConflict(error) || options.preconditions !== undefined) throw error;
          if (decision.budget !== undefined) throw budgetStillProcessing(decision.budget);
          continue;
        }
        return;
      case "spendBudget":
        try {
          await spend(core, decision.budget, decision.budgetStatus, call);
        } catch (error) {
          if (isConflict(error)) continue;
          throw error;
        }
        await markAndDelete(core, target, version.side.uid, demanded, options, call);
        return;
    }
  }
}

function* budgetsOf(core: Core, namespace: string): Generator<PodDisruptionBudget> {
  for (const version of core.store.collection(budgetsKey).at(core.store.revision, namespace)) {
    yield version.object();
  }
}

async function spend(core: Core, budget: PodDisruptionBudget, status: unknown, call: Call): Promise<void> {
  const resource = core.registry.stored(budgetsKey) as Resource;
  const { namespace = "", name, resourceVersion } = budget.metadata;
  const target: Target = { resource, namespace, name, subresource: "status" };
  await updateObject(
    core,
    target,
    {
      options: { kind: "UpdateOptions", apiVersion: "meta.k8s.io/v1" },
      build: (current) => ({ ...current, metadata: { ...current.metadata, resourceVersion }, status }),
    },
    call,
  );
}

/** Sets the condition on the pod, then deletes it. Both writes have the same UID as precondition. */
async function markAndDelete(
  core: Core,
  target: Target,
  uid: string,
  resourceVersion: string | undefined,
  options: DeleteOptions,
  call: Call,
): Promise<void> {
  let revision = resourceVersion;
  if (!call.dryRun) {
    const marked = await updateObject(
      core,
      { ...target, subresource: "status" },
      {
        options: { kind: "UpdateOptions", apiVersion: "meta.k8s.io/v1" },
        build: (current) => {
          const pod = current as Pod;
          const conditions = withPodCondition(pod.status?.conditions, evictionCondition, core.clock.nowMs());
          const metadata = { ...current.metadata, uid, resourceVersion: resourceVersion ?? "" };
          return { ...current, metadata, status: { ...pod.status, conditions } };
        },
        validate: () => [],
      },
      call,
    );
    if (marked.deleted === true) return;
    // Setting the condition changed the resourceVersion; another write after it still fails the delete.
    if (resourceVersion !== undefined) revision = String(marked.version.revision);
  }
  const preconditions = { uid: options.preconditions?.uid ?? uid, resourceVersion: revision };
  await deleteObject(core, { ...target, subresource: "" }, { ...options, preconditions }, call);
}

function isConflict(error: unknown): boolean {
  return error instanceof StatusError && error.status.reason === "Conflict";
}
