import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onNodes, type PlayedNode } from '../../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import type { Bus, Subscriber } from '../../bus/bus.ts';
import type { SessionMember, UpstreamSessionRef } from '../../model/ports.ts';
import { Logger } from '../../telemetry/logger.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import type { NodeView } from '../nodes/node-state.ts';
import type { Claims, Owner } from '../ownership/claims.ts';
import { SessionStreams } from './session-streams.ts';

const PLACE: UpstreamSessionRef = { server: 'web', identity: 'i', key: 'k' };

interface Reported {
  readonly streams: readonly { readonly key: string; readonly after: string | null }[];
}

/** A node that may listen to every stream that it claims, on a bus that refuses long hints, as the real one does. */
class Bench {
  readonly claiming = Promise.withResolvers<void>();
  readonly released: string[] = [];
  readonly reported: Reported[] = [];
  readonly listened: (string | null)[] = [];
  able = true;
  lastEventId: string | null = null;
  silenced = 0;
  owner: Owner = { kind: 'mine', claim: { fresh: true } } as Owner;
  /** Owners of the first claims; `owner` is that of the others. */
  readonly owners: Owner[] = [];
  #hear: Subscriber = () => {};
  readonly streams: SessionStreams;

  constructor() {
    const bus = {
      peer: 'a',
      subscribe: (_subject: string, hear: Subscriber) => {
        this.#hear = hear;
        return { close: () => {} };
      },
      publish: (_subject: string, pieces: readonly Buffer[]) => {
        const bytes = Buffer.concat(pieces);
        if (bytes.length > 512 * 1024) throw new Error(`a hint of ${bytes.length} bytes`);
        this.reported.push(unpackFrame<Reported>(bytes).header);
      },
    };
    const claims = {
      claim: async (): Promise<Owner> => {
        await this.claiming.promise;
        return this.owners.shift() ?? this.owner;
      },
      release: async (_server: string, key: string) => void this.released.push(key),
    };
    this.streams = new SessionStreams(
      { bus: bus as unknown as Bus, clock: new FakeClock(), logger: Logger.silent() },
      claims as unknown as Claims,
      this,
      { get: () => ({}) as NodeView },
    );
  }

  /** Another node reports that it has stopped listening. */
  hears(peer: string, streams: Reported['streams']): void {
    this.#hear(Buffer.concat(packFrame({ streams })), peer, 'trunkline.unheard');
  }

  join(key: string, listens = false): () => void {
    const member: SessionMember = {
      listens,
      generationChanged: () => {},
      listen: (after) => void this.listened.push(after),
      stopListening: () => {
        this.silenced++;
        return this.lastEventId;
      },
      replaced: () => {},
    };
    this.streams.join(PLACE, key, member);
    return () => this.streams.leave(key, member);
  }
}

test('check:C9 long event ids of a server are not published, and do not stop a node from leaving', async () => {
  const bench = new Bench();
  bench.claiming.resolve();
  for (let at = 0; at < 300; at++) bench.join(`s${at}`);
  await settled();
  assert.equal(bench.listened.length, 300);
  bench.lastEventId = 'x'.repeat(600_000);
  bench.streams.drain();
  await settled();
  const reported = bench.reported.flatMap(({ streams }) => streams);
  assert.deepEqual(
    reported,
    Array.from({ length: 300 }, (_, at) => ({ key: `s${at}`, after: null })),
  );
});

test('check:C9 many event ids of the usual kind are published, as many at a time as fit into a hint', async () => {
  const bench = new Bench();
  bench.claiming.resolve();
  for (let at = 0; at < 300; at++) bench.join(`s${at}`);
  await settled();
  // Six bytes each, in JSON.
  bench.lastEventId = '\u0001'.repeat(500);
  bench.streams.drain();
  await settled();
  const reported = bench.reported.flatMap(({ streams }) => streams);
  assert.equal(reported.length, 300);
  assert.ok(reported.every(({ after }) => after === bench.lastEventId));
});

