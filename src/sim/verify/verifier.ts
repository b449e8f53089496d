import { runVerify } from "../../control/verify/runVerify.ts";
import type { CheckId } from "../../decide/verify/check.ts";
import { type VerifyConfig, verifyConfig } from "../../decide/verify/verifyConfig.ts";
import type { VerifyResult } from "../../decide/verify/verifyResult.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { ActorPorts } from "../actor.ts";
import { finalLine, type SaidVerdict, saidLine, saidVerdict } from "./observedVerdicts.ts";

/** One run of the product's verify, with everything that it reports given to the invariants. */
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
      if (counts !== undefined) ports.observe(saidLine, counts);
    },
  });
  const line = finalLine(result);
  if (line !== undefined) ports.observe(saidLine, line);
  const verdict: SaidVerdict = {
    passed: result.verdict === "pass",
    total: result.counts?.total ?? 0,
    readErrors: readErrors(),
    ...(result.snapshot === undefined ? {} : { revision: result.snapshot.resourceVersion }),
  };
  ports.observe(saidVerdict, verdict);
  return result;
}

/**
 * How many lists of the last look failed, counted at the API and not by verify itself: an error that it swallows must
 * be seen. A kind that is not served and a past that is forgotten are answers; events decide nothing.
 */
function overheard(kube: KubeApi): { kube: KubeApi; readErrors: () => number } {
  let failed = 0;
  const list: KubeApi["list"] = async (kind, options = {}) => {
    // Every look begins with the pods as they are now.
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
