import type { Outcome } from "../model/outcome.ts";
import type { CallOptions } from "./kubeApi.ts";

/** Numbers of the past, by time: a Prometheus or what speaks like one. */
export interface UsageDatabase {
  /** The values of an expression at equal steps, from the first moment to the last. */
  range(query: string, span: TimeSpan, options?: CallOptions): Promise<Outcome<readonly UsageSeries[]>>;
}

export interface TimeSpan {
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
}

export interface UsageSeries {
  readonly labels: Readonly<Record<string, string>>;
  readonly samples: readonly { readonly ms: number; readonly value: number }[];
}
