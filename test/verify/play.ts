/** Plays a script against the command's own parts: flags and variables in, output and exit code out, no real time. */

import { askedFor, type VerifyFlags } from "../../src/cli/verify/verifyFlags.ts";
import { runVerify } from "../../src/control/verify/runVerify.ts";
import { compatCode, exitCodes, type VerifyResult } from "../../src/decide/verify/verifyResult.ts";
import { UserError } from "../../src/model/userError.ts";
import { CancelSource } from "../../src/ports/cancelSource.ts";
import { textReport } from "../../src/reports/text.ts";
import { ManualClock } from "../../testing/apiserver/manualClock.ts";
import { startMs } from "./builders.ts";
import { type Script, ScriptedApi } from "./scriptedApi.ts";

export interface Played {
  readonly exitCode: number;
  readonly text: string;
  readonly result: VerifyResult | undefined;
  readonly api: ScriptedApi;
  /** Virtual seconds from the first look to the answer. */
  readonly tookS: number;
}

export interface PlayOptions extends Partial<VerifyFlags> {
  readonly env?: Record<string, string>;
  /** A signal at this second. */
  readonly interruptAtS?: number;
  /** Seconds that were gone before the first look. */
  readonly spentS?: number;
}

/** Longer than any window of the tests, so that a run that never ends fails. */
const patienceS = 1_000;

export async function play(
  script: Script,
  { env = {}, interruptAtS, spentS = 0, ...flags }: PlayOptions = {},
): Promise<Played> {
  const clock = new ManualClock(startMs);
  const api = new ScriptedApi(clock, script);
  const whole: VerifyFlags = { output: "text", ...flags };
  let asked: ReturnType<typeof askedFor>;
  try {
    asked = askedFor(whole, env);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const exitCode = compatCode(exitCodes.usage, whole.compat);
    return { exitCode, text: `${error.message}\n${error.cure}\n`, result: undefined, api, tookS: 0 };
  }
  const cancel = new CancelSource();
  if (interruptAtS !== undefined) clock.after(interruptAtS * 1000, () => cancel.cancel());
  const running = runVerify({ kube: api, clock, monotonicMs: () => clock.nowMs() }, asked.config, {
    cluster: "scripted",
    startedMs: startMs - spentS * 1000,
    cancel,
    interrupted: () => ({ message: "interrupted by SIGTERM", exitCode: 143 }),
  });
  const result = await settled(clock, running);
  return { exitCode: result.exitCode, text: textReport(result), result, api, tookS: (clock.nowMs() - startMs) / 1000 };
}

/** Lets time pass until a run has ended; one that never ends fails. */
export async function settled<T>(clock: ManualClock, running: Promise<T>): Promise<T> {
  let ended = false;
  const end = (): void => {
    ended = true;
  };
  running.then(end, end);
  await clock.advance(0);
  for (let step = 0; !ended && step < patienceS * 2; step++) await clock.advance(500);
  if (!ended) throw new Error(`no answer after ${patienceS} s`);
  return running;
}
