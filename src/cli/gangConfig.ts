import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { gangPart } from "../control/gang/gangPart.ts";
import type { Part } from "../control/part.ts";
import { describeFieldError } from "../model/fieldError.ts";
import { readGangConfiguration } from "../model/gang/settings.ts";
import { UserError } from "../model/userError.ts";

/** The same parts, with the gang operator as a Grove OperatorConfiguration says. */
export async function withGangConfig(parts: readonly Part[], file: string | undefined): Promise<Part[]> {
  if (file === undefined) return [...parts];
  const read = readGangConfiguration(await readDocument(file));
  if ("errors" in read) {
    throw new UserError(
      "gang-config-invalid",
      `${file}: ${read.errors.map(describeFieldError).join("; ")}`,
      "correct these fields; docs/gangs.md lists those that have a meaning",
    );
  }
  return parts.map((part) => (part.name === "gang" ? gangPart(read.settings) : part));
}

async function readDocument(file: string): Promise<unknown> {
  try {
    return parse(await readFile(file, "utf8"));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new UserError(
      "gang-config-unreadable",
      `${file}: ${why}`,
      "pass --gang-config with a YAML file that you may read",
    );
  }
}
