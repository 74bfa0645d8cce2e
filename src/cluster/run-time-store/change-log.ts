import type { Bucket, SharedState, StateRecord } from '../../bus/shared-state.ts';
import { chunks } from '../../model/chunks.ts';
import type { Random } from '../../model/random.ts';
import { resealOutdated, type Sealing } from '../../model/sealing.ts';
import type { StoredRow } from '../../store/run-time-store/integrity-check.ts';
import { StoreError, type StoreWrite } from '../../store/run-time-store/run-time-store.ts';
import { compareAndSet } from '../store-records.ts';
import { RecordSet } from './record-set.ts';

const CHANGES = 'trunkline_changes';
const HEAD = 'head';
const MAX_VALUE_BYTES = 512 * 1024;
/** In characters, which take at most three bytes each, and then a third more in base64. */
const PART_LENGTH = 100_000;
const AT_ONCE = 32;
/** A node that reads the log has passed changes that were deleted so long ago. */
const MARKS_MS = 600_000;

/** The head record of a log. */
export interface LogHead {
  /** Id of this log; another one after nodes created it again. */
  readonly making: string;
  /** Revision of the records that the log was created with; 0 for the first log. */
  readonly base: number;
  /** Number of the last change in the snapshot. */
  readonly number: number;
  /** Key of the snapshot; null: none. */
  readonly snapshot: string | null;
}

/** All writes of one change. Change numbers have no gaps; revisions may jump after a log was created again. */
export interface LoggedChange {
  readonly id: string;
  readonly revision: number;
  readonly writes: readonly StoreWrite[];
}

interface Snapshot {
  readonly revision: number;
  readonly rows: readonly StoredRow[];
}

type Packed = { readonly text: string } | { readonly parts: string; readonly count: number };

/**
 * Change log of the run-time store in a bucket, with one key for each change: of nodes that write the same number one succeeds.
 * Each value is sealed for its key, so that only nodes can write it and no value can take the place of another.
 */
export class ChangeLog {
  readonly bucket: Bucket;
  readonly #sealing: Sealing;
  readonly #random: Random;

  constructor(state: SharedState, sealing: Sealing, random: Random) {
    this.bucket = state.bucket(CHANGES, { ttlMs: 0, maxValueBytes: MAX_VALUE_BYTES });
    this.#sealing = sealing;
    this.#random = random;
  }

  /** `foreign`: no key opens the head. `revision`: of its record. Null if there is no log. */
  async head(): Promise<{ readonly head: LogHead | 'foreign'; readonly revision: number } | null> {
    const record = await this.bucket.get(HEAD);
    if (record === null) return null;
    const text = this.#sealing.open(contextOf(HEAD), record.value.toString());
    return { head: text === null ? 'foreign' : (JSON.parse(text) as LogHead), revision: record.revision };
  }

  /**
   * Creates a log with these records; `over`: the revision of the head of a log that no node can read. Returns false if another
   * node was first.
   */
  async begin(set: RecordSet, over: { readonly revision: number } | null = null): Promise<boolean> {
    const numbers = over === null ? [] : (await this.bucket.keys('>')).map((key) => Number(key.split('.')[1] ?? 0));
    const number = numbers.reduce((most, one) => Math.max(most, one), 0);
    const snapshot = set.revision === 0 ? null : await this.#snapshot(number, set);
    const head = this.#sealed(HEAD, { making: this.#random.hex(8), base: set.revision, number, snapshot });
    return (await compareAndSet(this.bucket, HEAD, head, over)) !== null;
  }

  async recordsOf({ snapshot }: LogHead): Promise<RecordSet> {
    if (snapshot === null) return new RecordSet();
    const record = await this.bucket.get(snapshot);
    if (record === null) throw new StoreError('unavailable', 'the snapshot of the changes was replaced meanwhile');
    const { revision, rows } = await this.#unpacked<Snapshot>(snapshot, record.value);
    return new RecordSet(revision, rows);
  }

  /** Returns null if there is no such change yet. */
  async change(number: number): Promise<LoggedChange | null> {
    const key = changeKey(number);
    const record = await this.bucket.look(key);
    if (record === null) return null;
    if (record === 'deleted') throw new StoreError('unavailable', 'the change is in a snapshot by now');
    return this.#unpacked<LoggedChange>(key, record.value);
  }

