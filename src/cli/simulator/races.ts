import type { Exhibit, Variant } from "../../../races/exhibit.ts";
import { exhibits, findExhibit, invariantOf, isBuggy, playExhibit, variantsOf } from "../../../races/museum.ts";
import { UsageError } from "../../model/userError.ts";
import { timeline } from "../../sim/report.ts";
import { choicesText } from "./choicesText.ts";
import { figures, figuresLine, reportOf, seedCount, wholeNumber } from "./sim.ts";

/** Lists the race museum. */
export function listRaces(options: { output: "text" | "json" }): void {
  if (options.output === "json") {
    const shown = exhibits.map((exhibit) => ({
      number: exhibit.number,
      name: exhibit.slug,
      title: exhibit.title,
      source: exhibit.source,
      invariant: exhibit.invariant,
      variants: variantsOf(exhibit).map((variant) => ({
        name: variant.name,
        about: variant.about,
        // Null for the fixed variant, which must not fail.
        failsWithinSeeds: isBuggy(variant) ? variant.firstSeeds : null,
        breaks: invariantOf(exhibit, variant) ?? null,
      })),
    }));
    process.stdout.write(`${JSON.stringify({ races: shown })}\n`);
    return;
  }
  for (const { number, slug, title, source, invariant, buggy } of exhibits) {
    process.stdout.write(`${String(number).padStart(3)}  ${slug.padEnd(18)} ${invariant.padEnd(4)} ${title}\n`);
    process.stdout.write(
      `     ${"".padEnd(18)}      ${source}; variants: fixed, ${buggy.map(({ name }) => name).join(", ")}\n`,
    );
  }
  process.stdout.write("\nrun one: muster races run NAME [--buggy | --variant NAME] [--seeds N]\n");
}

export interface RaceOptions {
  readonly buggy?: boolean;
  readonly variant?: string;
  readonly seeds: string;
  readonly from: string;
  readonly output: "text" | "json";
}

/**
 * Runs an exhibit, first with its recorded decisions and then with seeds. Exit code 1 when an invariant is violated.
 */
export async function runRace(name: string, options: RaceOptions): Promise<void> {
  const exhibit = exhibitNamed(name);
  const variant = variantNamed(exhibit, options);
  const from = wholeNumber("--from", options.from);
  const count = seedCount(options.seeds);
  const say = options.output === "json" ? process.stderr : process.stdout;
  say.write(`seeds ${from} to ${from + count - 1} of race ${exhibit.number}, ${exhibit.slug}, ${variant.name}\n`);
  say.write(`${exhibit.title} (${exhibit.source})\n${exhibit.story}\n\n`);
  const startedMs = Date.now();
  const result = await playExhibit(exhibit, variant, { from, count });
  const wallSeconds = Math.max(0.001, (Date.now() - startedMs) / 1000);
  const brokenSchedules = result.onSchedule.filter(({ violation }) => violation !== undefined);
  const broke = brokenSchedules.length > 0 || result.onSeeds.broken.length > 0;
  if (broke) process.exitCode = 1;
  for (const played of result.onSchedule) {
    const { violation } = played;
    say.write(
      `on the schedule: ${violation === undefined ? "no invariant was violated" : `${violation.invariant} was violated: ${violation.detail}`}\n`,
    );
    if (violation !== undefined) for (const line of timeline(variant.scenario, played)) say.write(`${line}\n`);
  }
  const [first] = result.onSeeds.broken;
  if (first !== undefined) say.write(`\n${await reportOf(variant.scenario, first)}\n\n`);
  if (options.output === "text") {
    say.write(`${figuresLine(result.onSeeds, wallSeconds)}\n`);
    return;
  }
  const shown = {
    race: exhibit.number,
    name: exhibit.slug,
    variant: variant.name,
    schedule: result.onSchedule.map(({ violation }) => violation?.invariant ?? null),
    from,
    ...figures(result.onSeeds, wallSeconds),
  };
  process.stdout.write(`${JSON.stringify(shown)}\n`);
}

function exhibitNamed(name: string): Exhibit {
  const found = findExhibit(name);
  if (found !== undefined) return found;
  const known = exhibits.map(({ slug }) => slug);
  const cure = `${choicesText(name, known)}; \`muster races\` describes them`;
  throw new UsageError("race-unknown", `there is no race ${JSON.stringify(name)}`, cure);
}

function variantNamed(exhibit: Exhibit, options: { buggy?: boolean; variant?: string }): Variant {
  if (options.buggy === true && options.variant !== undefined) {
    throw new UsageError(
      "flags-conflict",
      "--buggy and --variant exclude each other",
      "pass one of them: --buggy runs the first variant with the bug, --variant any by name",
    );
  }
  if (options.variant === undefined)
    return options.buggy === true ? (exhibit.buggy[0] ?? exhibit.fixed) : exhibit.fixed;
  const found = variantsOf(exhibit).find(({ name }) => name === options.variant);
  if (found !== undefined) return found;
  const known = variantsOf(exhibit)
    .map(({ name }) => name)
    .join(", ");
  throw new UsageError(
    "variant-unknown",
    `race ${exhibit.slug} has no variant ${options.variant}`,
    `choose from: ${known}`,
  );
}
