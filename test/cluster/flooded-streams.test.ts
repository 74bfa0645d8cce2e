import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NatsSharedLog } from '../../src/bus/nats/nats-shared-log.ts';
import { NatsSharedState } from '../../src/bus/nats/nats-shared-state.ts';
import { loadNats, NatsWire } from '../../src/bus/nats/nats-wire.ts';
import { KeyRing } from '../../src/bus/trust/key-ring.ts';
import { SealedLog } from '../../src/bus/trust/sealed-log.ts';
import { readOrphanedStream, StreamCopyWriter } from '../../src/cluster/streams/stream-copies.ts';
import { systemClock } from '../../src/model/clock.ts';
import type { OrphanedStream, StreamCopy } from '../../src/model/stream-copies.ts';
import { SECRET } from '../support/cluster-bench.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, until } from '../support/cluster-processes.ts';
import { LeftLog } from '../support/left-log.ts';
import { eventually } from '../support/nats-cluster.ts';
import { NatsServer } from '../support/nats-server.ts';
import type { Event, EventReader } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

const MIB = 1024 * 1024;
const KIB = 1024;

test('check:C9 a session with more events than NATS keeps loses its own oldest events; other sessions lose none', {
  timeout: 120_000,
}, async () => {
  await using nodes = await TwoNodes.start();
  const quiet = nodes.begin(1);
  for (let seq = 1; seq <= 40; seq++) quiet.say(seq, 10 * KIB);
  await nodes.written(quiet, 40);
  const loud = nodes.begin(2);
  // Twice the limit of all copies together.
  for (let seq = 1; seq <= 2_048; seq++) {
    loud.say(seq, 64 * KIB);
    if (seq % 4 === 0) await nodes.sent();
  }
  await nodes.written(loud, 2_048);
  const left = (await loud.after(0))!.events;
  assert.equal(left[0]!.eventId, null, 'the lost events are reported');
  const kept = left.slice(1).map(({ eventId, message }) => {
    assert.ok(message !== null);
    return loud.seqOf(eventId!);
  });
  assert.deepEqual(
    kept,
    Array.from({ length: kept.length }, (_, at) => 2_048 - kept.length + 1 + at),
  );
  assert.ok(kept.length * 64 * KIB > 2 * MIB, `${kept.length} events are there`);
  assert.ok((await nodes.bytes()) < 9 * MIB);
  assert.deepEqual(await quiet.kept(), { count: 40, gaps: 0 });
});

test('check:C9 many sessions with more events than NATS keeps lose their oldest; sessions with few events lose none', {
  timeout: 120_000,
}, async () => {
  await using nodes = await TwoNodes.start({ maxBytes: 16 * MIB });
  const quiet = Array.from({ length: 50 }, (_, at) => nodes.begin(at + 1));
  for (const stream of quiet) for (let seq = 1; seq <= 4; seq++) stream.say(seq, 4 * KIB);
  for (const stream of quiet) await nodes.written(stream, 4);
  // Each session writes 1 MiB, its largest share.
  const loud = Array.from({ length: 40 }, (_, at) => nodes.begin(at + 1_000));
  for (let seq = 1; seq <= 64; seq++) {
    for (const stream of loud) {
      stream.say(seq, 16 * KIB);
      await nodes.sent();
    }
  }
  for (const stream of loud) await nodes.written(stream, 64);
  assert.ok((await nodes.bytes()) < 14 * MIB, `${await nodes.bytes()}`);
  for (const stream of quiet) assert.deepEqual(await stream.kept(), { count: 4, gaps: 0 });
  for (const stream of loud) {
    const { count, gaps } = await stream.kept();
    assert.ok(count >= 3 && count < 64 && gaps === 1, `${count} events, ${gaps} gaps`);
  }
});

test('check:C9 fault:F30 after a node dies, a quiet client gets all missed events, and a flooded client a gap and the newest', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      await using log = await LeftLog.open(nodes.nats, 16 * MIB);
      const more = { cluster: { streamCopiesBytes: 16 * MIB } };
      const a = await nodes.node('a', { counter: counterServer() }, more);
      const b = await nodes.node('b', {}, more);
      await callable(b, 'counter');
      const [quiet, loud] = [await begun(b.serverUrl('counter')), await begun(b.serverUrl('counter'))];
      const written = ({ client, seen }: Begun, last: string): Promise<void> =>
        until(async () => {
          const left = await log.after(client.sessionId!, seen.id!);
          return left?.events.some(({ message }) => message?.includes(`"data":[${last}`)) === true;
        }, `${last} to be written down`);
      for (let data = 1; data <= 5; data++) {
        await quiet.client.callText('log', { data: [data] });
        // A message that arrives during the next call would be taken for a message of that call.
        await written(quiet, `${data}]`);
      }
      const text = 'x'.repeat(60_000);
      for (let data = 1; data <= 400; data++) await loud.client.callText('log', { data: [data, text] });
      await written(loud, '400,');
      b.kill('SIGKILL');
      await b.exited;
      const missed = async ({ client, seen }: Begun, last: number): Promise<unknown[]> => {
        const there = new WireClient(a.serverUrl('counter'), 'stateful');
        there.sessionId = client.sessionId;
        const stream = await there.listen(seen.id!);
        const heard: unknown[] = [];
        for (let data: unknown = null; data !== last; ) {
          data = dataOf(await said(stream));
          if (Array.isArray(data)) data = data[0];
          heard.push(data);
        }
        stream.drop();
        return heard;
      };
      assert.deepEqual(await missed(quiet, 5), [1, 2, 3, 4, 5]);
      const [gap, ...newest] = await missed(loud, 400);
      assert.match(String(gap), /lost with the node/);
      assert.ok(newest.length >= 5 && newest.length < 60, `${newest}`);
      assert.deepEqual(
        newest,
        newest.map(Number).sort((one, other) => one - other),
      );
      assert.ok(Number(newest[0]) > 300, `${newest}`);
    },
  ));

