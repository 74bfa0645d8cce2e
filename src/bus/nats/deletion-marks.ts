import type { JsMsg } from '@nats-io/jetstream';
import { apiCode, NO_SEQUENCE, NOT_DELETED, type Reach } from './jetstream.ts';
import { readStream } from './pending-records.ts';

/** Header that marks tombstones. */
export const OPERATION = 'KV-Operation';
const MAX_MARKS = 10_000;
const AT_ONCE = 16;

/** The tombstones in the stream of a bucket. */
export class DeletionMarks {
  readonly #stream: string;
  readonly #subject: string;
  /** Sequence number below which this incarnation of the stream has no tombstones. */
  #from = 1;
  #made = '';

  constructor(stream: string, subject: string) {
    this.#stream = stream;
    this.#subject = subject;
  }

  /** Reads each record once over all calls. Keeps the newest change. Returns the number of tombstones removed. */
  async forget(reach: Reach, olderThanMs: number): Promise<number> {
    const { created, state } = await reach.manager.streams.info(this.#stream);
    if (created !== this.#made) [this.#made, this.#from] = [created, 1];
    const before = reach.clock.wall() - olderThanMs;
    let forgotten = 0;
    for (let more = true; more; ) {
      const marks: number[] = [];
      let next = this.#from;
      await this.#scan(reach, next, (message) => {
        if (message.seq >= state.last_seq || message.time.getTime() > before) return false;
        if (isMark(message)) marks.push(message.seq);
        next = message.seq + 1;
        return marks.length < MAX_MARKS;
      });
      forgotten += await this.#delete(reach, marks);
      this.#from = next;
      more = marks.length === MAX_MARKS;
    }
    return forgotten;
  }

  /** Does not count tombstones. Reads no more than the answer needs. */
  async hasAtMost(reach: Reach, records: number): Promise<boolean> {
    let found = 0;
    await this.#scan(reach, 1, (message) => isMark(message) || ++found <= records);
    return found <= records;
  }

  #scan(reach: Reach, from: number, take: (message: JsMsg) => boolean): Promise<void> {
    const config = {
      deliver_policy: 'by_start_sequence' as const,
      opt_start_seq: from,
      filter_subjects: this.#subject,
      headers_only: true,
    };
    return readStream(reach, this.#stream, config, take);
  }

  /** Deletes by sequence number, which is never reused: of several nodes, one removes each tombstone. */
  async #delete({ manager }: Reach, marks: readonly number[]): Promise<number> {
    let deleted = 0;
    const remove = async (mark: number): Promise<void> => {
      try {
        if (await manager.streams.deleteMessage(this.#stream, mark, false)) deleted++;
      } catch (error) {
        // Another node removed it first, or the key was written again.
        if (![NO_SEQUENCE, NOT_DELETED].includes(apiCode(error))) throw error;
      }
    };
    for (let at = 0; at < marks.length; at += AT_ONCE) await Promise.all(marks.slice(at, at + AT_ONCE).map(remove));
    return deleted;
  }
}

export function isMark({ headers }: Pick<JsMsg, 'headers'>): boolean {
  return isRemoval(headers?.get(OPERATION));
}

export function isRemoval(operation: string | undefined): boolean {
  return operation === 'DEL' || operation === 'PURGE';
}
