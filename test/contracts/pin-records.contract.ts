import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type DriftEvent, type Pin, type PinsChange, pinKey } from '../../src/model/drift.ts';
import type { PinRecords } from '../../src/store/run-time-store/stored-pins.ts';

export interface PinRecordsSubject {
  /** The records under this name, as a process that starts now reads them. */
  open(name: string): PinRecords;
}

export function pin(key: string, more: Partial<Pin> = {}): Pin {
  const approved = [
    { digest: `d-${key}`, definition: Buffer.from(`{"name":${JSON.stringify(key)}}`), at: 1, by: 'me' },
  ];
  return { list: 'tools', key, approved, blocked: null, ...more };
}

export function event(at: number, text = ''): DriftEvent {
  return {
    at,
    kind: 'changed',
    name: { list: 'tools', key: 'a' },
    digest: 'd',
    before: null,
    severity: 'wording',
    by: null,
    text,
  };
}

const change = (more: Partial<PinsChange>): PinsChange => ({ pins: [], removed: [], events: [], ...more });

/** The suite of the port `PinRecords`. */
export function pinRecordsContract(name: string, subject: PinRecordsSubject): void {
  describe(`pin records: ${name}`, () => {
    let count = 0;
    const place = () => `pins-${++count}`;

    test('check:G4 saved pins are there for the next reader, byte for byte, and nothing else', async () => {
      const where = place();
      const records = subject.open(where);
      assert.deepEqual(await records.load(), []);
      const odd = '{"name":"a/b ü\u{1f600}","n":1.0,"big":12345678901234567890}';
      const pins = [
        pin('a/b ü\u{1f600}', { approved: [{ digest: 'x', definition: Buffer.from(odd), at: 5, by: 'first use' }] }),
        pin('', { list: 'instructions', approved: [], blocked: { at: 7, by: 'operator' } }),
        pin(`file:///{${'long'.repeat(300)}}`, { list: 'resourceTemplates' }),
        pin('a', { approved: [{ digest: 'none', definition: null, at: 5, by: 'me' }] }),
      ];
      assert.equal(await records.save('s', change({ trustedAt: 42, pins })), true);
      assert.equal(await records.save('other/s', change({ pins: [pin('a')] })), true);
      const loaded = await subject.open(where).load();
      assert.deepEqual(loaded.map(({ server, trustedAt }) => [server, trustedAt]).sort(), [
        ['other/s', null],
        ['s', 42],
      ]);
      const own = loaded.find(({ server }) => server === 's')!;
      assert.deepEqual(new Map([...own.pins].sort()), new Map(pins.map((one) => [pinKey(one), one] as const).sort()));
    });

    test('check:G4 a pin can be replaced and removed', async () => {
      const where = place();
      const records = subject.open(where);
      await records.save('s', change({ pins: [pin('a'), pin('b')] }));
      await records.save('s', change({ pins: [pin('a', { blocked: { at: 1, by: 'me' } })], removed: [pin('b')] }));
      const [own] = await subject.open(where).load();
      assert.deepEqual([...own!.pins.values()], [pin('a', { blocked: { at: 1, by: 'me' } })]);
    });

    test('check:G4 one of two writers of the same pin is refused, and nothing of its change is stored', async () => {
      const where = place();
      const [one, other] = [subject.open(where), subject.open(where)];
      await one.load();
      await other.load();
      assert.equal(await one.save('s', change({ pins: [pin('a')] })), true);
      assert.equal(await other.save('s', change({ pins: [pin('b'), pin('a', { approved: [] })] })), false);
      assert.deepEqual([...(await subject.open(where).load())[0]!.pins.keys()], ['tools a']);
      await other.load();
      assert.equal(await other.save('s', change({ pins: [pin('a', { approved: [] })] })), true);
    });

    test('check:G4 a decision about a thousand definitions is stored whole or not at all', async () => {
      const where = place();
      const [one, other] = [subject.open(where), subject.open(where)];
      const pins = Array.from({ length: 1_000 }, (_, i) => pin(`t${i}`));
      const decision = change({ trustedAt: 1, pins, events: pins.map((_, i) => event(i)) });
      assert.equal(await other.save('s', change({ pins: [pin('t999')] })), true);
      assert.equal(await one.save('s', decision), false);
      const [stored] = await one.load();
      assert.deepEqual([stored!.trustedAt, [...stored!.pins.keys()]], [null, ['tools t999']]);
      assert.equal(await one.save('s', decision), true);
      assert.equal((await subject.open(where).load())[0]!.pins.size, 1_000);
      assert.equal((await one.history('s', { limit: 1_000 })).length, 500);
    });

    test('check:G4 a decision that is too large for the store is refused whole, and says what to do', async () => {
      const where = place();
      const definition = Buffer.from(`{"a":"${'x'.repeat(30_000)}"}`);
      const pins = Array.from({ length: 300 }, (_, i) =>
        pin(`t${i}`, { approved: [{ digest: 'd', definition, at: 1, by: 'me' }] }),
      );
      await assert.rejects(subject.open(where).save('s', change({ pins })), {
        fault: 'unavailable',
        message: /pins of s is too large.*at most 8388608 bytes.*decide about fewer definitions/,
      });
      assert.deepEqual(await subject.open(where).load(), []);
    });

    test('check:G4 no event is lost when two nodes note events in the same millisecond', async () => {
      const where = place();
      const [one, other] = [subject.open(where), subject.open(where)];
      await one.save('s', change({ events: [event(1_000, 'one')] }));
      await other.save('s', change({ events: [event(1_000, 'other')] }));
      const texts = (await one.history('s', { limit: 5 })).map(({ text }) => text);
      assert.deepEqual(texts.sort(), ['one', 'other']);
    });

    test('check:G4 history comes newest first, page after page, of one server', async () => {
      const records = subject.open(place());
      for (const at of [1_000, 2_000, 2_000, 3_000])
        await records.save('s', change({ events: [event(at, `at ${at}`)] }));
      await records.save('s2', change({ events: [event(9_000)] }));
      const first = await records.history('s', { limit: 3 });
      assert.deepEqual(
        first.map(({ at }) => at),
        [3_000, 2_000, 2_000],
      );
      const rest = await records.history('s', { limit: 3, after: first.at(-1)!.id });
      const { id: _, ...last } = rest[0]!;
      assert.deepEqual([rest.length, last], [1, event(1_000, 'at 1000')]);
      assert.deepEqual(await records.history('nobody', { limit: 3 }), []);
    });

    test('check:G4 the history of a server is bounded, and its newest part stays', async () => {
      const records = subject.open(place());
      for (let from = 0; from < 700; from += 100) {
        const events = Array.from({ length: 100 }, (_, i) => event(from + i));
        await records.save('s', change({ events }));
      }
      const kept = await records.history('s', { limit: 1_000 });
      assert.equal(kept.length, 500);
      assert.deepEqual([kept[0]!.at, kept.at(-1)!.at], [699, 200]);
    });

    test('check:G4 a first listing of very many definitions is stored whole', async () => {
      const where = place();
      const pins = Array.from({ length: 2_500 }, (_, i) => pin(`t${i}`));
      assert.equal(await subject.open(where).save('s', change({ trustedAt: 1, pins, inParts: true })), true);
      assert.equal((await subject.open(where).load())[0]!.pins.size, 2_500);
    });
  });
}
