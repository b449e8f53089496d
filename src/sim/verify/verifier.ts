import { runVerify } from "../../control/verify/runVerify.ts";
import type { CheckId } from "../../decide/verify/check.ts";
import { type VerifyConfig, verifyConfig } from "../../decide/verify/verifyConfig.ts";
import type { VerifyResult } from "../../decide/verify/verifyResult.ts";
import type { ActorPorts } from "../actor.ts";
import { finalLine, type SaidVerdict, saidLine, saidVerdict } from "./observedVerdicts.ts";

/** One run of the product's verify, and everything that it says told to the invariants. */
export async function verifyOnce(
  ports: ActorPorts,
  given: Partial<VerifyConfig> & { readonly checks: readonly CheckId[] },
): Promise<VerifyResult> {
  const { kube, clock } = ports;
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
    readErrors: result.error === undefined ? 0 : 1,
  };
  ports.observe(saidVerdict, verdict);
  return result;
}
