/**
 * Muster on a real Kubernetes: kube-apiserver, etcd, kubelets, containers, and the image as it is shipped. The embedded
 * server and simulated nodes cannot show what these do otherwise. `npm run test:real` runs it.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, test } from "vitest";
import { RealCluster } from "./kit/cluster.ts";
import { whyNot } from "./kit/peers.ts";
import { claimsSuite } from "./suites/claims.ts";
import { contractSuite } from "./suites/contract.ts";
import { failOverSuite } from "./suites/failOver.ts";
import { gangsSuite } from "./suites/gangs.ts";
import { installSuite } from "./suites/install.ts";
import { quickStartSuite } from "./suites/quickStart.ts";
import { sharesSuite } from "./suites/shares.ts";
import { upgradeSuite } from "./suites/upgrade.ts";
import { outageSuite, uninstallSuite, viewsSuite } from "./suites/views.ts";
import { webhooksSuite } from "./suites/webhooks.ts";

const reason = whyNot();

test.runIf(reason !== undefined)(`a real cluster cannot be started: ${reason}`, ({ skip }) => skip(reason));

const folder = process.env["MUSTER_REAL_FOLDER"] ?? mkdtempSync(join(tmpdir(), "muster-real-"));

describe.runIf(reason === undefined)("on a real API server", () => contractSuite(folder));

describe.runIf(reason === undefined)("on a real cluster", () => {
  const cluster = new RealCluster(folder);
  beforeAll(() => cluster.start());
  afterAll(async () => {
    await cluster.describe("last-state.txt");
    await cluster.stop();
  });
  installSuite(cluster);
  webhooksSuite(cluster);
  quickStartSuite(cluster);
  sharesSuite(cluster);
  gangsSuite(cluster);
  claimsSuite(cluster);
  viewsSuite(cluster);
  upgradeSuite(cluster);
  outageSuite(cluster);
  uninstallSuite(cluster);
});

describe.runIf(reason === undefined)("on a real control plane with simulated nodes", () => failOverSuite(folder));
