import { type Refusal, refused } from "../model/outcome.ts";
import type { Simulation } from "./simulation.ts";

/** The fault of a call, drawn before the call is sent. */
export type Fate =
  | { readonly kind: "none" }
  | { readonly kind: "crash-before" }
  | { readonly kind: "crash-after" }
  | { readonly kind: "timeout-before" }
  | { readonly kind: "timeout-after" }
  /** The call times out, and takes effect much later. */
  | { readonly kind: "lands-late"; readonly delayMs: number }
  | { readonly kind: "conflict"; readonly refusal: Refusal }
  | { readonly kind: "busy"; readonly refusal: Refusal }
  /** The server is away, or has just started. */
  | { readonly kind: "outage"; readonly refusal: Refusal };

/** One-way latency of the network without faults. */
export const wayUs = 500;

/** The client's timeout. */
export const timeoutUs = 1_000_000;

/** A write that timed out takes effect within this time, so that a run can quiesce. */
export const lateMsMax = 8_000;

/** Draws the fault of a call as one number: each kind of fault is drawn in turn, and the first that occurs decides. */
export function drawFate(simulation: Simulation, key: string, write: boolean): number {
  const strikes = (kind: string, perMille: number, code: (delayMs: number) => number): number =>
    simulation.decide(kind, key, (dice, strength) =>
      dice.perMille(perMille * strength) ? code(dice.between(1, lateMsMax)) : 0,
    );
  if (!write) return strikes("busy", 15, (roll) => 50 + (roll % 3)) || strikes("timeout-before", 8, () => 20);
  return (
    strikes("conflict", 20, () => 10) ||
    strikes("timeout-before", 12, (delayMs) => (delayMs % 2 === 0 ? 20 : 1000 + delayMs)) ||
    strikes("timeout-after", 12, () => 30) ||
    strikes("busy", 20, (roll) => 50 + (roll % 3)) ||
    strikes("crash-before", 3, () => 60) ||
    strikes("crash-after", 3, () => 70)
  );
}

/** The fault that a number stands for. */
export function fateOf(code: number): Fate {
  if (code >= 1000) return { kind: "lands-late", delayMs: code - 1000 };
  switch (code) {
    case 10:
      return { kind: "conflict", refusal: refused("Conflict", "another write came first") };
    case 20:
      return { kind: "timeout-before" };
    case 30:
      return { kind: "timeout-after" };
    case 50:
      return { kind: "busy", refusal: refused("TooManyRequests", "too busy", { retryAfterMs: 100 }) };
    case 51:
      return { kind: "busy", refusal: refused("Unavailable", "shutting down") };
    case 52:
      return { kind: "busy", refusal: refused("Unknown", "internal error") };
    case 60:
      return { kind: "crash-before" };
    case 70:
      return { kind: "crash-after" };
    default:
      return { kind: "none" };
  }
}
