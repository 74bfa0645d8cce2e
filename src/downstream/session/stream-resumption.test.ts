import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import type { RequestContext } from '../../http/listener/request-context.ts';
import { AGGREGATE, type Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Revision } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { EventLog, LoggedEvents } from '../../model/ports.ts';
import type { EventSink, OrphanedStream, StreamCopies, StreamsElsewhere } from '../../model/stream-copies.ts';
import { notification } from '../../protocol/compose.ts';
import { SqliteEventLog } from '../../store/event-log.ts';
import { StateFile } from '../../store/state-file.ts';
import { Logger } from '../../telemetry/logger.ts';
import { ClientSession } from './client-session.ts';
import { LoggedStream } from './logged-stream.ts';
import type { SessionTable } from './session-table.ts';
import { StandaloneStreams } from './standalone-streams.ts';
import { StreamResumption } from './stream-resumption.ts';

const HERE = 'a'.repeat(16);
const GONE = 'b'.repeat(16);
const CHANGED = notification('notifications/tools/list_changed', null, 'stateful');

class Sink implements EventSink {
  closed = false;
  onDrain: (() => void) | null = null;
  onClose: (() => void) | null = null;
  readonly events: string[] = [];
  lastId: string | null = null;

  event(id: string | null, parts: readonly Buffer[]): boolean {
    this.lastId = id;
    const text = Buffer.concat(parts).toString();
    if (text !== '') this.events.push(text);
    return true;
  }

  retry(): boolean {
    return true;
  }

  end(): void {
    this.closed = true;
  }
}

class Log implements EventLog {
  readonly #events: LoggedEvents['events'][number][] = [];

  append(_sessionId: string, stream: string, message: Buffer): string {
    const eventId = `${stream}~${(this.#events.length + 1).toString(36)}`;
    this.#events.push({ eventId, message });
    return eventId;
  }

  async after(_sessionId: string, eventId: string): Promise<LoggedEvents | null> {
    const stream = eventId.slice(0, eventId.lastIndexOf('~'));
    const events = this.#events.filter((event) => event.eventId.startsWith(`${stream}~`));
    const at = events.findIndex((event) => event.eventId === eventId);
    return at < 0 ? null : { stream, events: events.slice(at + 1), gap: false };
  }

  forget(): void {}

  close(): void {}
}

function newSession(clock: FakeClock): ClientSession {
  return new ClientSession(clientOf('5'.repeat(32)), 'secret', AGGREGATE, true, clock.wall(), clock.now());
}

/** A client that resumes a stream of a node that is gone; the node left no entries, and no node takes the stream over. */
function returning(kind: 'g' | 'p' = 'g', copies?: StreamCopies) {
  const clock = new FakeClock();
  const session = newSession(clock);
  const events = new Log();
  const standalone = new StandaloneStreams(session, { clock, events, prefix: HERE, wires: { tap: null }, copies });
  const lastEventId = `${session.streamHead(kind)}${GONE}1~1`;
  const left: OrphanedStream = {
    name: lastEventId.slice(0, -2),
    sessionId: session.id,
    principal: session.client.principal.id,
    events: [],
    unanswered: [],
    next: null,
    position: 1,
  };
  const others: StreamsElsewhere = {
    isElsewhere: (eventId) => eventId.includes(GONE),
    resume: async () => 'gone',
    resumeAnywhere: async () => false,
    findOrphaned: async () => null,
    takeOver: async () => false,
  };
  /** The searches for answers. */
  const ran: Exchange[] = [];
  const run = (exchange: Exchange): Promise<Outcome> => {
    ran.push(exchange);
    return new Promise((resolve) => {
      exchange.onCancel = (reason) => resolve(failure(new GatewayError('CANCELLED', reason)));
    });
  };
  const sessions = { get: () => session } as unknown as SessionTable;
  const resumption = new StreamResumption({ events, sessions, others, core: { run }, standalone: () => standalone });
  const sink = new Sink();
  const context = { openSse: () => sink } as unknown as RequestContext;
  const resume = (): Promise<void> => resumption.resume(context, session, lastEventId);
  return { standalone, left, others, ran, sink, resume };
}

test('check:C9 a client whose stream another node took over, or could not take over, gets the messages of this node', async () => {
  const { standalone, left, others, sink, resume } = returning();
  const lefts: (OrphanedStream | null)[] = [left, null];
  others.findOrphaned = async () => lefts.shift() ?? null;
  await resume();
  await settled();
  assert.ok(standalone.open);
  standalone.deliver(CHANGED);
  assert.deepEqual(
    sink.events.map((text) => JSON.parse(text).method),
    ['notifications/tools/list_changed'],
  );
  standalone.close();
});

