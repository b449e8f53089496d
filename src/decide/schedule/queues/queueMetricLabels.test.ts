import { expect, test } from "vitest";
import { partly } from "../../../../testing/partly.ts";
import type { ObjectMeta } from "../../../model/objects/object.ts";
import { chosenLabels, metricLabelsOf } from "./queueMetricLabels.ts";

const meta = (labels?: Record<string, string>) => partly<ObjectMeta>({ name: "q", ...(labels && { labels }) });
const queueController = {
  queueLabelToMetricLabel: "team=queue_team, example.com/tier=tier",
  queueLabelToDefaultMetricValue: "example.com/tier=none",
};

test.each([
  ["those that it has", { team: "red", "example.com/tier": "gold", other: "x" }, { queue_team: "red", tier: "gold" }],
  ["what is usual for those that it lacks", { team: "red" }, { queue_team: "red", tier: "none" }],
  ["nothing where nothing is usual", undefined, { queue_team: "", tier: "none" }],
])("of the labels that were chosen a queue's metrics have %s", (_, labels, expected) => {
  expect(metricLabelsOf(meta(labels), chosenLabels({ queueController }))).toEqual(expected);
});

test.each([undefined, "", "team", "team=", "=x", "a=b=c"])("%j chooses no labels", (queueLabelToMetricLabel) => {
  expect(
    chosenLabels({ queueController: queueLabelToMetricLabel === undefined ? {} : { queueLabelToMetricLabel } }),
  ).toEqual([]);
  expect(chosenLabels(undefined)).toEqual([]);
});
