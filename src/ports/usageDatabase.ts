import type { Outcome } from "../model/outcome.ts";
import type { CallOptions } from "./kubeApi.ts";

/** Historical usage: Prometheus or a compatible database. */
export interface UsageDatabase {
  /** The values of an expression at equal steps over a time span. */
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
