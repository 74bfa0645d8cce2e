import type { JsMsg } from '@nats-io/jetstream';
import { chunks } from '../../model/chunks.ts';
import { apiCode, type JetStreamContext, NO_SEQUENCE, NOT_DELETED } from './jetstream.ts';
import { readStream } from './pending-records.ts';

/** Header that marks tombstones. */
export const OPERATION = 'KV-Operation';
const MAX_MARKS = 10_000;
const AT_ONCE = 16;

/** The tombstones in the stream of a bucket. */
export class Tombstones {
  readonly #stream: string;
  readonly #subject: string;
  /** Sequence number below which this incarnation of the stream has no tombstones. */
  #from = 1;
  #created = '';

  constructor(stream: string, subject: string) {
    this.#stream = stream;
    this.#subject = subject;
  }

  /** Reads each record once over all calls. Keeps the newest change. Returns the number of tombstones removed. */
  async forget(context: JetStreamContext, olderThanMs: number): Promise<number> {
    const { created, state } = await context.manager.streams.info(this.#stream);
    if (created !== this.#created) [this.#created, this.#from] = [created, 1];
    const before = context.clock.wall() - olderThanMs;
    let forgotten = 0;
    for (let more = true; more; ) {
      const tombstones: number[] = [];
      let next = this.#from;
      await this.#scan(context, next, (message) => {
        if (message.seq >= state.last_seq || message.time.getTime() > before) return false;
        if (isTombstone(message)) tombstones.push(message.seq);
        next = message.seq + 1;
        return tombstones.length < MAX_MARKS;
      });
      forgotten += await this.#delete(context, tombstones);
      this.#from = next;
      more = tombstones.length === MAX_MARKS;
    }
    return forgotten;
  }

  /** Does not count tombstones. Reads no more than the answer needs. */
  async hasAtMost(context: JetStreamContext, records: number): Promise<boolean> {
    let found = 0;
    await this.#scan(context, 1, (message) => isTombstone(message) || ++found <= records);
    return found <= records;
  }

  #scan(context: JetStreamContext, from: number, take: (message: JsMsg) => boolean): Promise<void> {
    const config = {
      deliver_policy: 'by_start_sequence' as const,
      opt_start_seq: from,
      filter_subjects: this.#subject,
      headers_only: true,
    };
    return readStream(context, this.#stream, config, take);
  }

  /** Deletes by sequence number, which is never reused: of several nodes, one removes each tombstone. */
  async #delete({ manager }: JetStreamContext, tombstones: readonly number[]): Promise<number> {
    let deleted = 0;
    const remove = async (mark: number): Promise<void> => {
      try {
        if (await manager.streams.deleteMessage(this.#stream, mark, false)) deleted++;
      } catch (error) {
        // Another node removed it first, or the key was written again.
        if (![NO_SEQUENCE, NOT_DELETED].includes(apiCode(error))) throw error;
      }
    };
    for (const some of chunks(tombstones, AT_ONCE)) await Promise.all(some.map(remove));
    return deleted;
  }
}

export function isTombstone({ headers }: Pick<JsMsg, 'headers'>): boolean {
  return isRemoval(headers?.get(OPERATION));
}

export function isRemoval(operation: string | undefined): boolean {
  return operation === 'DEL' || operation === 'PURGE';
}
