import { Buffer } from "node:buffer";
import { resolve } from "node:path";
import { isObject, type JsonObject } from "../../model/objects/json.ts";
import { UserError } from "../../model/userError.ts";
import { fileGoodForMs, readCredentialFile } from "../kubeconfig/credentialFile.ts";
import {
  type Entry,
  invalidKubeconfig,
  type KubeconfigDocument,
  readKubeconfig,
  textIn,
} from "../kubeconfig/document.ts";
import { execPlugin } from "../kubeconfig/execPlugin.ts";
import { providerCredentials } from "../kubeconfig/providerCredentials.ts";
import { proxyFromEnv } from "../kubeconfig/proxyFromEnv.ts";
import { type CredentialSource, fixedCredentials, type KubeConnection } from "../kubeHttp/connection.ts";

export interface KubeconfigOptions {
  /** The file; else KUBECONFIG, else `~/.kube/config`. */
  readonly path?: string | undefined;
  /** The context; else the current one of the file. */
  readonly context?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly nowMs?: () => number;
}

/**
 * The connection of a kubeconfig. A mistake in the file is a UserError; a mistake in the credentials shows on first
 * use, because loading them may run programs.
 */
export async function loadKubeconfig(options: KubeconfigOptions = {}): Promise<KubeConnection> {
  const env = options.env ?? process.env;
  const document = await readKubeconfig(options.path, env);
  const { where } = document;
  const context = contextOf(document, options.context);
  const cluster = named(document, "cluster", context);
  const user = named(document, "user", context);
  const server = serverOf(cluster, user, where);
  const authority = await authorityOf(cluster, where);
  const serverName = textIn(cluster, "tls-server-name", where);
  const insecure = cluster.fields["insecure-skip-tls-verify"] === true;
  const proxy = proxyOf(cluster, where) ?? proxyFromEnv(server, env);
  return {
    server,
    namespace: textIn(context, "namespace", where) ?? "default",
    ...(authority === undefined ? {} : { authority }),
    ...(insecure ? { insecure } : {}),
    ...(serverName === undefined ? {} : { serverName }),
    ...(proxy === undefined ? {} : { proxy }),
    ...impersonation(user, where),
    credentials: credentialsOf(user, {
      where,
      env,
      nowMs: options.nowMs ?? Date.now,
      cluster: {
        server,
        ...(authority === undefined ? {} : { "certificate-authority-data": base64(authority) }),
        ...(insecure ? { "insecure-skip-tls-verify": true } : {}),
        ...(serverName === undefined ? {} : { "tls-server-name": serverName }),
      },
    }),
  };
}

function contextOf({ where, contexts, currentContext }: KubeconfigDocument, asked: string | undefined): Entry {
  const name = asked ?? currentContext;
  const known = [...contexts.keys()].sort();
  const choice = known.length === 0 ? "it has none" : `it has ${known.join(", ")}`;
  if (name === "") {
    const message = `the kubeconfig ${where} has no current context`;
    throw new UserError("context-unknown", message, `pass --context <name> (${choice})`);
  }
  const context = contexts.get(name);
  if (context !== undefined) return context;
  const message = `the kubeconfig ${where} has no context ${JSON.stringify(name)}`;
  throw new UserError("context-unknown", message, `pass --context <name> (${choice})`);
}

/** The cluster or user of a context. A context without a user is anonymous. */
function named(document: KubeconfigDocument, word: "cluster" | "user", context: Entry): Entry {
  const name = textIn(context, word, document.where);
  if (name === undefined && word === "user") return { name: "", fields: {}, folder: "" };
  const found = document[`${word}s`].get(name ?? "");
  if (found !== undefined) return found;
  const problem = `has a context ${JSON.stringify(context.name)} that names the ${word} ${JSON.stringify(name ?? "")}, which is not defined`;
  throw invalidKubeconfig(document.where, problem);
}

/** A server without a scheme is reached by TLS, as kubectl does, if the kubeconfig has settings for TLS. */
function serverOf(cluster: Entry, user: Entry, where: string): string {
  const isSecure =
    cluster.fields["insecure-skip-tls-verify"] === true ||
    [cluster.fields["certificate-authority"], cluster.fields["certificate-authority-data"]].some(Boolean) ||
    [user.fields["client-certificate"], user.fields["client-certificate-data"]].some(Boolean);
  const text = textIn(cluster, "server", where);
  if (text === undefined)
    throw invalidKubeconfig(where, `has a cluster ${JSON.stringify(cluster.name)} without server`);
  const server = text.includes("://") ? text : `${isSecure ? "https" : "http"}://${text}`;
  const url = URL.canParse(server) ? new URL(server) : undefined;
  if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw invalidKubeconfig(where, `has an invalid server URL: ${text}`);
  }
  return server;
}

