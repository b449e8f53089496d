import { type Outcome, refused, succeeded } from "../model/outcome.ts";
import type { CallOptions } from "../ports/kubeApi.ts";
import type { TimeSpan, UsageDatabase, UsageSeries } from "../ports/usageDatabase.ts";

const timeoutMs = 30_000;

/** Queries a Prometheus server over HTTP. */
export function prometheusQueries(url: string): UsageDatabase {
  const base = url.replace(/\/+$/, "");
  return {
    range: async (query, { fromMs, toMs, stepMs }: TimeSpan, { cancel }: CallOptions = {}) => {
      const body = new URLSearchParams({
        query,
        start: String(fromMs / 1000),
        end: String(toMs / 1000),
        step: String(stepMs / 1000),
      });
      const abort = new AbortController();
      const timer = setTimeout(() => abort.abort(), timeoutMs);
      const unhear = cancel?.onCancel(() => abort.abort());
      try {
        const response = await fetch(`${base}/api/v1/query_range`, { method: "POST", body, signal: abort.signal });
        const text = await response.text();
        if (!response.ok) return refused("Unavailable", `${base} answered ${response.status}: ${text.slice(0, 200)}`);
        return readMatrix(text);
      } catch (error) {
        return refused("Unavailable", `${base} cannot be queried: ${error instanceof Error ? error.message : error}`);
      } finally {
        clearTimeout(timer);
        unhear?.();
      }
    },
  };
}

type Answer = {
  readonly status?: string;
  readonly error?: string;
  readonly data?: {
    readonly resultType?: string;
    readonly result?: readonly {
      readonly metric?: Record<string, string>;
      readonly values?: readonly (readonly [number, string])[];
    }[];
  };
};

function readMatrix(text: string): Outcome<readonly UsageSeries[]> {
  let answer: Answer;
  try {
    answer = JSON.parse(text) as Answer;
  } catch {
    return refused("Unavailable", `the response is not JSON: ${text.slice(0, 80)}`);
  }
  if (answer.status !== "success" || answer.data?.resultType !== "matrix") {
    return refused("Unavailable", answer.error ?? "the response has no matrix result");
  }
  return succeeded(
    (answer.data.result ?? []).map(({ metric = {}, values = [] }) => ({
      labels: metric,
      samples: values
        .map(([seconds, value]) => ({ ms: Math.round(seconds * 1000), value: Number(value) }))
        .filter(({ value }) => Number.isFinite(value)),
    })),
  );
}
