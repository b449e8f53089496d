import type { ObjectMeta } from "../../../model/objects/object.ts";
import type { KaiConfigSpec } from "../../../model/scheduling/schedulingShard.ts";

/** A label of queues that their metrics have too, under a name of its own. */
export interface ChosenLabel {
  readonly label: string;
  readonly metricLabel: string;
  /** For queues without the label. */
  readonly usual: string;
}

/** What the installation's Config says: two lists of `label=word`, with commas between. */
export function chosenLabels(spec: KaiConfigSpec | undefined): readonly ChosenLabel[] {
  const { queueLabelToMetricLabel, queueLabelToDefaultMetricValue } = spec?.queueController ?? {};
  const usual = pairsOf(queueLabelToDefaultMetricValue);
  return [...pairsOf(queueLabelToMetricLabel)].map(([label, metricLabel]) => ({
    label,
    metricLabel,
    usual: usual.get(label) ?? "",
  }));
}

export function metricLabelsOf({ labels }: ObjectMeta, chosen: readonly ChosenLabel[]): Record<string, string> {
  return Object.fromEntries(chosen.map(({ label, metricLabel, usual }) => [metricLabel, labels?.[label] ?? usual]));
}

/** What is no pair is passed over. */
function pairsOf(text: string | undefined): Map<string, string> {
  const pairs = new Map<string, string>();
  for (const each of (text ?? "").split(",")) {
    const [key = "", value = "", ...more] = each.split("=").map((part) => part.trim());
    if (key !== "" && value !== "" && more.length === 0) pairs.set(key, value);
  }
  return pairs;
}