test('a message sent to a session during the takeover of its stream reaches the client, even if that fails', async () => {
  for (const end of ['at the second attempt', 'at the first, as is read later', 'not at all'] as const) {
    const { standalone, left, others, sink, resume } = returning();
    const offered: string[] = [];
    others.takeOver = async (_left, startId) => {
      offered.push(startId);
      standalone.deliver(CHANGED);
      return offered.length === 2;
    };
    others.findOrphaned = async () => {
      if (offered.length === 0 || end === 'at the second attempt') return left;
      return end === 'not at all' ? null : { ...left, next: offered[0]! };
    };
    await resume();
    await settled();
    assert.equal(new Set(offered).size, 1, end);
    assert.equal(sink.events.length, offered.length, end);
    standalone.deliver(CHANGED);
    assert.equal(sink.events.length, offered.length + 1, end);
    standalone.close();
  }
});

test('a stream that nodes took over in turn is read again from the position of the last read', async () => {
  const { standalone, left, others, resume } = returning();
  const next = left.name.replace(GONE, `${GONE.slice(1)}c`);
  others.isElsewhere = () => true;
  const read: string[] = [];
  others.findOrphaned = async (_session, _principal, afterId) => {
    read.push(afterId);
    return read.length === 1 ? { ...left, next: `${next}~1` } : { ...left, name: next };
  };
  others.takeOver = async () => read.length === 3;
  await resume();
  assert.deepEqual(read, [`${left.name}~1`, `${next}~1`, `${next}~1`]);
  assert.ok(standalone.open);
  standalone.close();
});

test('the search for an answer ends with the connection of the client that returned for it', async () => {
  const { left, others, ran, sink, resume } = returning('p');
  const owed = ['7', '8'].map((id) => {
    const request = `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"t"}}`;
    return { id, method: 'tools/call', request };
  });
  others.findOrphaned = async () => ({ ...left, unanswered: owed });
  const resumed = resume();
  await settled();
  assert.deepEqual(
    ran.map(({ cancelled }) => cancelled),
    [null, null],
  );
  sink.onClose?.();
  assert.deepEqual(
    ran.map(({ cancelled }) => cancelled),
    ['the client has gone', 'the client has gone'],
  );
  await resumed;
  sink.closed = true;
  await resume();
  assert.equal(ran.length, 2, 'no search begins when the client has already gone');
});

test('a draining node immediately copies the messages that it still sends on streams of its sessions', () => {
  const done: string[] = [];
  const copy = { add: () => done.push('add'), hurry: () => done.push('hurry'), end: () => done.push('end') };
  const { standalone, sink } = returning('g', { begin: () => copy });
  standalone.connect(sink);
  done.length = 0;
  standalone.hangUp();
  standalone.deliver(CHANGED);
  standalone.close();
  assert.deepEqual(done, ['hurry', 'add', 'end']);
});

test('a stream resumes once, and an event id in another form resumes nothing, even if the log accepts it', async () => {
  const clock = new FakeClock();
  const session = newSession(clock);
  let reads = 0;
  class LenientLog extends Log {
    override async after(sessionId: string, eventId: string): Promise<LoggedEvents> {
      if (++reads > 10) throw new Error('it is read for ever');
      const stream = eventId.slice(0, eventId.lastIndexOf('~'));
      return (await super.after(sessionId, eventId)) ?? { stream, events: [], gap: false };
    }
  }
  const events = new LenientLog();
  const standalone = new StandaloneStreams(session, { clock, events, prefix: HERE, wires: { tap: null } });
  const sink = new Sink();
  standalone.connect(sink);
  standalone.deliver(notification('notifications/tools/list_changed', null, 'stateful'));
  const stream = sink.lastId!.slice(0, -2);
  const core = { run: () => Promise.reject(new Error('nothing is owed')) };
  const sessions = { get: () => session } as unknown as SessionTable;
  const resumption = new StreamResumption({ events, sessions, core, standalone: () => standalone });
  assert.equal(await resumption.resumeFor(session.id, `${stream}~2!`, () => new Sink()), true);
  assert.equal(reads, 2, 'one read for the event, and one for the events after it');
  const refused: number[] = [];
  const context = { answer: (status: number) => refused.push(status) } as unknown as RequestContext;
  for (const id of ['2!', '02', '+2', ' 2']) await resumption.resume(context, session, `${stream}~${id}`);
  assert.deepEqual([refused, reads], [[400, 400, 400, 400], 2]);
  standalone.close();
});

