import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { type GangSettings, readGangConfiguration } from "../../model/gang/settings.ts";
import { describeFieldError } from "../../model/objects/fieldError.ts";
import { UserError } from "../../model/userError.ts";

/** The gang operator's settings from a Grove OperatorConfiguration. */
export async function readGangConfig(file: string): Promise<GangSettings> {
  const read = readGangConfiguration(await readDocument(file));
  if ("errors" in read) {
    throw new UserError(
      "gang-config-invalid",
      `${file}: ${read.errors.map(describeFieldError).join("; ")}`,
      "correct these fields; docs/gangs.md lists the supported ones",
    );
  }
  return read.settings;
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