  /** Returns false if another node was first. Rejects with GatewayError. */
  async append(number: number, change: LoggedChange): Promise<boolean> {
    const key = changeKey(number);
    return (await this.bucket.restore(key, await this.#packed(key, number, change))) !== null;
  }

  /** Writes all records of this log into a new snapshot, and deletes what is older than the snapshot before. */
  async compact({ making }: LogHead, number: number, set: RecordSet): Promise<void> {
    const found = await this.head();
    if (found === null || found.head === 'foreign') return;
    const before = found.head;
    // Another node may have created the log again, or deleted changes after `number`.
    if (before.making !== making || before.number >= number) return;
    const snapshot = await this.#snapshot(number, set);
    const head: LogHead = { ...before, number, snapshot };
    const isReplaced = await this.bucket.update(HEAD, this.#sealed(HEAD, head), found.revision);
    const kept = isReplaced === null ? before : head;
    await this.#sweep(before.number, [before.snapshot, kept.snapshot]);
  }

  /** Keeps the last snapshot but one and the changes after it, because another node may be reading them. */
  async #sweep(upTo: number, snapshots: readonly (string | null)[]): Promise<void> {
    const ids = snapshots.flatMap((key) => key?.split('.').at(-1) ?? []);
    const old = (await this.bucket.keys('>')).filter((key) => {
      const [kind, number, id = ''] = key.split('.');
      return kind !== HEAD && Number(number) <= upTo && !ids.includes(id);
    });
    for (const some of chunks(old, AT_ONCE)) await Promise.all(some.map((key) => this.bucket.delete(key)));
    await this.bucket.purgeTombstones(MARKS_MS);
  }

  /** Seals the record with the secret in force. Returns null if that secret sealed it, or none opens it. */
  reseal({ key, value }: StateRecord): string | null {
    return resealOutdated(this.#sealing, contextOf(key), value.toString());
  }

  async #snapshot(number: number, set: RecordSet): Promise<string> {
    const key = `whole.${padded(number)}.${this.#random.hex(8)}`;
    const value = await this.#packed(key, number, { revision: set.revision, rows: [...set.rows()] });
    await this.bucket.create(key, value);
    return key;
  }

  async #packed(key: string, number: number, content: LoggedChange | Snapshot): Promise<Buffer> {
    const text = JSON.stringify(content);
    if (text.length <= PART_LENGTH) return this.#sealed(key, { text });
    const id = key.startsWith('whole.') ? key.split('.').at(-1)! : this.#random.hex(8);
    const parts = `part.${padded(number)}.${id}`;
    let count = 0;
    for (let at = 0; at < text.length; count++) {
      let end = at + PART_LENGTH;
      // Do not split a surrogate pair.
      if (/[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end--;
      const part = `${parts}.${count}`;
      await this.bucket.create(part, this.#sealed(part, text.slice(at, end)));
      at = end;
    }
    return this.#sealed(key, { parts, count });
  }

  async #unpacked<T>(key: string, value: Buffer): Promise<T> {
    const packed = this.#opened<Packed>(key, value);
    if ('text' in packed) return JSON.parse(packed.text) as T;
    const keys = Array.from({ length: packed.count }, (_, n) => `${packed.parts}.${n}`);
    const texts: string[] = [];
    for (const some of chunks(keys, AT_ONCE)) {
      const read = async (part: string): Promise<string> => {
        const record = await this.bucket.get(part);
        if (record === null) throw new StoreError('unavailable', 'the snapshot of the changes was replaced meanwhile');
        return this.#opened<string>(part, record.value);
      };
      texts.push(...(await Promise.all(some.map(read))));
    }
    return JSON.parse(texts.join('')) as T;
  }

  #sealed(key: string, content: LogHead | Packed | string): Buffer {
    return Buffer.from(this.#sealing.seal(contextOf(key), JSON.stringify(content)));
  }

  #opened<T>(key: string, value: Buffer): T {
    const text = this.#sealing.open(contextOf(key), value.toString());
    if (text === null) throw new StoreError('damaged', `${key} is not as a node with this secret wrote it`);
    return JSON.parse(text) as T;
  }
}

function changeKey(number: number): string {
  return `change.${padded(number)}`;
}

/** Padded, so that keys sort by number. */
function padded(number: number): string {
  return String(number).padStart(12, '0');
}

function contextOf(key: string): string {
  return `run-time change ${key}`;
}
