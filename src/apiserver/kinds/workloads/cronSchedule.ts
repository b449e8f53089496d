/** The five fields of a cron schedule: minute, hour, day of month, month, day of week. */
const months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const days = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

interface Field {
  readonly min: number;
  readonly max: number;
  readonly names: ReadonlyMap<string, number>;
}

const fields: readonly Field[] = [
  { min: 0, max: 59, names: new Map() },
  { min: 0, max: 23, names: new Map() },
  { min: 1, max: 31, names: new Map() },
  { min: 1, max: 12, names: new Map(months.map((name, i) => [name, i + 1])) },
  { min: 0, max: 6, names: new Map(days.map((name, i) => [name, i])) },
];

const macros = new Set(["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"]);
const duration = /^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$/;

/** What is wrong with a schedule, or undefined when it is good. */
export function cronScheduleProblem(text: string): string | undefined {
  if (text === "") return "empty spec string";
  if (text.startsWith("@")) {
    if (macros.has(text)) return undefined;
    if (text.startsWith("@every ")) {
      const given = text.slice("@every ".length);
      return duration.test(given) ? undefined : `failed to parse duration ${text}: invalid duration`;
    }
    return `unrecognized descriptor: ${text}`;
  }
  const parts = text.split(/\s+/).filter((part) => part !== "");
  if (parts.length !== fields.length) {
    return `expected exactly 5 fields, found ${parts.length}: [${parts.join(" ")}]`;
  }
  for (const [i, part] of parts.entries()) {
    const field = fields[i];
    if (field === undefined) continue;
    for (const range of part.split(",")) {
      const problem = rangeProblem(range, field);
      if (problem !== undefined) return problem;
    }
  }
  return undefined;
}

function rangeProblem(text: string, field: Field): string | undefined {
  const [range = "", step, ...moreSteps] = text.split("/");
  if (moreSteps.length > 0) return `too many slashes: ${text}`;
  const [first = "", last, ...moreEnds] = range.split("-");
  if (moreEnds.length > 0) return `too many hyphens: ${text}`;
  if (range !== "*" && range !== "?") {
    const start = numberOf(first, field);
    if (start === undefined) return `failed to parse int from ${first}: ${JSON.stringify(first)} is not a number`;
    const end = last === undefined ? start : numberOf(last, field);
    if (end === undefined) return `failed to parse int from ${last}: ${JSON.stringify(last)} is not a number`;
    if (start < field.min) return `beginning of range (${start}) below minimum (${field.min}): ${text}`;
    if (end > field.max) return `end of range (${end}) above maximum (${field.max}): ${text}`;
    if (start > end) return `beginning of range (${start}) beyond end of range (${end}): ${text}`;
  }
  if (step !== undefined) {
    if (!/^[0-9]+$/.test(step)) return `failed to parse int from ${step}: ${JSON.stringify(step)} is not a number`;
    if (Number(step) === 0) return `step of range should be a positive number: ${text}`;
  }
  return undefined;
}

function numberOf(text: string, field: Field): number | undefined {
  if (/^[0-9]+$/.test(text)) return Number(text);
  return field.names.get(text.toLowerCase());
}
