import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import type { WebhookKeys } from "./keysInSecret.ts";

/**
 * The keys that another program, such as cert-manager, keeps in a mounted Secret: `tls.crt`, `tls.key`, `ca.crt` where
 * there is one.
 */
export async function readKeysInFolder(folder: string): Promise<Outcome<WebhookKeys>> {
  const text = (name: string): Promise<string> => readFile(join(folder, name), "utf8");
  try {
    const [certificate, key] = await Promise.all([text("tls.crt"), text("tls.key")]);
    const authority = await text("ca.crt").catch(() => certificate);
    // Files are replaced one after the other: a pair that does not fit would end every connection.
    if (!new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))) {
      return refused("Unavailable", `tls.key of ${folder} is not the key of tls.crt`);
    }
    return succeeded({ authority, server: { certificate, key } });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return refused("Unavailable", `the keys of the webhooks cannot be read from ${folder}: ${why}`);
  }
}