function proxyOf(cluster: Entry, where: string): string | undefined {
  const proxy = textIn(cluster, "proxy-url", where);
  if (proxy === undefined || /^https?:\/\//.test(proxy)) return proxy;
  const message = `the kubeconfig ${where} names a proxy that does not use HTTP: ${proxy}`;
  throw new UserError("kubeconfig-unsupported", message, "use a proxy-url that begins with http:// or https://");
}

async function authorityOf(cluster: Entry, where: string): Promise<string | undefined> {
  const inline = dataIn(cluster, "certificate-authority-data", where);
  if (inline !== undefined) return inline;
  const file = textIn(cluster, "certificate-authority", where);
  return file === undefined ? undefined : readCredentialFile(resolve(cluster.folder, file));
}

/** A field with base64-encoded text. */
function dataIn(entry: Entry, field: string, where: string): string | undefined {
  const text = textIn(entry, field, where)?.replace(/\s+/g, "");
  if (text === undefined) return undefined;
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    throw invalidKubeconfig(where, `has a ${field} of ${JSON.stringify(entry.name)} that is not base64`);
  }
  return Buffer.from(text, "base64").toString("utf8");
}

function credentialsOf(user: Entry, options: Parameters<typeof execPlugin>[2]): CredentialSource {
  const { where } = options;
  const { fields, folder } = user;
  const exec = fields["exec"];
  const provider = fields["auth-provider"];
  const certificate = dataIn(user, "client-certificate-data", where);
  const key = dataIn(user, "client-key-data", where);
  const certificateFile = certificate === undefined ? textIn(user, "client-certificate", where) : undefined;
  const keyFile = key === undefined ? textIn(user, "client-key", where) : undefined;
  const hasCertificate = (certificate ?? certificateFile) !== undefined;
  if (hasCertificate !== ((key ?? keyFile) !== undefined)) {
    const halves = hasCertificate ? "a client certificate without a key" : "a client key without a certificate";
    throw invalidKubeconfig(where, `has ${halves} for user ${JSON.stringify(user.name)}`);
  }
  const tokenFile = textIn(user, "tokenFile", where);
  const token = textIn(user, "token", where);
  const username = textIn(user, "username", where);
  const basic = `${username}:${textIn(user, "password", where) ?? ""}`;
  const fixed = {
    ...(certificate === undefined ? {} : { certificate }),
    ...(key === undefined ? {} : { key }),
    ...(token !== undefined
      ? { authorization: `Bearer ${token.trim()}` }
      : username === undefined
        ? {}
        : { authorization: `Basic ${base64(basic)}` }),
  };
  if (isObject(exec)) return both(fixed, execPlugin(user, exec, options));
  if (isObject(provider)) return both(fixed, providerCredentials(providerConfig(user, options.cluster)));
  if (certificateFile === undefined && keyFile === undefined && tokenFile === undefined) return fixedCredentials(fixed);
  return async () => ({
    ...fixed,
    ...(certificateFile === undefined
      ? {}
      : { certificate: await readCredentialFile(resolve(folder, certificateFile)) }),
    ...(keyFile === undefined ? {} : { key: await readCredentialFile(resolve(folder, keyFile)) }),
    ...(tokenFile === undefined
      ? {}
      : { authorization: `Bearer ${(await readCredentialFile(resolve(folder, tokenFile))).trim()}` }),
    goodForMs: fileGoodForMs,
  });
}

/** Combines the credentials of an exec plug-in or auth-provider with those of the file. */
function both(fixed: Awaited<ReturnType<CredentialSource>>, source: CredentialSource): CredentialSource {
  return async (ask) => ({ ...fixed, ...(await source(ask)) });
}

/** The fields of a kubeconfig that an auth-provider needs. */
function providerConfig(user: Entry, cluster: JsonObject): JsonObject {
  const name = "this";
  return {
    clusters: [{ name, cluster }],
    users: [{ name, user: { "auth-provider": user.fields["auth-provider"] ?? {} } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    "current-context": name,
  };
}

/** Impersonation headers. */
function impersonation(user: Entry, where: string): Pick<KubeConnection, "headers"> {
  const as = textIn(user, "as", where);
  if (as === undefined) return {};
  const headers: Record<string, string | string[]> = { "impersonate-user": as };
  const uid = textIn(user, "as-uid", where);
  if (uid !== undefined) headers["impersonate-uid"] = uid;
  const groups = user.fields["as-groups"];
  if (Array.isArray(groups)) headers["impersonate-group"] = groups.map(String);
  const extra = user.fields["as-user-extra"];
  if (isObject(extra)) {
    for (const [field, values] of Object.entries(extra)) {
      const name = `impersonate-extra-${encodeURIComponent(field)}`;
      headers[name] = Array.isArray(values) ? values.map(String) : [String(values)];
    }
  }
  return { headers };
}

function base64(text: string): string {
  return Buffer.from(text, "utf8").toString("base64");
}
