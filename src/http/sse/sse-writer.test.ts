import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { until } from '../../../test/support/http-client.ts';
import { LANES, listenerRig } from '../../../test/support/http-listener.ts';
import type { SseWriter } from './sse-writer.ts';
import { StreamWheel, type StreamWheelOptions } from './stream-wheel.ts';

interface Client {
  readonly writer: SseWriter;
  readonly socket: Socket;
  /** The text of the stream, without chunk framing. */
  events(): string;
  raw(): string;
}

/** A listener whose `/stream` opens an event stream; `open` returns both ends of the stream. */
async function openerOf(t: TestContext, lines: string, options: StreamWheelOptions = {}) {
  const wheel = new StreamWheel(options);
  const { listener, port } = await listenerRig(t, {}, { wheel });
  const writers: SseWriter[] = [];
  listener.answerHeaders = ['Mcp-Session-Id', 'abc'];
  listener.routes.add('/stream', { GET: (context) => void writers.push(context.openSse()) });
  const open = async (reading = true): Promise<Client> => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.on('error', () => {});
    if (reading) socket.on('data', (chunk) => chunks.push(chunk));
    const before = writers.length;
    socket.write(`GET /stream HTTP/1.1\r\nHost: localhost\r\n${lines}\r\n`);
    await until(() => writers.length > before);
    const raw = (): string => Buffer.concat(chunks).toString('latin1');
    return { writer: writers[before]!, socket, raw, events: () => dechunk(raw()) };
  };
  return { wheel, open };
}

function dechunk(raw: string): string {
  let rest = raw.slice(raw.indexOf('\r\n\r\n') + 4);
  let text = '';
  for (let line = /^([0-9a-f]+)\r\n/i.exec(rest); line !== null; line = /^([0-9a-f]+)\r\n/i.exec(rest)) {
    const size = Number.parseInt(line[1]!, 16);
    text += rest.slice(line[0].length, line[0].length + size);
    rest = rest.slice(line[0].length + size + 2);
  }
  return text;
}

const json = (value: unknown): Buffer[] => [Buffer.from(JSON.stringify(value))];
const MIB = 1024 * 1024;

/** Writes until the client's side is full: later events are held back. */
function fill(writer: SseWriter): void {
  const block = Buffer.alloc(200_000, 'f');
  for (let i = 0; i < 200 && writer.event(null, [block], true); i++);
}

