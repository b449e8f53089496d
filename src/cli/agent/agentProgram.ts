import { UserError } from "../../model/userError.ts";
import { untilSignal } from "../cluster/untilSignal.ts";

/** Resolves when a signal asks the program to end. */
export function untilStopped(): Promise<true> {
  return untilSignal().then(() => true as const);
}

/** A flag, or the variable that the pod sets. */
export function needed(value: string | undefined, flag: string, variable: string): string {
  const text = value ?? process.env[variable] ?? "";
  if (text !== "") return text;
  throw new UserError("agent-pod-unknown", `neither ${flag} nor ${variable} says which pod this is`, `pass ${flag}`);
}
