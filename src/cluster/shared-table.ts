import type { Bucket, StateRecord, StateWatcher } from '../bus/shared-state.ts';
import { pause } from '../model/clock.ts';
import { type FirstNodeDeps, purgeTombstonesPeriodically, TOMBSTONE_RETENTION_MS } from './at-first-node.ts';
import type { ClusterDeps } from './cluster-deps.ts';
import { isTooLarge } from './store-records.ts';
import type { LateChange, WaitingChange } from './table-changes.ts';
import type { TableOwner, TableSettings } from './table-owner.ts';

const RETRY_MS = 1_000;
const LAST_RETRY_MS = 100;
/** Waits of `close` for pending writes, three seconds in all: the store may just be recovering. */
const LAST_LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400, 800, 1_500];
const MAX_AT_ONCE = 64;
/** Attempts of a write while other nodes write the same record. */
const ATTEMPTS = 8;
const MAX_WAITING = 10_000;

type Deps = FirstNodeDeps & Pick<ClusterDeps, 'state'>;

/**
 * A bucket that every node watches, so that look-ups cost nothing; of a large one, only the records changed last. Writes are
 * write-behind: in order per record, the newest value last, a few at a time, retried after an outage. A node never receives a
 * value older than its own write. A record that is not listed after an outage was deleted or lost, or the store ended its listing
 * too early: the first node that knows it restores it, never over another record, and a refused node reads the stored one.
 */
export class SharedTable {
  readonly bucket: Bucket;
  readonly #deps: Deps;
  readonly #settings: TableSettings;
  readonly #owner: TableOwner;
  /** Changes that wait; the newest wins. */
  readonly #waiting = new Map<string, WaitingChange>();
  readonly #writing = new Map<string, WaitingChange>();
  /** Newest revision received or written since the last listing began, by key. */
  #received = new Map<string, number>();
  /** Keys known before the last listing began and not received since. */
  readonly #unconfirmed: Set<string>;
  /** Unconfirmed keys that the finished listing lacked and that are not handled yet. */
  readonly #missing = new Set<string>();
  /** Missing keys whose restore failed; retried after a pause that delays no other record. */
  readonly #failing = new Set<string>();
  readonly #late = new Map<string, LateChange>();
  /** Revisions that this node wrote since the last listing began and has not received, by key. */
  readonly #unreceivedWrites = new Map<string, number>();
  /** A listing was incomplete, or the owner dropped records. */
  #incomplete = false;
  #incarnation = '';
  /** The last listing left out older records of the same bucket: a record that it lacks need not be lost. */
  #older = false;
  /** When a change or a listing was received last. Wall clock, because it runs while the machine is suspended. */
  #receivedAt = 0;
  #follows = false;
  #followedTo = 0;
  /** The last listing came so late that tombstones may have been removed: records that the bucket lacks are not restored. */
  #tombstonesExpired = false;
  /** Number of the listing; revisions of different listings cannot be compared. */
  #listing = 0;
  #restoring = 0;
  #restored = 0;
  #stopFollowing = (): void => {};
  readonly #stopForgetting: () => void;
  /** A write failed, and the retry is pending. */
  #paused = false;
  #stopRetry: (() => void) | null = null;
  #retryMs = RETRY_MS;
  #closed = false;

  constructor(deps: Deps, settings: TableSettings, owner: TableOwner) {
    this.#deps = deps;
    this.#settings = settings;
    this.#owner = owner;
    this.#unconfirmed = new Set(settings.known);
    this.bucket = deps.state.bucket(settings.bucket, settings);
    this.#stopForgetting = purgeTombstonesPeriodically(deps, this.bucket);
    void this.#follow();
  }

  put(key: string, value: Buffer | null): void {
    this.#waiting.delete(key);
    this.#waiting.set(key, { value, known: this.#received.get(key), incarnation: this.#incarnation });
    if (this.#waiting.size > (this.#settings.maxWaiting ?? MAX_WAITING)) {
      const oldest = this.#waiting.keys().next().value!;
      this.#waiting.delete(oldest);
      this.#notWritten(oldest);
    }
    this.#work();
  }

