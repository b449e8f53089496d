import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { HttpCaller, tokenFile } from "../httpCaller.ts";
import { samples } from "../validObjects.ts";

let server: ApiServer;
let caller: HttpCaller;

beforeAll(async () => {
  server = await startApiServer({ clock: systemClock(), random: systemRandom(), tls: false, tokenFile, freeze: true });
  caller = new HttpCaller(server.url);
});
afterAll(async () => {
  caller.close();
  await server.stop();
});

test.each(
  samples().map((sample) => ({ ...sample, name: `${sample.type.group}/${sample.type.version} ${sample.type.kind}` })),
)(
  "$name: what is created can be read back, written back without a change, and deleted",
  async ({ path, object, type }) => {
    const sent = object(`rt-${type.version}`);
    const created = await caller.post(`${path}?fieldValidation=Strict`, sent);
    expect({ code: created.code, text: created.text }).toMatchObject({ code: 201 });
    const { name } = created.json.metadata;
    // Controllers have had their say before it is read.
    await server.controllers.idle();
    const read = await caller.get(`${path}/${name}`);
    expect(read.code).toBe(200);
    const written = await caller.put(`${path}/${name}`, read.json);
    expect({ code: written.code, text: written.text }).toMatchObject({ code: 200 });
    expect(written.json).toEqual(read.json);
    const deleted = await caller.delete(`${path}/${name}`, { gracePeriodSeconds: 0 });
    expect(deleted.code).toBe(200);
  },
);
