import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import type { SharedLog } from '../../src/bus/shared-log.ts';
import { KeyRing } from '../../src/bus/trust/key-ring.ts';
import { SealedLog } from '../../src/bus/trust/sealed-log.ts';

export interface LogHarness {
  readonly name: string;
  /** Two nodes' views of the same logs. */
  start(): Promise<{ readonly nodes: readonly [SharedLog, SharedLog]; dispose(): Promise<void> }>;
}

const SECRET = 'a secret of a cluster, 32 bytes and more';
const OTHER = 'another secret of a cluster, 32 bytes and more';

/** What every `SharedLog` promises, sealed or not. */
export function sharedLogContract(harness: LogHarness): void {
  describe(`shared log contract: ${harness.name}`, () => {
    function scenario(title: string, run: (a: SharedLog, b: SharedLog, name: string) => Promise<void>): void {
      test(`check:C9 [${harness.name}] ${title}`, { timeout: 60_000 }, async () => {
        const bench = await harness.start();
        try {
          const [a, b] = bench.nodes;
          await eventually(async () => a.append('ready.1', text('')) && (await b.read('ready.1')).position > 0);
          await run(a, b, `g${randomBytes(4).toString('hex')}.${randomBytes(8).toString('hex')}1`);
        } finally {
          await bench.dispose();
        }
      });
    }

    scenario(
      'one node reads what another appends, in order and byte for byte, under its name alone',
      async (a, b, name) => {
        const entries = [
          randomBytes(3),
          text(''),
          randomBytes(600_000),
          ...Array.from({ length: 50 }, () => randomBytes(9)),
        ];
        for (const entry of entries) assert.equal(a.append(name, entry), true);
        assert.equal(a.append(`${name}0`, text('another')), true);
        await eventually(async () => (await b.read(name)).entries.length === entries.length);
        const read = await b.read(name);
        assert.ok(read.entries.every((entry, at) => entry.equals(entries[at]!)));
        assert.deepEqual(await b.read(`${name}x`), { entries: [], position: 0 });
      },
    );

    scenario('an entry that is too long is refused with that reason', async (a, _b, name) => {
      assert.ok(a.maxEntryBytes > 512 * 1024);
      assert.equal(a.append(name, Buffer.alloc(a.maxEntryBytes + 1)), false);
      assert.equal(a.append(name, Buffer.alloc(a.maxEntryBytes)), true);
    });

    scenario('one of many appends after the same position succeeds', async (a, b, name) => {
      assert.equal(await b.appendAfter(name, text('first'), 7), false);
      assert.equal(await b.appendAfter(name, text('first'), 0), true);
      const { position } = await a.read(name);
      const attempts = Array.from({ length: 8 }, (_, at) =>
        (at % 2 === 0 ? a : b).appendAfter(name, text(`${at}`), position),
      );
      assert.equal((await Promise.all(attempts)).filter((done) => done).length, 1);
      const after = await b.read(name);
      assert.equal(after.entries.length, 2);
      assert.ok(after.position > position);
      a.append(name, text('later'));
      await eventually(async () => (await b.read(name)).entries.length === 3);
      assert.equal(await b.appendAfter(name, text('late'), after.position), false);
    });

    scenario('a name keeps its newest 1024 entries', async (a, b, name) => {
      for (let at = 0; at < 1_100; at++) assert.equal(a.append(name, text(`${at}`)), true);
      await eventually(async () => (await b.read(name)).entries.at(-1)?.toString() === '1099');
      const { entries } = await b.read(name);
      assert.equal(entries.length, 1_024);
      assert.equal(entries[0]!.toString(), '76');
    });

    scenario(
      'names with the same first word that are flooded lose their own oldest entries, no others',
      async (a, b) => {
        const others = ['g0000000f.a', 'p0000000e.a', 'g0000000e1.a'];
        const flooded = ['g0000000e.a', 'g0000000e.b'];
        const early = Array.from({ length: 20 }, (_, at) => text(`early ${at}`));
        for (const entry of early) for (const name of [...others, ...flooded]) assert.ok(a.append(name, entry));
        const size = 50_000;
        const numbers = (entries: readonly Buffer[]): number[] =>
          entries.map((entry) => Number.parseInt(entry.toString(), 10));
        for (let at = 0; at < 400; at++) {
          const entry = Buffer.alloc(size, `${at} `);
          const name = flooded[at % 2]!;
          await eventually(async () => a.append(name, entry));
          // The last drop is exact only if the server had stored the entries when the node read its position.
          if (at >= 300 && at < 350) await eventually(async () => numbers((await b.read(name)).entries).at(-1) === at);
        }
        const read = (): Promise<Buffer[][]> =>
          Promise.all(flooded.map(async (name) => [...(await b.read(name)).entries]));
        let [even, odd]: Buffer[][] = [];
        // The server stores the last entries, and purges after that.
        await eventually(async () => {
          [even, odd] = await read();
          const left = even!.length + odd!.length;
          const taken = numbers(even!).at(-1) === 398 && numbers(odd!).at(-1) === 399;
          return taken && left <= 100 && left > 60 && Math.abs(even!.length - odd!.length) <= 2;
        });
        const upTo = (last: number, count: number): number[] =>
          Array.from({ length: count }, (_, at) => last - 2 * (count - 1 - at));
        assert.deepEqual(numbers(even!), upTo(398, even!.length));
        assert.deepEqual(numbers(odd!), upTo(399, odd!.length));
        for (const name of others) assert.deepEqual((await b.read(name)).entries, early);
        await eventually(async () => a.append(flooded[0]!, text('later')));
        await eventually(async () => (await b.read(flooded[0]!)).entries.at(-1)!.toString() === 'later');
      },
    );

    scenario('a sealed entry is readable with the secret only, and under its own name', async (a, b, name) => {
      const one = new SealedLog(a, new KeyRing([SECRET]), '0123456789abcdef');
      const two = new SealedLog(b, new KeyRing([OTHER, SECRET]), 'fedcba9876543210');
      const stranger = new SealedLog(b, new KeyRing([OTHER]), '00000000000000aa');
      const said = text('what a client was told');
      for (let at = 0; at < 2; at++) assert.equal(one.append(name, said), true);
      await eventually(async () => (await two.read(name)).entries.length === 2);
      assert.ok((await two.read(name)).entries.every((entry) => entry.equals(said)));
      const raw = await b.read(name);
      assert.ok(raw.entries.every((entry) => !entry.includes('client')));
      assert.ok(!raw.entries[0]!.equals(raw.entries[1]!));
      assert.deepEqual((await stranger.read(name)).entries, []);
      // An entry under another name, and one that was cut or changed, is not read.
      const changed = Buffer.from(raw.entries[0]!);
      changed[25]! ^= 1;
      a.append(name, changed);
      a.append(name, raw.entries[0]!.subarray(0, 30));
      a.append(name, text('forged'));
      a.append(`${name}0`, raw.entries[0]!);
      await eventually(async () => (await b.read(`${name}0`)).position > 0);
      assert.equal((await two.read(name)).entries.length, 2);
      assert.deepEqual((await two.read(`${name}0`)).entries, []);
      const { position } = await two.read(name);
      assert.equal(await two.appendAfter(name, text('mine'), position), true);
      assert.equal((await one.read(name)).entries.length, 2);
      assert.equal((await two.read(name)).entries.length, 3);
    });
  });
}

function text(value: string): Buffer {
  return Buffer.from(value);
}

async function eventually(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition().catch(() => false))) await new Promise((resolve) => setTimeout(resolve, 5));
}
