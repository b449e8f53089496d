/** Links of pages that are read through a proxy: a path of the backend becomes the path below the proxy. */

export interface LinkBase {
  /** The path of the proxy, without a slash at its end. */
  readonly prefix: string;
  /** `host:port` of the backend, for absolute links to itself. */
  readonly host: string;
}

const names =
  "action|background|cite|classid|codebase|data|formaction|href|icon|longdesc|manifest|poster|profile|src|usemap";
const tag = /<[a-z][^<>]*>/gi;
const attribute = new RegExp(`(\\s(?:${names})\\s{0,9}=\\s{0,9})(?:"([^"]*)"|'([^']*)')`, "gi");

/** The page with its absolute paths below the proxy. Relative links need no change. */
export function rewriteLinks(page: string, base: LinkBase): string {
  return page.replace(tag, (text) =>
    text.replace(attribute, (_, start: string, double: string | undefined, single: string | undefined) =>
      double === undefined
        ? `${start}'${rewriteLocation(single ?? "", base)}'`
        : `${start}"${rewriteLocation(double, base)}"`,
    ),
  );
}

/** A link or a `Location`. What leads elsewhere, and what is rewritten already, stays as it is. */
export function rewriteLocation(target: string, { prefix, host }: LinkBase): string {
  const own = [`http://${host}`, `https://${host}`].find((root) => target === root || target.startsWith(`${root}/`));
  const path = own === undefined ? target : target.slice(own.length) || "/";
  if (!path.startsWith("/") || path.startsWith("//")) return target;
  return path === prefix || path.startsWith(`${prefix}/`) ? path : `${prefix}${path}`;
}
