import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "/",
  logLevel: "warn",
  // The page supports current browsers only.
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: fileURLToPath(new URL("../../dist/dashboard", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    // The policy of the page allows no data addresses.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
});
