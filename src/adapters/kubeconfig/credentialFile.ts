import { readFile } from "node:fs/promises";
import { UserError } from "../../model/userError.ts";

/** Files that may be replaced while we run are read again after this long, as other clients do. */
export const fileGoodForMs = 60_000;

/** The text of a file with a token, a key or a certificate. */
export async function readCredentialFile(path: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    const message = `the credential file ${path} cannot be read: ${(error as Error).message}`;
    const cure = "look at the path and its permissions; the kubeconfig or the pod names it";
    throw new UserError("credential-file-unreadable", message, cure, { cause: error });
  }
  if (text.trim() === "") {
    const cure = "wait until the file is complete, or write it again";
    throw new UserError("credential-file-unreadable", `the credential file ${path} is empty`, cure);
  }
  return text;
}
