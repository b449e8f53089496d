import { expect, test } from "vitest";
import { configMapNamed, refusal, TestApi } from "../../../testing/apiserver/testApi.ts";
import { listObjects } from "./getListWatch.ts";

test("a continue token expires after five minutes even without writes, and the error has a new token", async () => {
  const test = await TestApi.start({ controllers: "none" });
  for (const name of ["a", "b", "c"]) await test.create("/configmaps", configMapNamed(`default/${name}`));
  const target = { ...test.target("/configmaps", ""), namespace: "default" };
  const first = await listObjects(test.core, target, { limit: 1 });
  await test.clock.advance(4 * 60_000);
  const second = await listObjects(test.core, target, { limit: 1, continueToken: first.continueToken });
  expect(second.versions.map(({ name }) => name)).toEqual(["b"]);
  await test.clock.advance(2 * 60_000);
  const late = listObjects(test.core, target, { limit: 1, continueToken: first.continueToken });
  expect(await refusal(late)).toMatchObject({ code: 410, reason: "Expired" });
  const error = (await listObjects(test.core, target, { continueToken: first.continueToken }).catch(
    (reason: unknown) => reason,
  )) as { status: { metadata?: { continue?: string } } };
  const rest = await listObjects(test.core, target, { continueToken: error.status.metadata?.continue });
  expect(rest.versions.map(({ name }) => name)).toEqual(["b", "c", "kube-root-ca.crt"]);
});
