import type { RequestOptions } from "node:https";
import type { JsonObject } from "../../model/objects/json.ts";
import { UserError } from "../../model/userError.ts";
import type { CredentialSource } from "../kubeHttp/connection.ts";
import { fileGoodForMs } from "./credentialFile.ts";

/**
 * Credentials from an `auth-provider`: OIDC with refresh tokens, and older providers of clouds. client-node implements
 * them; it takes 0.7 s to import, so it is imported only for a kubeconfig that has one.
 */
export function providerCredentials(config: JsonObject): CredentialSource {
  let loaded: Promise<{ applyToHTTPSOptions(options: RequestOptions): Promise<void> }> | undefined;
  return async () => {
    loaded ??= load(config);
    const options: RequestOptions = { headers: {} };
    try {
      await (await loaded).applyToHTTPSOptions(options);
    } catch (error) {
      if (error instanceof UserError) throw error;
      const message = `the auth-provider of the kubeconfig failed: ${(error as Error).message}`;
      const cure = "log in again with the tool that wrote the kubeconfig";
      throw new UserError("auth-provider-failed", message, cure, { cause: error });
    }
    const authorization = (options.headers as Record<string, unknown>)["Authorization"];
    const { cert, key } = options;
    if (typeof authorization !== "string" && (cert === undefined || cert === null)) {
      const message = "the auth-provider of the kubeconfig gave neither a token nor a certificate";
      throw new UserError("auth-provider-failed", message, "log in again with the tool that wrote the kubeconfig");
    }
    return {
      ...(typeof authorization === "string" ? { authorization } : {}),
      ...(cert === undefined || cert === null ? {} : { certificate: String(cert) }),
      ...(key === undefined || key === null ? {} : { key: String(key) }),
      // client-node caches the token until it expires; a call is cheap.
      goodForMs: fileGoodForMs,
    };
  };
}

async function load(config: JsonObject): Promise<{ applyToHTTPSOptions(options: RequestOptions): Promise<void> }> {
  const { KubeConfig } = await import("@kubernetes/client-node").catch((cause: unknown) => {
    throw new UserError(
      "auth-provider-missing",
      "the kubeconfig has an auth-provider, and the package @kubernetes/client-node is not installed",
      "run `npm install @kubernetes/client-node`, or use a kubeconfig with an exec plugin, a token or a certificate",
      { cause },
    );
  });
  const loaded = new KubeConfig();
  // JSON is YAML.
  loaded.loadFromString(JSON.stringify(config));
  return loaded;
}
