import { UserError } from "../../model/userError.ts";
import { untilSignal } from "../cluster/untilSignal.ts";

/** Resolves at a signal to stop. */
export function untilStopped(): Promise<true> {
  return untilSignal().then(() => true as const);
}

/** The value of a flag, or of the variable that the pod sets. */
export function needed(value: string | undefined, flag: string, variable: string): string {
  const text = value ?? process.env[variable] ?? "";
  if (text !== "") return text;
  throw new UserError("agent-pod-unknown", `neither ${flag} nor ${variable} names the pod`, `pass ${flag}`);
}