  /** The value that waits to be written; null for a deletion, undefined if none waits. */
  waiting(key: string): Buffer | null | undefined {
    return (this.#waiting.get(key) ?? this.#writing.get(key))?.value;
  }

  /** False before the first listing, and once records were left out or dropped. */
  get complete(): boolean {
    return !this.#incomplete && this.#incarnation !== '';
  }

  get unwritten(): number {
    return this.#waiting.size + this.#writing.size;
  }

  /** Returns the stored record's revision; the owner gets the record if it is new, or with `old`. Rejects with GatewayError. */
  async read(key: string, old = false): Promise<number | null> {
    const listing = this.#listing;
    const record = await this.bucket.get(key);
    if (old && listing !== this.#listing) return this.read(key, old);
    const isNews = listing === this.#listing && (old || (record?.revision ?? 0) > this.#followedTo);
    if (isNews && record !== null) this.#onRecord(record);
    return record?.revision ?? null;
  }

  /** The owner has evicted the record, until it changes again. */
  drop(key: string): void {
    this.#incomplete = true;
    this.#received.delete(key);
    this.#unconfirmed.delete(key);
    this.#unreceivedWrites.delete(key);
  }

  /** Waits up to three seconds for pending writes: only this node may know them. */
  async close(): Promise<void> {
    this.#retryMs = LAST_RETRY_MS;
    this.#retry();
    for (const waitMs of LAST_LOOKS_MS) {
      if (this.unwritten + this.#missing.size + this.#failing.size + this.#restoring === 0) break;
      await pause(this.#deps.clock, waitMs);
    }
    this.#closed = true;
    this.#stopForgetting();
    this.#stopFollowing();
    this.#stopRetry?.();
  }

  async #follow(): Promise<void> {
    const { clock, logger } = this.#deps;
    const { bucket, newest } = this.#settings;
    const watcher: StateWatcher = {
      put: (record) => {
        this.#onRecord(record);
        this.#reached(record.revision);
      },
      gone: (key, revision) => {
        this.#gone(key, revision);
        this.#reached(revision);
      },
      onBegin: () => this.#listed(),
      onReady: (incarnation, whole) => this.#onListingEnd(incarnation, whole),
    };
    try {
      const watch = await this.bucket.watch('>', watcher, newest);
      if (this.#closed) watch.close();
      else this.#stopFollowing = () => watch.close();
    } catch (error) {
      if (this.#closed) return;
      logger.debug('records_not_followed', { bucket, error: String(error) });
      this.#stopFollowing = clock.after(RETRY_MS, () => void this.#follow());
    }
  }

  #reached(revision: number): void {
    this.#followedTo = revision;
    if (this.#follows) this.#receivedAt = this.#deps.clock.wall();
  }

  #listed(): void {
    this.#listing++;
    this.#follows = false;
    for (const key of this.#received.keys()) this.#unconfirmed.add(key);
    this.#received = new Map();
    this.#missing.clear();
    this.#failing.clear();
    this.#late.clear();
    this.#unreceivedWrites.clear();
    this.#followedTo = 0;
  }

  #onListingEnd(incarnation: string, whole: boolean): void {
    const same = incarnation === this.#incarnation;
    const now = this.#deps.clock.wall();
    this.#older = !whole && (same || this.#incarnation === '');
    this.#tombstonesExpired = same && now - this.#receivedAt >= TOMBSTONE_RETENTION_MS / 2;
    this.#receivedAt = now;
    this.#follows = true;
    this.#incarnation = incarnation;
    this.#incomplete ||= !whole;
    this.#owner.listingEnded?.(this.#older ? 0 : this.#unconfirmed.size);
    for (const key of this.#unconfirmed) this.#missing.add(key);
    this.#work();
  }

  #onRecord(record: StateRecord): void {
    const { key, revision } = record;
    // A newer revision was read.
    if (revision < (this.#received.get(key) ?? 0)) return;
    this.#received.set(key, revision);
    const again = this.#unconfirmed.delete(key);
    if (this.#isOld(key, revision)) return;
    if (this.#writes(key)) this.#late.set(key, { revision, record });
    else this.#owner.received(record, again);
  }

  #gone(key: string, revision: number): void {
    const renews = this.#settings.reusesKeys === true && this.#writes(key);
    // Most deletions concern records that this node never received or no longer keeps.
    if (!this.#isKnown(key) && !this.complete && !renews) this.#owner.gone(key);
    if (!this.#isKnown(key) || this.#isOld(key, revision)) return;
    if (renews) this.#late.set(key, { revision, record: null });
    else this.#forget(key);
  }

  /** Whether the revision is older than this node's last write of the record. */
  #isOld(key: string, revision: number): boolean {
    const written = this.#unreceivedWrites.get(key);
    if (written !== undefined && revision < written) return true;
    this.#unreceivedWrites.delete(key);
    return false;
  }

  #writes(key: string): boolean {
    return this.#waiting.has(key) || this.#writing.has(key);
  }

  #isKnown(key: string): boolean {
    return this.#received.has(key) || this.#unconfirmed.has(key);
  }

  #forget(key: string): void {
    this.#late.delete(key);
    this.#received.delete(key);
    this.#unconfirmed.delete(key);
    this.#owner.gone(key);
  }

  /** Writes before it restores. A failed write pauses both. */
  #work(): void {
    for (const [key, change] of this.#waiting) {
      if (this.#isBusy) return;
      if (this.#writing.has(key)) continue;
      this.#waiting.delete(key);
      this.#writing.set(key, change);
      void this.#write(key, change);
    }
    for (const key of this.#missing) {
      if (this.#isBusy || this.#restoring + this.#failing.size >= MAX_AT_ONCE) return;
      this.#missing.delete(key);
      const value = this.#isMissing(key) ? this.#owner.recall(key, !this.#older) : null;
      if (value !== null) void this.#restore(key, value);
      else if (!this.#writes(key)) this.#unconfirmed.delete(key);
    }
  }

  get #isBusy(): boolean {
    return this.#writing.size + this.#restoring >= MAX_AT_ONCE || this.#closed || this.#paused;
  }

  async #write(key: string, change: WaitingChange): Promise<void> {
    const { value } = change;
    const listing = this.#listing;
    let written: number | 'deleted' | null = null;
    try {
      written = value === null ? await this.#delete(key, change) : await this.#update(key, value);
    } catch (error) {
      if (!isTooLarge(error) && !this.#waiting.has(key)) this.#waiting.set(key, change);
      this.#failed(error);
    }
    this.#writing.delete(key);
    if (written === null) this.#notWritten(key);
    else if (!this.#waiting.has(key)) this.#wrote(key, written, value, listing === this.#listing);
    this.#work();
  }

  /** `comparable`: the revision can be compared with received ones. */
  #wrote(key: string, written: number | 'deleted', value: Buffer | null, comparable: boolean): void {
    const { reusesKeys = false } = this.#settings;
    const late = this.#late.get(key);
    const revision = written === 'deleted' ? 0 : written;
    this.#late.delete(key);
    if (value === null) {
      if (reusesKeys && late !== undefined) this.#take(key, late);
    } else if (written === 'deleted') this.#forget(key);
    else if (late !== undefined && (!comparable || late.revision >= revision)) this.#take(key, late);
    else if (comparable) {
      this.#received.set(key, revision);
      this.#unconfirmed.delete(key);
      this.#unreceivedWrites.set(key, revision);
    }
  }

  /** Takes the change that was received during the write, unless the record waits again. */
  #notWritten(key: string): void {
    const late = this.#late.get(key);
    if (late === undefined || this.#writes(key)) return;
    this.#late.delete(key);
    this.#take(key, late);
  }

  #take(key: string, { record }: LateChange): void {
    if (record === null) this.#forget(key);
    else this.#owner.received(record, false);
  }

  /** Returns the revision; `deleted` if another node has deleted the record and keys are not reused. */
  async #update(key: string, value: Buffer): Promise<number | 'deleted'> {
    const { bucket } = this;
    const { reusesKeys = false, mergesUnread = this.#owner.merged === undefined } = this.#settings;
    // One round trip instead of two if, as far as this node has heard, no other node has written since the value was put.
    const known = mergesUnread && !this.#late.has(key) ? this.#received.get(key) : undefined;
    const direct = known === undefined ? null : await bucket.update(key, value, known);
    if (direct !== null) return direct;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const there = attempt > 0 || this.#isKnown(key) ? await bucket.look(key) : null;
      if (there === 'deleted' && !reusesKeys) return 'deleted';
      const revision = await (there === null || there === 'deleted'
        ? bucket[reusesKeys ? 'create' : 'restore'](key, value)
        : bucket.update(key, this.#owner.merged?.(key, value, there.value) ?? value, there.revision));
      if (revision !== null) return revision;
    }
    throw new Error(`others write ${key} of ${this.#settings.bucket} all the time`);
  }

  /** Where keys are reused, a record that another node has written since the deletion was put is newer, and stays. */
  async #delete(key: string, { known, incarnation }: WaitingChange): Promise<0> {
    const { bucket } = this;
    const since = incarnation === this.#incarnation ? known : undefined;
    if (this.#settings.reusesKeys !== true) await bucket.delete(key);
    else if (since === undefined || !(await bucket.delete(key, since))) {
      // A deletion leaves a tombstone for the TTL: leave none for a record that never existed.
      const there = await bucket.get(key);
      if (there !== null && (since === undefined || this.#owner.owns?.(there) === true)) {
        await bucket.delete(key, there.revision);
      }
    }
    return 0;
  }

  /** Only a write over nothing shows whether the record exists; usually it was lost, or is older than the listed ones. */
  async #restore(key: string, value: Buffer): Promise<void> {
    const { bucket } = this;
    const listing = this.#listing;
    const concerns = (): boolean => listing === this.#listing && !this.#closed && this.#isMissing(key);
    this.#restoring++;
    try {
      const older = this.#older || this.#tombstonesExpired ? await bucket.look(key) : null;
      if (older === null && this.#tombstonesExpired) {
        if (concerns()) this.#forget(key);
      } else if (older === null && (await bucket.restore(key, value)) !== null) this.#restored++;
      else {
        const there = older ?? (await bucket.look(key));
        if (concerns()) {
          if (there === null) throw new Error(`${key} is not found, and cannot be written`);
          if (there === 'deleted') this.#forget(key);
          else this.#onRecord(there);
        }
      }
    } catch (error) {
      if (isTooLarge(error)) this.#failed(error);
      else if (concerns()) {
        this.#failing.add(key);
        this.#retryLater();
      }
    }
    this.#restoring--;
    this.#work();
    if (this.#restoring > 0 || this.#restored === 0) return;
    const restored = { bucket: this.#settings.bucket, records: this.#restored, effect: 'they were written again' };
    this.#deps.logger.warn('records_missing', restored);
    this.#restored = 0;
  }

  #isMissing(key: string): boolean {
    return this.#unconfirmed.has(key) && !this.#writes(key);
  }

  #failed(error: unknown): void {
    const { logger } = this.#deps;
    const { bucket } = this.#settings;
    if (isTooLarge(error)) logger.warn('record_too_large', { bucket, error: String(error) });
    else if (!this.#closed) {
      logger.debug('record_not_written', { bucket, error: String(error) });
      this.#paused = true;
      this.#retryLater();
    }
  }

  #retryLater(): void {
    this.#stopRetry ??= this.#deps.clock.after(this.#retryMs, () => this.#retry());
  }

  #retry(): void {
    this.#stopRetry?.();
    this.#stopRetry = null;
    this.#paused = false;
    for (const key of this.#failing) this.#missing.add(key);
    this.#failing.clear();
    this.#work();
  }
}
