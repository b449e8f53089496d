import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

// Tests named *.long.test.ts take minutes; `npm run test:long` includes them.
const long = process.env["MUSTER_LONG"] === "1";
const longTests = long ? [] : ["**/*.long.test.ts"];

export default defineConfig({
  test: {
    // One less than there are cores is what vitest takes, which on two cores leaves one idle.
    maxWorkers: availableParallelism(),
    projects: [
      {
        test: {
          name: "unit",
          // These tests change nothing outside of themselves, so a worker imports each module once for all of them.
          isolate: false,
          setupFiles: ["test/setup.ts"],
          include: ["src/**/*.test.ts", "races/**/*.test.ts", "testing/**/*.test.ts"],
          exclude: ["**/node_modules/**", ...longTests],
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "whole",
          setupFiles: ["test/setup.ts"],
          include: ["test/**/*.test.ts"],
          // `npm run test:real` has its own settings.
          exclude: ["**/node_modules/**", "test/real/**", ...longTests],
          testTimeout: long ? 1_800_000 : 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