/** A session of this node, with the log of a real gateway. */
function logged(revision: Revision = '2025-11-25') {
  const clock = new FakeClock();
  const client = { ...clientOf('5'.repeat(32)), revision };
  const session = new ClientSession(client, 'secret', AGGREGATE, true, clock.wall(), clock.now());
  const state = new StateFile({ path: ':memory:', clock, logger: Logger.silent() });
  const events = new SqliteEventLog(state, clock);
  const standalone = new StandaloneStreams(session, { clock, events, prefix: HERE, wires: { tap: null } });
  const core = { run: () => Promise.reject(new Error('nothing is owed')) };
  const sessions = { get: () => session } as unknown as SessionTable;
  const resumption = new StreamResumption({ events, sessions, core, standalone: () => standalone });
  const resume = async (lastEventId: string): Promise<Sink> => {
    const sink = new Sink();
    await resumption.resume({ openSse: () => sink } as unknown as RequestContext, session, lastEventId);
    return sink;
  };
  return { clock, session, events, standalone, resume };
}

test('check:B7 an answer reaches a client whose last event has left the log, after a warning if it missed more', async () => {
  const { clock, session, events, resume } = logged();
  const answer = Buffer.from('{"jsonrpc":"2.0","id":1,"result":{}}');
  const large = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":{"text":"${'x'.repeat(1_100_000)}"}}`);
  for (const [missed, last] of [
    [[], answer],
    [[], large],
    [[CHANGED.bytes], large],
  ] as const) {
    const stream = new LoggedStream(session.id, session.nextStream(HERE, 'p'), events);
    const sink = new Sink();
    stream.connect(sink);
    stream.begin('2025-11-25');
    sink.end();
    await clock.advance(7 * 60_000);
    for (const message of [...missed, last]) stream.send(message);
    stream.end();
    const back = await resume(sink.lastId!);
    assert.equal(back.events.at(-1), last.toString());
    assert.equal(back.events.length, 1 + missed.length);
    if (missed.length > 0) assert.match(back.events[0]!, /notifications\/message.*"trunkline".*may be missing/);
    assert.ok(back.closed);
  }
});

test('check:B7 the GET stream replays what is kept after an event that is not, and warns of a gap', async () => {
  for (const named of [true, false]) {
    const { clock, standalone, resume } = logged();
    const again = async (lastId: string): Promise<Sink> => {
      if (named) return resume(lastId);
      const sink = new Sink();
      standalone.connect(sink);
      await settled();
      return sink;
    };
    const first = new Sink();
    standalone.connect(first);
    first.end();
    await clock.advance(7 * 60_000);
    standalone.deliver(CHANGED);
    const second = await again(first.lastId!);
    assert.deepEqual(second.events, [CHANGED.bytes.toString()]);
    second.end();
    standalone.deliver(CHANGED);
    await clock.advance(7 * 60_000);
    standalone.deliver(CHANGED);
    const third = await again(second.lastId!);
    assert.equal(third.events.length, 2);
    assert.match(third.events[0]!, /notifications\/message.*may be missing/);
    assert.equal(third.events[1], CHANGED.bytes.toString());
    standalone.close();
  }
});

test('check:B7 what is sent between two GET streams of a client without event ids waits', async () => {
  for (const revision of ['2025-03-26', '2025-06-18', '2025-11-25'] as const) {
    const { standalone } = logged(revision);
    const first = new Sink();
    standalone.connect(first);
    first.end();
    standalone.deliver(CHANGED);
    const second = new Sink();
    standalone.connect(second);
    await settled();
    assert.equal(second.events.length, 1, revision);
    standalone.deliver(CHANGED);
    assert.equal(second.events.length, 2, revision);
    second.end();
    const third = new Sink();
    standalone.connect(third);
    await settled();
    assert.equal(third.events.length, 0, `${revision}: nothing comes twice`);
    standalone.close();
  }
});

test('a client without event ids gets only what it missed on a stream of an earlier process', async () => {
  const { session, events, standalone } = logged();
  const name = session.nextStream(HERE, 'g');
  const seen = events.append(session.id, name, CHANGED.bytes);
  const sink = new Sink();
  await standalone.resume(name, sink, seen);
  sink.end();
  standalone.deliver(CHANGED);
  const back = new Sink();
  standalone.connect(back);
  await settled();
  assert.equal(back.events.length, 1);
  standalone.close();
});
