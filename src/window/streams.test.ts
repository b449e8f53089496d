import { describe, expect, test } from "vitest";
import { ManualClock } from "../../testing/apiserver/manualClock.ts";
import { job, ModelScript, model } from "../../testing/window/readModels.ts";
import { partNames } from "../model/window/parts.ts";
import { Feed } from "./feed.ts";
import { type StreamLimits, Streams, streamLimits } from "./streams.ts";

interface Heard {
  readonly event: string;
  readonly id: string;
  readonly data: Record<string, unknown>;
}

/** Takes what comes, event by event; what it does not read stays unsent. */
class Reader {
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  private rest = "";

  constructor(stream: ReadableStream<Uint8Array> | undefined) {
    if (stream === undefined) throw new Error("the stream was refused");
    this.reader = stream.getReader();
  }

  async next(): Promise<Heard | undefined> {
    for (;;) {
      const end = this.rest.indexOf("\n\n");
      if (end >= 0) {
        const lines = this.rest.slice(0, end).split("\n");
        this.rest = this.rest.slice(end + 2);
        const field = (name: string): string =>
          lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
        return { event: field("event"), id: field("id"), data: JSON.parse(field("data")) as Record<string, unknown> };
      }
      const { done, value } = await this.reader.read();
      if (done) return undefined;
      this.rest += new TextDecoder().decode(value);
    }
  }

  async take(count: number): Promise<Heard[]> {
    const heard: Heard[] = [];
    while (heard.length < count) {
      const next = await this.next();
      if (next === undefined) break;
      heard.push(next);
    }
    return heard;
  }

  cancel(): Promise<void> {
    return this.reader.cancel();
  }
}

const all = new Set(partNames);

function setUp(limits: Partial<StreamLimits> = {}, epoch = "e1") {
  const clock = new ManualClock();
  const source = new ModelScript(model(1));
  const feed = new Feed({ source, clock, epoch, limits: { keepMs: 60_000, keepBytes: 1e6, wholeMs: 10_000 } });
  feed.look();
  let isValid = true;
  const streams = new Streams(feed, { clock, isToken: () => isValid, limits: { ...streamLimits, ...limits } });
  const open = (lastEventId?: string, more: { token?: string; cut?: () => void } = {}) =>
    streams.open({ token: "t", parts: all, lastEventId, ...more });
  const show = (rev: number, words: Parameters<typeof model>[1] = {}): void => {
    source.next = model(rev, words);
    feed.look();
  };
  return { clock, feed, streams, source, open, show, revoke: () => (isValid = false) };
}

describe("a stream", () => {
  test("begins with a snapshot of each part, all of one revision, and continues with differences", async () => {
    const { open, show } = setUp();
    const reader = new Reader(open());
    const first = await reader.take(4);
    expect(first.map(({ event, data }) => [event, data["part"], data["rev"]])).toEqual(
      partNames.map((part) => ["snapshot", part, 1]),
    );
    show(2, { gpus: [["f"], ["x", [], 0, "xid"]] });
    const { event, data } = (await reader.next()) as Heard;
    expect(event).toBe("delta");
    expect(data).toMatchObject({
      from: 1,
      rev: 2,
      ops: { wall: { gpus: [[1, ["x", [], 0, "xid"]]], sums: { broken: 1000 } } },
    });
  });

  test("says every two seconds that nothing has changed, and whether what it shows may be old", async () => {
    const { open, clock, source, feed } = setUp();
    const reader = new Reader(open());
    await reader.take(4);
    await clock.advance(2_000);
    expect(await reader.next()).toMatchObject({ event: "at", data: { rev: 1, behindMs: 0 } });
    source.isBehind = true;
    feed.look();
    await clock.advance(2_000);
    expect(await reader.next()).toMatchObject({ event: "at", data: { behindMs: 2_000 } });
  });

  test("that comes back gets the differences since its last event, and no snapshot", async () => {
    const { open, show } = setUp();
    const first = new Reader(open());
    const last = (await first.take(4)).at(-1) as Heard;
    await first.cancel();
    show(2);
    show(3, { jobs: [job("a/b")] });
    const again = new Reader(open(last.id));
    expect(await again.next()).toMatchObject({
      event: "delta",
      data: { from: 1, rev: 3, ops: { jobs: { set: [{ id: "a/b" }] } } },
    });
  });

  test("of another epoch starts again with a reset event, also when the revision is the same", async () => {
    const { open } = setUp({}, "e2");
    const heard = await new Reader(open("e1.1.1")).take(5);
    expect(heard.map(({ event }) => event)).toEqual(["reset", "snapshot", "snapshot", "snapshot", "snapshot"]);
    expect(heard[0]?.data).toEqual({ why: "epoch" });
  });

  test("of a model that is no longer in the history starts again", async () => {
    const { open, show, clock } = setUp();
    for (let rev = 2; rev < 12; rev++) {
      await clock.advance(10_000);
      show(rev);
    }
    expect((await new Reader(open("e1.1.1")).next())?.data).toEqual({ why: "forgotten" });
    expect((await new Reader(open("e1.99.99")).next())?.event).toBe("reset");
    expect((await new Reader(open("e1.9.9")).next())?.event).toBe("delta");
  });

  test("with an invalid last event id starts again", async () => {
    const { open } = setUp();
    for (const id of ["x", "e1", "e1..", "e1.1.-1", "e1.1.1e3"]) {
      const reader = new Reader(open(id));
      expect((await reader.next())?.event, id).toBe("reset");
      await reader.cancel();
    }
  });
});

