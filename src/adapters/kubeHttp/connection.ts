/** Address, trust and credentials of a cluster. */
export interface KubeConnection {
  /** `https://10.0.0.1:6443`, with a path where the API is not at the root. */
  readonly server: string;
  /** The default namespace of the context. */
  readonly namespace: string;
  /** PEM of the trusted certificate authorities; those of the machine when left out. */
  readonly authority?: string;
  /** Do not verify the server's certificate. */
  readonly insecure?: boolean;
  /** The name that the server's certificate must have, when it is not the host of the address. */
  readonly serverName?: string;
  /** An HTTP proxy: `http://user:password@proxy:3128`. */
  readonly proxy?: string;
  /** Sent with every request: impersonation. */
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly credentials: CredentialSource;
}

/** A client certificate, an authorization header, both or neither. */
export interface Credentials {
  readonly certificate?: string;
  readonly key?: string;
  readonly authorization?: string;
  /** Refresh when they are older; never when left out. */
  readonly goodForMs?: number;
}

/** Loads credentials. `refused`: the server rejected the last ones, so caches must not be used. */
export type CredentialSource = (ask: { readonly refused: boolean }) => Promise<Credentials>;

/** Credentials that do not change. */
export function fixedCredentials(credentials: Credentials): CredentialSource {
  const found = Promise.resolve(credentials);
  return () => found;
}
