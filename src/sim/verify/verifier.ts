import { runVerify } from "../../control/verify/runVerify.ts";
import type { CheckId } from "../../decide/verify/check.ts";
import { type VerifyConfig, verifyConfig } from "../../decide/verify/verifyConfig.ts";
import type { VerifyResult } from "../../decide/verify/verifyResult.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorPorts } from "../actor.ts";
import { finalLine, type ReportedVerdict, reportedLine, reportedVerdict } from "./observedVerdicts.ts";

/** One run of the product's verify, whose reports are passed to the invariants. */
export async function verifyOnce(
  ports: ActorPorts,
  given: Partial<VerifyConfig> & { readonly checks: readonly CheckId[] },
): Promise<VerifyResult> {
  const { clock } = ports;
  const { kube, readErrors } = overheard(ports.kube);
  const config = verifyConfig(given);
  const result = await runVerify({ kube, clock, monotonicMs: () => clock.nowMs() }, config, {
    cluster: "simulated",
    cancel: ports.cancel,
    attempt: ({ counts }) => {
      if (counts !== undefined) ports.observe(reportedLine, counts);
    },
  });
  const line = finalLine(result);
  if (line !== undefined) ports.observe(reportedLine, line);
  const verdict: ReportedVerdict = {
    passed: result.verdict === "pass",
    total: result.counts?.total ?? 0,
    readErrors: readErrors(),
    ...(result.snapshot === undefined ? {} : { revision: result.snapshot.resourceVersion }),
  };
  ports.observe(reportedVerdict, verdict);
  return result;
}

/**
 * Counts the failed lists of the last snapshot at the API, so that errors that verify swallows are counted. A kind that
 * is not served and a compacted revision are not failures; lists of Events do not count.
 */
function overheard(kube: KubeApi): { kube: KubeApi; readErrors: () => number } {
  let failed = 0;
  const list: KubeApi["list"] = async (kind, options = {}) => {
    // Every snapshot starts with a list of pods.
    const isBeginning =
      kind.plural === "pods" && options.continueToken === undefined && options.resourceVersion === undefined;
    if (isBeginning) failed = 0;
    const outcome = await kube.list(kind, options);
    const isAnswer = outcome.ok || outcome.reason === "NotFound" || outcome.reason === "Expired";
    if (!isAnswer && kind.plural !== "events") failed++;
    return outcome;
  };
  const overheard: KubeApi = {
    list,
    get: (...args) => kube.get(...args),
    watch: (...args) => kube.watch(...args),
    create: (...args) => kube.create(...args),
    update: (...args) => kube.update(...args),
    patch: (...args) => kube.patch(...args),
    delete: (...args) => kube.delete(...args),
    bind: (...args) => kube.bind(...args),
    evict: (...args) => kube.evict(...args),
  };
  return { kube: overheard, readErrors: () => failed };
}
