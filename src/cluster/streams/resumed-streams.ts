import type { Bus, BusServing } from '../../bus/bus.ts';
import type { EventSink, Resumed } from '../../model/stream-copies.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import { SinkElsewhere, type StreamTold } from './sink-elsewhere.ts';

interface ResumeHeader {
  readonly sessionId: string;
  readonly afterId: string;
}

export interface ResumedStreamsDeps {
  readonly bus: Bus;
  /** The other nodes there are now. */
  readonly others: () => Iterable<string>;
  /** Whether this node certainly says nothing more on streams of this kind; waits so long for that. Never rejects. */
  readonly gone: (peer: string, kind: string, waitMs: number) => Promise<boolean>;
  /** A stream of this node; false where it has none such. */
  readonly resume: (sessionId: string, afterId: string, open: () => EventSink) => Promise<boolean>;
}

/** A stream may live as long as its session. */
const LONGEST_MS = 7 * 24 * 3_600_000;
/** A node that was heard of a moment ago, and cannot be reached, is gone after this time, or will not be. */
const GONE_MS = 5_000;
/** More than this many at once are refused. */
const MAX_STREAMS = 10_000;
/** A stream's name: its kind, a digest of its session, the node, a number. */
const NODE_IN_NAME = /^([a-z])[0-9a-f]+\.([0-9a-f]{16})/;

/**
 * A stream stays at the node where it began, with its log and whatever still feeds it. A client that comes back for it at
 * another node is connected to it by way of that one.
 */
export class ResumedStreams {
  readonly #deps: ResumedStreamsDeps;
  readonly #serving: { close(): void };

  constructor(deps: ResumedStreamsDeps) {
    this.#deps = deps;
    const serve = (serving: BusServing) => this.#serve(serving);
    this.#serving = deps.bus.serve(subject(deps.bus.peer), serve, { concurrency: MAX_STREAMS });
  }

  isElsewhere(eventId: string): boolean {
    const named = NODE_IN_NAME.exec(eventId)?.[2];
    return named !== undefined && named !== this.#deps.bus.peer;
  }

  /** By way of the node that the event names. `open` is called at most once. Never rejects. */
  async resume(sessionId: string, afterId: string, open: () => EventSink): Promise<Resumed> {
    const { others, gone } = this.#deps;
    const [, kind, named] = NODE_IN_NAME.exec(afterId) ?? [];
    if (kind === undefined || named === undefined) return 'none';
    for (const peer of others()) {
      if (peer !== named || (await gone(peer, kind, 0))) continue;
      const asked = await this.#ask(peer, { sessionId, afterId }, open);
      if (asked !== 'unreached') return asked;
    }
    return (await gone(named, kind, GONE_MS)) ? 'gone' : 'none';
  }

  /** By way of any node: one that was restarted has another name, and its log still. */
  async resumeAnywhere(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean> {
    for (const peer of [...this.#deps.others()]) {
      if ((await this.#ask(peer, { sessionId, afterId }, open)) === 'served') return true;
    }
    return false;
  }

  /** Takes no new ones. */
  close(): void {
    this.#serving.close();
  }

  /** Resolves as soon as it is known whether the node has it. */
  #ask(peer: string, header: ResumeHeader, open: () => EventSink): Promise<'served' | 'none' | 'unreached'> {
    return new Promise((resolve) => {
      let sink: EventSink | null = null;
      const call = this.#deps.bus.call(subject(peer), packFrame(header), {
        to: peer,
        deadlineMs: LONGEST_MS,
        onEmit: (payload) => {
          const { header: told, pieces } = unpackFrame<StreamTold>(payload);
          if (sink === null) {
            sink = open();
            sink.onClose = () => call.cancel('the client has gone');
            resolve('served');
          }
          if (told.kind === 'retry') sink.retry(told.ms);
          if (told.kind !== 'event' || sink.event(told.id, pieces, told.droppable) || sink.closed) return;
          sink.onDrain = () => call.resume();
          call.pause();
        },
      });
      void call.outcome.then(({ kind }) => {
        sink?.end();
        resolve(kind === 'result' ? 'none' : 'unreached');
      });
    });
  }

  async #serve(serving: BusServing): Promise<void> {
    const { sessionId, afterId } = unpackFrame<ResumeHeader>(serving.payload).header;
    let sink: SinkElsewhere | null = null;
    const found = await this.#deps.resume(sessionId, afterId, () => {
      sink = new SinkElsewhere(serving);
      return sink;
    });
    const opened = sink as SinkElsewhere | null;
    if (found && opened !== null) await opened.over;
    else serving.answer(packFrame({}));
  }
}

function subject(peer: string): string {
  return `trunkline.resume.${peer}`;
}
