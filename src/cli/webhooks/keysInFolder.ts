import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Outcome, refused, succeeded } from "../../model/outcome.ts";
import type { WebhookKeys } from "./keysInSecret.ts";

/**
 * The keys in a mounted Secret that another program renews, such as cert-manager: `tls.crt`, `tls.key` and, if it
 * exists, `ca.crt`.
 */
export async function readKeysInFolder(folder: string): Promise<Outcome<WebhookKeys>> {
  const text = (name: string): Promise<string> => readFile(join(folder, name), "utf8");
  try {
    const [certificate, key] = await Promise.all([text("tls.crt"), text("tls.key")]);
    const authority = await text("ca.crt").catch(() => certificate);
    // Files may be replaced one after the other: a key that does not match its certificate would break connections.
    if (!new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))) {
      return refused("Unavailable", `tls.key of ${folder} is not the key of tls.crt`);
    }
    return succeeded({ authority, server: { certificate, key } });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return refused("Unavailable", `the keys of the webhooks cannot be read from ${folder}: ${why}`);
  }
}