for (const [fastPath, lines] of Object.entries(LANES)) {
  describe(`event streams in ${fastPath}`, () => {
    const rig = (t: TestContext, options: StreamWheelOptions = {}) => openerOf(t, lines, options);

    test('proto:H9 headers leave when the stream opens, every event at once, and comments keep it alive', async (t) => {
      const { open, wheel } = await rig(t, { tickMs: 20, keepAliveMs: 100 });
      const client = await open();
      await until(() => client.raw().includes('\r\n\r\n'));
      const head = client.raw();
      assert.match(head, /^HTTP\/1\.1 200 OK\r\n/);
      assert.match(head, /\r\nContent-Type: text\/event-stream\r\n/);
      assert.match(head, /\r\nCache-Control: no-cache, no-transform\r\n/);
      assert.match(head, /\r\nX-Accel-Buffering: no\r\n/);
      assert.match(head, /\r\nMcp-Session-Id: abc\r\n/);
      assert.doesNotMatch(head, /Content-Length|Content-Encoding/i);
      for (const [i, sent] of ['id: 1\ndata: {"a":1}\n\n', 'id: 2\ndata: {"a":2}\n\n'].entries()) {
        assert.equal(client.writer.event(String(i + 1), json({ a: i + 1 })), true);
        // The event arrives while the stream stays open and nothing follows.
        await until(() => client.events().includes(sent));
      }
      client.writer.named('endpoint', '/message?sessionId=1');
      client.writer.retry(1_500);
      await until(() => client.events().endsWith('event: endpoint\ndata: /message?sessionId=1\n\nretry: 1500\n\n'));
      await until(() => client.events().endsWith(': keep-alive\n\n: keep-alive\n\n'));
      assert.equal(wheel.open, 1);
    });

    test('a stream with events needs no comments', async (t) => {
      const { open } = await rig(t, { tickMs: 20, keepAliveMs: 400 });
      const client = await open();
      for (let i = 0; i < 20; i++) {
        client.writer.event(null, json(i));
        await delay(30);
      }
      assert.doesNotMatch(client.events(), /keep-alive/);
    });

    test('ends in order, and the connection goes on', async (t) => {
      const { open, wheel } = await rig(t);
      const client = await open();
      let closed = 0;
      client.writer.onClose = () => closed++;
      client.writer.event('1', json('last'));
      client.writer.end();
      client.writer.end();
      client.writer.event('2', json('too late'));
      await until(() => client.raw().endsWith('0\r\n\r\n'));
      assert.equal(client.events(), 'id: 1\ndata: "last"\n\n');
      await until(() => wheel.open === 0);
      client.socket.write('GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n');
      await until(() => client.raw().includes('{"fine":true}'));
      assert.equal(closed, 0);
      assert.equal(client.socket.listenerCount('drain'), 0);
    });

    test('reports once that the client left; later writes are harmless', async (t) => {
      const { open, wheel } = await rig(t);
      const client = await open();
      let closed = 0;
      client.writer.onClose = () => closed++;
      client.socket.destroy();
      await until(() => closed === 1);
      assert.equal(client.writer.closed, true);
      assert.equal(client.writer.event(null, json(1)), true);
      client.writer.end();
      client.writer.disconnect();
      await delay(20);
      assert.equal(closed, 1);
      assert.deepEqual([wheel.open, wheel.heldBytes], [0, 0]);
    });

    test('a client that reads late gets everything that must not be dropped, in order and whole', async (t) => {
      const { open, wheel } = await rig(t);
      const client = await open(false);
      let drained = 0;
      client.writer.onDrain = () => drained++;
      const big = Buffer.alloc(5 * MIB, 'b');
      const sent = [json('first'), [Buffer.from('"'), big, Buffer.from('"')], json('after'), [big], json('last')];
      const flowing = sent.map((parts, i) => client.writer.event(String(i), parts));
      assert.equal(flowing[0], true);
      assert.equal(flowing.at(-1), false);
      assert.ok(wheel.heldBytes > MIB);
      client.writer.end();
      const chunks: Buffer[] = [];
      client.socket.on('data', (chunk) => chunks.push(chunk));
      await until(() => chunks.at(-1)?.toString('latin1').endsWith('0\r\n\r\n') === true);
      const expected = sent.map((parts, i) => `id: ${i}\ndata: ${Buffer.concat(parts)}\n\n`).join('');
      assert.ok(dechunk(Buffer.concat(chunks).toString('latin1')) === expected);
      assert.equal(wheel.heldBytes, 0);
      assert.equal(drained, 0);
    });

    test('notifies the source when it may go on', async (t) => {
      const { open } = await rig(t);
      const client = await open(false);
      let drained = 0;
      client.writer.onDrain = () => drained++;
      fill(client.writer);
      assert.equal(client.writer.event(null, json('wait')), false);
      client.socket.resume();
      await until(() => drained === 1);
      assert.equal(client.writer.event(null, json('again')), true);
      assert.equal(client.writer.pendingBytes < MIB, true);
    });

    test('fault:F18 a client that never reads: notifications dropped oldest first with a marker, then cut; others unaffected', async (t) => {
      const { open, wheel } = await rig(t, { tickMs: 25, stallMs: 500 });
      const [stuck, fine] = [await open(false), await open()];
      let closed = 0;
      stuck.writer.onClose = () => closed++;
      fill(stuck.writer);
      const note = Buffer.alloc(100_000, 'n');
      stuck.writer.event('must-stay', json('kept'));
      for (let i = 0; i < 40; i++) {
        stuck.writer.event(`n${i}`, [note], true);
        fine.writer.event(`n${i}`, json(i), true);
      }
      assert.ok(stuck.writer.pendingBytes < 2 * MIB, `${stuck.writer.pendingBytes} bytes held`);
      await until(() => fine.events().includes('id: n39\n'));
      assert.equal(fine.events().match(/id: n/g)?.length, 40);
      await until(() => closed === 1);
      assert.equal(wheel.open, 1);
      assert.equal(wheel.heldBytes, 0);
      // Such a client would have received the marker, the event that had to stay, and the newest notifications.
      const late = await open(false);
      fill(late.writer);
      late.writer.event('must-stay', json('kept'));
      for (let i = 0; i < 40; i++) late.writer.event(`n${i}`, [note], true);
      const chunks: Buffer[] = [];
      late.socket.on('data', (chunk) => chunks.push(chunk));
      await until(() => Buffer.concat(chunks).includes('id: n39'));
      const text = dechunk(Buffer.concat(chunks).toString('latin1'));
      assert.match(text, /: \d+ notifications were dropped: [^\n]*\n\n/);
      assert.match(text, /id: must-stay\n/);
      assert.doesNotMatch(text, /id: n0\n/);
    });

    test('goal:G16 waiting events take memory of the streams, which is released however the stream ends', async (t) => {
      const { open, wheel } = await rig(t, { tickMs: 20, stallMs: 60_000 });
      const note = (i: number): Buffer[] => [Buffer.alloc(60_000, 97 + (i % 26))];
      const clients = [await open(false), await open(false), await open(false)];
      for (const { writer } of clients) {
        for (let i = 0; i < 200; i++) writer.event(`${i}`, note(i), i % 2 === 0);
      }
      const [late, leaving, cut] = clients as [Client, Client, Client];
      assert.ok(wheel.memory.takenBytes > MIB, `${wheel.memory.takenBytes}`);
      leaving.socket.destroy();
      cut.writer.disconnect();
      const chunks: Buffer[] = [];
      late.socket.on('data', (chunk) => chunks.push(chunk));
      late.writer.end();
      await until(() => chunks.at(-1)?.toString('latin1').endsWith('0\r\n\r\n') === true);
      const events = [...dechunk(Buffer.concat(chunks).toString('latin1')).matchAll(/^id: (\d+)\ndata: (.*)$/gm)];
      assert.ok(events.length >= 100 && events.length < 200);
      assert.ok(events.every(([, id, data]) => data === String.fromCharCode(97 + (Number(id) % 26)).repeat(60_000)));
      await until(() => wheel.open === 0 && wheel.memory.takenBytes === 0);
      // A stream that goes on does not keep what its client has read.
      const reading = await open();
      reading.writer.event('0', note(0));
      await until(() => reading.events().length > 60_000 && wheel.memory.takenBytes === 0);
    });

    test('a slow but steady reader is not cut', async (t) => {
      const clock = new FakeClock();
      const { open } = await rig(t, { clock, tickMs: 20, stallMs: 200 });
      const client = await open(false);
      let closed = 0;
      client.writer.onClose = () => closed++;
      client.writer.event('1', [Buffer.alloc(16 * MIB, 'x')]);
      client.socket.pause();
      let rounds = 0;
      while (client.writer.pendingBytes > 2 * MIB) {
        const before = client.writer.pendingBytes;
        await until(() => {
          client.socket.read();
          return client.writer.pendingBytes < before;
        });
        await clock.advance(180);
        rounds++;
      }
      assert.ok(rounds > 5);
      assert.equal(closed, 0);
      await clock.advance(220);
      assert.equal(closed, 1, 'a reader that stops is cut');
    });

    test('above the limit of all streams the longest blocked ones are cut', async (t) => {
      const { open, wheel } = await rig(t, { maxHeldBytes: 3 * MIB });
      const clients = [await open(false), await open(false), await open(false)];
      const closed: number[] = [];
      for (const [i, { writer }] of clients.entries()) {
        writer.onClose = () => closed.push(i);
        fill(writer);
        writer.event(null, [Buffer.alloc(1.2 * MIB, 'x')]);
      }
      await until(() => closed.length > 0);
      assert.equal(closed[0], 0);
      assert.equal(closed.includes(2), false);
      assert.ok(wheel.heldBytes <= 3 * MIB);
    });

    test('the timer wheel stops without streams', async (t) => {
      const { open, wheel } = await rig(t, { tickMs: 5 });
      const client = await open();
      await until(() => wheel.tick > 2);
      client.writer.end();
      await until(() => wheel.open === 0);
      const { tick } = wheel;
      await delay(50);
      assert.equal(wheel.tick, tick);
    });
  });
}