describe("a reader that takes nothing", () => {
  test("costs one model however much happens, and gets one difference for all of it", async () => {
    const { open, show } = setUp({ unsentBytesMax: 64 });
    const stream = open();
    for (let rev = 2; rev <= 50; rev++) show(rev, { jobs: [job(`a/${rev}`)] });
    const reader = new Reader(stream);
    await reader.take(4);
    expect(await reader.next()).toMatchObject({
      event: "delta",
      data: { from: 1, rev: 50, ops: { jobs: { set: [{ id: "a/50" }] } } },
    });
  });

  test("is closed after 30 seconds with its connection", async () => {
    let cuts = 0;
    const { open, clock, streams } = setUp({ unsentBytesMax: 64 });
    open(undefined, { cut: () => cuts++ });
    await clock.advance(28_000);
    expect([streams.size, cuts]).toEqual([1, 0]);
    await clock.advance(6_000);
    expect([streams.size, cuts]).toEqual([0, 1]);
  });

  test("does not hold up another one", async () => {
    const { open, show } = setUp({ unsentBytesMax: 1024 * 1024 });
    open(undefined, { token: "slow" });
    const reader = new Reader(open());
    await reader.take(4);
    show(2);
    expect(await reader.next()).toMatchObject({ event: "delta", data: { rev: 2 } });
  });
});

describe("connections", () => {
  test("are at most four a token and 64 in all; one that ends makes room", async () => {
    const { open, streams } = setUp();
    const readers: Reader[] = [];
    for (let n = 0; n < 64; n++) readers.push(new Reader(open(undefined, { token: `t${Math.floor(n / 4)}` })));
    expect(open(undefined, { token: "new" })).toBeUndefined();
    await readers[0]?.cancel();
    expect(streams.size).toBe(63);
    expect(open(undefined, { token: "t1" })).toBeUndefined();
    expect(open(undefined, { token: "t0" })).toBeDefined();
  });

  test("whose token is no longer valid end within a minute", async () => {
    const { open, clock, streams, revoke } = setUp();
    const reader = new Reader(open());
    await reader.take(4);
    revoke();
    await clock.advance(62_000);
    expect(streams.size).toBe(0);
  });
});

test("a cluster that does not change costs no model", async () => {
  const { feed, clock } = setUp();
  feed.start();
  await clock.advance(10_000);
  feed.stop();
  expect(feed.rebuilds.count).toBe(1);
});

test("models are made at most four times a second", async () => {
  const { feed, clock, source } = setUp();
  let reads = 0;
  source.read = () => model(++reads + 10);
  feed.start();
  await clock.advance(1_000);
  feed.stop();
  expect(reads).toBe(5);
});

test("models that take long are made less often: at most a twentieth of the time", async () => {
  const { feed, clock, source } = setUp();
  let reads = 0;
  let slowMs = 0;
  const startMs = clock.monotonicMs();
  clock.monotonicMs = () => clock.nowMs() - startMs + slowMs;
  source.read = () => {
    slowMs += 100;
    return model(++reads + 10);
  };
  feed.start();
  await clock.advance(10_000);
  feed.stop();
  expect(reads).toBe(6);
});

test("the past is whole models and differences, and leads to the same model by number and by revision", async () => {
  const { feed, show, clock } = setUp();
  for (let rev = 2; rev < 30; rev++) {
    await clock.advance(1_000);
    show(rev, { gpus: rev % 2 === 0 ? [["f"], ["c"]] : [["f"], ["f"]], jobs: [job(`a/${rev % 3}`)] });
  }
  for (const rev of [2, 9, 10, 11, 25]) {
    const expected = model(rev, { gpus: rev % 2 === 0 ? [["f"], ["c"]] : [["f"], ["f"]], jobs: [job(`a/${rev % 3}`)] });
    expect(feed.history.byRev(rev)).toEqual(expected);
    expect(feed.history.bySeq(rev)).toEqual(expected);
  }
});
