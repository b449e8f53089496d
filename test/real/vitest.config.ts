import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** One cluster, one file: suites follow each other. */
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../../", import.meta.url)),
    include: [`test/real/${process.env["MUSTER_REAL_FILE"] ?? "real"}.test.ts`],
    testTimeout: process.env["MUSTER_LONG"] === "1" ? 3_600_000 : 600_000,
    hookTimeout: 300_000,
    reporters: ["verbose"],
    bail: 0,
  },
});