test('check:C9 fault:F33 a node that begins to leave while it claims a stream leaves it to the others', async () => {
  const bench = new Bench();
  bench.join('s');
  await settled();
  bench.able = false;
  bench.streams.drain();
  bench.claiming.resolve();
  await settled();
  assert.deepEqual(bench.listened, []);
  assert.deepEqual(bench.released, ['stream s']);
  assert.deepEqual(
    bench.reported.flatMap(({ streams }) => streams),
    [{ key: 's', after: null }],
  );
});

test('check:C9 a stream that its listener leaves while another node claims it continues at that node, from its last event', async () => {
  const bench = new Bench();
  bench.owners.push({ kind: 'theirs', peer: 'b' } as Owner);
  bench.join('s');
  await settled();
  bench.hears('b', [{ key: 's', after: 'event-7' }]);
  bench.claiming.resolve();
  await settled();
  assert.deepEqual(bench.listened, ['event-7']);
});

test('check:C9 fault:F28 a member that leaves while its node has no lease leaves its stream to the others', async () => {
  const bench = new Bench();
  bench.claiming.resolve();
  const leave = bench.join('s');
  await settled();
  bench.lastEventId = 'event-7';
  bench.able = false;
  bench.streams.fenced();
  leave();
  await settled();
  assert.deepEqual(bench.released, ['stream s']);
  assert.deepEqual(
    bench.reported.flatMap(({ streams }) => streams),
    [{ key: 's', after: 'event-7' }],
  );
});

test('check:C9 a member that leaves while its node claims the stream leaves it also to nodes that find the claim meanwhile', async () => {
  const bench = new Bench();
  const leave = bench.join('s');
  await settled();
  leave();
  await settled();
  assert.equal(bench.reported.length, 1);
  bench.claiming.resolve();
  await settled();
  assert.deepEqual([bench.listened, bench.released.length], [[], 2]);
  assert.deepEqual(bench.reported[1]?.streams, [{ key: 's', after: null }]);
});

test('check:C9 fault:F31 the claim of a stream that a frozen node lost is free for the next listener', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', []), await nodes.join('b', [])];
    const listened: string[] = [];
    const joined = ({ id, cluster: { upstreamSessions } }: PlayedNode): (() => void) => {
      const member: SessionMember = {
        listens: false,
        generationChanged: () => {},
        listen: () => void listened.push(id),
        stopListening: () => null,
        replaced: () => {},
      };
      upstreamSessions.streams.join(PLACE, 's', member);
      return () => upstreamSessions.streams.leave('s', member);
    };
    const leave = joined(a);
    await nodes.pass(500);
    assert.deepEqual(listened, ['a']);
    a.cut();
    nodes.clock.skip(3_000);
    await nodes.pass(500);
    assert.equal(a.cluster.state, 'fenced');
    leave();
    a.restore();
    await nodes.pass(3_000);
    assert.equal(a.cluster.state, 'ready');
    joined(b);
    await nodes.pass(500);
    assert.deepEqual(listened, ['a', 'b']);
  }));

test('S0.18 the node that opened a session listens to it from the start, and not again when it has the claim', async () => {
  const bench = new Bench();
  bench.join('k', true);
  bench.claiming.resolve();
  await settled();
  assert.deepEqual([bench.listened, bench.silenced], [[], 0]);
  bench.streams.fenced();
  assert.equal(bench.silenced, 1, 'without a lease it stops listening');
});

test('S0.18 the node that opened a session stops listening where another node has the claim, or it may not listen', async () => {
  const bench = new Bench();
  bench.owner = { kind: 'theirs', peer: 'b' } as Owner;
  bench.join('k', true);
  assert.equal(bench.silenced, 0);
  bench.claiming.resolve();
  await settled();
  assert.deepEqual([bench.listened, bench.silenced], [[], 1]);
  bench.able = false;
  bench.join('other', true);
  assert.equal(bench.silenced, 2);
});
