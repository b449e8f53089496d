import { ephemeralClaims } from "../../decide/workloads/volumes/ephemeralClaims.ts";
import { keyOf } from "../../model/intent.ts";
import { isFinished } from "../../model/objects/podFacts.ts";
import { claimsOfPod } from "../../model/storage/volumes.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { type ReconcileResult, reconcileResultOf } from "../runtime/loop.ts";
import { kindSource } from "../runtime/sources.ts";
import { volumeClaimKind } from "./kinds.ts";
import { warning } from "./podOwner.ts";
import type { WorkloadCaches } from "./workloadCaches.ts";

const name = "ephemeral-volume-controller";
const backoff = { baseMs: 5, maxMs: 30_000 };

/** Creates the claims of pods' generic ephemeral volumes. */
export function addEphemeralVolumes(controllers: Controllers, caches: WorkloadCaches): void {
  const { pods } = caches;
  const claims = controllers.cache(volumeClaimKind);
  const reports = caches.recorder(name);
  /** Pods by the claims that are created for them. */
  const byClaim = pods.cache.index((pod) => {
    if (isFinished(pod)) return [];
    const own = claimsOfPod(pod).filter(({ template }) => template !== undefined);
    return own.map((each) => keyOf(pod.metadata.namespace, each.name));
  });
  controllers.add({
    name,
    concurrency: 16,
    backoff,
    sources: [
      kindSource(
        pods.cache,
        ({ key }) => [key],
        ({ type, object }) => type !== "deleted" && (object.spec?.volumes ?? []).some(({ ephemeral }) => ephemeral),
      ),
      kindSource(claims, ({ key }) => byClaim.get(key).map(({ metadata }) => keyOf(metadata.namespace, metadata.name))),
    ],
    reconcile: async (key, { cancel }): Promise<ReconcileResult> => {
      const pod = pods.cache.get(key);
      if (pod === undefined) return undefined;
      const claimNamed = (claim: string) => claims.get(keyOf(pod.metadata.namespace, claim));
      const { intents, refusals } = ephemeralClaims(pod, claimNamed, claims.revision);
      for (const refusal of refusals) reports.record(pod, warning("FailedCreate", "CreateClaim", refusal));
      for (const intent of intents) {
        const outcome = await controllers.writer.apply(intent, { cancel });
        // A claim of that name is observed later, and is the pod's or is refused then.
        if (outcome.ok || outcome.reason === "AlreadyExists") continue;
        if (outcome.reason === "Forbidden" || outcome.reason === "Invalid")
          reports.record(pod, warning("FailedCreate", "CreateClaim", `ephemeral volume: ${outcome.message}`));
        return reconcileResultOf(outcome);
      }
      return undefined;
    },
  });
}
