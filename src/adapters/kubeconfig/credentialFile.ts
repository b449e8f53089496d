import { readFile } from "node:fs/promises";
import { UserError } from "../../model/userError.ts";

/** Credential files are read again after this time, as other clients do, because they may be rotated. */
export const fileGoodForMs = 60_000;

/** The text of a file with a token, a key or a certificate. */
export async function readCredentialFile(path: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    const message = `the credential file ${path} cannot be read: ${(error as Error).message}`;
    const cure = "check the path and its permissions";
    throw new UserError("credential-file-unreadable", message, cure, { cause: error });
  }
  if (text.trim() === "") {
    const cure = "wait until the file is complete, or write it again";
    throw new UserError("credential-file-unreadable", `the credential file ${path} is empty`, cure);
  }
  return text;
}
