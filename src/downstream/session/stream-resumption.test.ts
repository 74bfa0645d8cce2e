import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import type { RequestContext } from '../../http/listener/request-context.ts';
import { AGGREGATE } from '../../model/exchange.ts';
import type { EventLog, LoggedEvent } from '../../model/ports.ts';
import type { EventSink, OrphanedStream, StreamsElsewhere } from '../../model/stream-copies.ts';
import { notification } from '../../protocol/compose.ts';
import { ClientSession } from './client-session.ts';
import type { SessionTable } from './session-table.ts';
import { StandaloneStreams } from './standalone-streams.ts';
import { StreamResumption } from './stream-resumption.ts';

const HERE = 'a'.repeat(16);
const GONE = 'b'.repeat(16);

class Sink implements EventSink {
  closed = false;
  onDrain = null;
  onClose = null;
  readonly events: string[] = [];

  event(_id: string | null, parts: readonly Buffer[]): boolean {
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
  readonly #events: LoggedEvent[] = [];

  append(_sessionId: string, stream: string, message: Buffer): string {
    const eventId = `${stream}~${(this.#events.length + 1).toString(36)}`;
    this.#events.push({ eventId, message });
    return eventId;
  }

  async after(_sessionId: string, eventId: string) {
    const stream = eventId.slice(0, eventId.lastIndexOf('~'));
    const events = this.#events.filter((event) => event.eventId.startsWith(`${stream}~`));
    const at = events.findIndex((event) => event.eventId === eventId);
    return at < 0 ? null : { stream, events: events.slice(at + 1) };
  }

  forget(): void {}

  close(): void {}
}

test('check:C9 a client whose stream another node took over, or could not take over, gets the messages of this node', async () => {
  const clock = new FakeClock();
  const session = new ClientSession(clientOf('5'.repeat(32)), 'secret', AGGREGATE, true, clock.wall(), clock.now());
  const events = new Log();
  const standalone = new StandaloneStreams(session, { clock, events, prefix: HERE, wires: { tap: null } });
  const lastEventId = `${session.streamHead('g')}${GONE}1~1`;
  const left: OrphanedStream = {
    name: lastEventId.slice(0, -2),
    sessionId: session.id,
    principal: session.client.principal.id,
    events: [],
    unanswered: [],
    next: null,
    position: 1,
  };
  const lefts: (OrphanedStream | null)[] = [left, null];
  const others: StreamsElsewhere = {
    isElsewhere: (eventId) => eventId.includes(GONE),
    resume: async () => 'gone',
    resumeAnywhere: async () => false,
    findOrphaned: async () => lefts.shift() ?? null,
    takeOver: async () => false,
  };
  const core = { run: () => Promise.reject(new Error('nothing is owed')) };
  const sessions = { get: () => session } as unknown as SessionTable;
  const resumption = new StreamResumption({ events, sessions, others, core, standalone: () => standalone });
  const sink = new Sink();
  await resumption.resume({ openSse: () => sink } as unknown as RequestContext, session, lastEventId);
  await settled();
  assert.ok(standalone.open);
  standalone.deliver(notification('notifications/tools/list_changed', null, 'stateful'));
  assert.deepEqual(
    sink.events.map((text) => JSON.parse(text).method),
    ['notifications/tools/list_changed'],
  );
  standalone.close();
});

test('a stream resumes once, and an event id in another form resumes nothing, whatever the log says of it', async () => {
  const clock = new FakeClock();
  const session = new ClientSession(clientOf('5'.repeat(32)), 'secret', AGGREGATE, true, clock.wall(), clock.now());
  let reads = 0;
  class LenientLog extends Log {
    override async after(sessionId: string, eventId: string) {
      if (++reads > 10) throw new Error('it is read for ever');
      return (
        (await super.after(sessionId, eventId)) ?? { stream: eventId.slice(0, eventId.lastIndexOf('~')), events: [] }
      );
    }
  }
  const events = new LenientLog();
  const standalone = new StandaloneStreams(session, { clock, events, prefix: HERE, wires: { tap: null } });
  standalone.connect(new Sink());
  standalone.deliver(notification('notifications/tools/list_changed', null, 'stateful'));
  const stream = `${session.streamHead('g')}${HERE}1`;
  const core = { run: () => Promise.reject(new Error('nothing is owed')) };
  const sessions = { get: () => session } as unknown as SessionTable;
  const resumption = new StreamResumption({ events, sessions, core, standalone: () => standalone });
  assert.equal(await resumption.resumeFor(session.id, `${stream}~2!`, () => new Sink()), true);
  assert.equal(reads, 2, 'one look for the event, and one for what followed it');
  const refused: number[] = [];
  const context = { answer: (status: number) => refused.push(status) } as unknown as RequestContext;
  for (const id of ['2!', '02', '+2', ' 2']) await resumption.resume(context, session, `${stream}~${id}`);
  assert.deepEqual([refused, reads], [[400, 400, 400, 400], 2]);
  standalone.close();
});
