import type { ObjectMeta } from "../../../model/objects/object.ts";
import type { KaiConfigSpec } from "../../../model/scheduling/schedulingShard.ts";

/** A label of queues that is exported as a label of their metrics. */
export interface ChosenLabel {
  readonly label: string;
  readonly metricLabel: string;
  /** For queues without the label. */
  readonly fallback: string;
}

/** The settings of the Config: two comma-separated lists of `label=value`. */
export function chosenLabels(spec: KaiConfigSpec | undefined): readonly ChosenLabel[] {
  const { queueLabelToMetricLabel, queueLabelToDefaultMetricValue } = spec?.queueController ?? {};
  const fallback = pairsOf(queueLabelToDefaultMetricValue);
  return [...pairsOf(queueLabelToMetricLabel)].map(([label, metricLabel]) => ({
    label,
    metricLabel,
    fallback: fallback.get(label) ?? "",
  }));
}

export function metricLabelsOf({ labels }: ObjectMeta, chosen: readonly ChosenLabel[]): Record<string, string> {
  return Object.fromEntries(
    chosen.map(({ label, metricLabel, fallback }) => [metricLabel, labels?.[label] ?? fallback]),
  );
}

/** Entries that are not a pair are ignored. */
function pairsOf(text: string | undefined): Map<string, string> {
  const pairs = new Map<string, string>();
  for (const each of (text ?? "").split(",")) {
    const [key = "", value = "", ...more] = each.split("=").map((part) => part.trim());
    if (key !== "" && value !== "" && more.length === 0) pairs.set(key, value);
  }
  return pairs;
}
