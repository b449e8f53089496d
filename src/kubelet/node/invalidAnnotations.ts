import type { Pod } from "../../model/kubernetes.generated.ts";
import { marks, stageKnob } from "../../model/profiles/marks.ts";
import { outcomes } from "../pods/podPlan.ts";
import { durationMs } from "./faults.ts";

interface Knob {
  readonly names: readonly string[];
  readonly isReadable: (text: string) => boolean;
  readonly wanted: string;
}

const kwokStages = ["pod-create", "pod-init-container-running", "pod-init-container-completed", "pod-ready"];
const kwokDelays = [...kwokStages, "pod-complete", "pod-delete"].flatMap((stage) => [
  stageKnob(stage, "delay"),
  stageKnob(stage, "jitter-delay"),
]);

const knobs: readonly Knob[] = [
  {
    names: [marks.startDelay, marks.readyDelay, marks.runDuration, marks.stopDelay, marks.logEvery, ...kwokDelays],
    isReadable: (text) => (durationMs(text) ?? -1) >= 0,
    wanted: "a duration such as 1m30s",
  },
  {
    names: [marks.outcome],
    isReadable: (text) => (outcomes as readonly string[]).includes(text),
    wanted: `one of ${outcomes.join(", ")}`,
  },
  {
    names: [marks.exitCode],
    isReadable: (text) => /^[0-9]{1,3}$/.test(text) && Number(text) <= 255,
    wanted: "a number from 0 to 255",
  },
  { names: [marks.failures], isReadable: (text) => /^[0-9]{1,9}$/.test(text), wanted: "a whole number" },
];

/** Invalid annotations of a pod for its node. They are ignored, as by KWOK, and reported by an Event. */
export function invalidAnnotations({ metadata, spec }: Pod): string[] {
  const { annotations } = metadata;
  if (annotations === undefined) return [];
  const containers = [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])];
  const endings = ["", ...containers.map(({ name }) => `.${name}`)];
  const problems: string[] = [];
  for (const { names, isReadable, wanted } of knobs) {
    for (const key of names.flatMap((name) => endings.map((ending) => name + ending))) {
      const text = annotations[key];
      if (text === undefined || isReadable(text)) continue;
      problems.push(`${key} is ${JSON.stringify(text)}, and has to be ${wanted}`);
    }
  }
  return problems;
}