interface Begun {
  readonly client: WireClient;
  /** The last event that the client got before its connection broke. */
  readonly seen: Event;
}

async function begun(url: string): Promise<Begun> {
  const client = await WireClient.open(url);
  const stream = await client.listen();
  await client.callText('log', { data: 0 });
  const seen = await said(stream);
  stream.drop();
  return { client, seen };
}

/** The next message of a server. */
async function said(stream: EventReader): Promise<Event> {
  for (;;) {
    const event = await stream.next();
    assert.ok(event !== null, 'the stream has ended');
    if (event.data !== '' && !event.data.includes('list_changed')) return event;
  }
}

const dataOf = ({ data }: Event): unknown => JSON.parse(data).params.data;

/** The log of two nodes: one writes the copies of its streams, the other reads them. */
class TwoNodes implements AsyncDisposable {
  readonly #server: NatsServer;
  readonly #wires: readonly NatsWire[];
  readonly #state: NatsSharedState;
  readonly #logs: readonly SealedLog[];
  readonly copies: StreamCopyWriter;
  readonly log: SealedLog;

  private constructor(server: NatsServer, made: readonly Awaited<ReturnType<typeof opened>>[]) {
    const [a, b] = made;
    this.#server = server;
    this.#wires = made.map(({ wire }) => wire);
    this.#logs = made.map(({ log }) => log);
    this.#state = a!.state;
    this.copies = new StreamCopyWriter(a!.log, systemClock);
    this.log = b!.log;
  }

  static async start(settings: { maxBytes?: number } = {}): Promise<TwoNodes> {
    const server = await NatsServer.start();
    const made = [await opened(server, 'a1', settings), await opened(server, 'b2', settings)];
    await eventually(async () => assert.ok(await made[0]!.log.appendAfter('ready.1', Buffer.from('x'), 0)));
    return new TwoNodes(server, made);
  }

  begin(session: number): SaidStream {
    return new SaidStream(this, session);
  }

  /** Sends the copies at the pace of a client that reads 50 MB/s. */
  async sent(): Promise<void> {
    this.copies.flush();
    await this.#wires[0]!.flush();
    await new Promise((resolve) => setTimeout(resolve, 2));
  }

  async written(stream: SaidStream, last: number): Promise<void> {
    this.copies.flush();
    await eventually(async () => assert.ok((await stream.after(last - 1))?.events.at(-1)?.message));
  }

  async bytes(): Promise<number> {
    const { manager } = await this.#state.context();
    return (await manager.streams.info('trunkline_logs')).state.bytes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const log of this.#logs) log.close();
    for (const wire of this.#wires) await wire.close();
    await this.#server[Symbol.asyncDispose]();
  }
}

class SaidStream {
  readonly #nodes: TwoNodes;
  readonly #session: string;
  readonly #name: string;
  readonly #copy: StreamCopy;

  constructor(nodes: TwoNodes, session: number) {
    this.#nodes = nodes;
    this.#session = `s${session}`;
    this.#name = `g${session.toString(16).padStart(8, '0')}.00000000000000a11`;
    this.#copy = nodes.copies.begin({
      name: this.#name,
      sessionId: this.#session,
      principal: 'p',
      unanswered: () => [],
    });
  }

  say(seq: number, bytes: number): void {
    this.#copy.add(`${this.#name}~${seq.toString(36)}`, Buffer.alloc(bytes, `${seq} `), null);
  }

  after(seq: number): Promise<OrphanedStream | null> {
    return readOrphanedStream(this.#nodes.log, this.#session, 'p', `${this.#name}~${seq.toString(36)}`);
  }

  seqOf(eventId: string): number {
    return Number.parseInt(eventId.slice(this.#name.length + 1), 36);
  }

  /** Counts from the beginning of the stream. */
  async kept(): Promise<{ readonly count: number; readonly gaps: number }> {
    const events = (await this.after(0))?.events ?? [];
    const gaps = events.filter(({ eventId }) => eventId === null).length;
    return { count: events.length - gaps, gaps };
  }
}

async function opened(server: NatsServer, peer: string, settings: { maxBytes?: number }) {
  const { core, jetStream } = await loadNats();
  const clock = systemClock;
  const wire = new NatsWire(core, { servers: [server.url], name: 'test', credentials: null, tls: null }, clock);
  await wire.firstAttempt;
  const state = new NatsSharedState({ wire, core, jetStream, clock });
  const stored = new NatsSharedLog(state, settings.maxBytes);
  return { wire, state, log: new SealedLog(stored, new KeyRing([SECRET]), peer.padStart(16, '0')) };
}
