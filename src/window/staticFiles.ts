import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

export interface StaticFile {
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Where it is smaller. */
  readonly gzip?: Uint8Array<ArrayBuffer>;
}

/** The page's files by their addresses. No other file is served, so paths cannot escape the folder. */
export type StaticFiles = ReadonlyMap<string, StaticFile>;

const types: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  woff2: "font/woff2",
  svg: "image/svg+xml",
};

/** Reads the files that the build has listed in `files.json`. */
export function readStaticFiles(folder: string): StaticFiles {
  const names = JSON.parse(readFileSync(join(folder, "files.json"), "utf8")) as readonly string[];
  return new Map(
    names.map((name) => {
      const bytes = new Uint8Array(readFileSync(join(folder, name)));
      const extension = name.slice(name.lastIndexOf(".") + 1);
      const packed = extension === "woff2" ? undefined : new Uint8Array(gzipSync(bytes, { level: 9 }));
      const type = types[extension] ?? "application/octet-stream";
      return [`/${name}`, { type, bytes, ...(packed !== undefined && { gzip: packed }) }];
    }),
  );
}
