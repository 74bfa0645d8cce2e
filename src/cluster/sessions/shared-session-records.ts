import type { SharedState } from '../../bus/shared-state.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { SessionRecord, SessionRecords } from '../../model/ports.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { LazyBucket } from '../lazy-bucket.ts';

/** What was written moments ago at another node may not be there yet when its client is here already. */
const LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400];
/** A store that does not answer for so long is not asked again. */
const READS_MS = 1_500;
const AGAIN_MS = 1_000;
/** After an outage every node needs a moment to write what it could not. */
const SETTLES_MS = 3_000;
const SESSIONS = 'trunkline_sessions';
/** Those that are used are written once a minute; the sweep ends others far sooner. */
const KEPT_MS = 8 * 24 * 3_600_000;
/** What clients say of themselves, 64 KiB at most, is in them as text: a line feed or a quotation mark takes two bytes. */
const MAX_RECORD_BYTES = 256 * 1024;
/** One after the other at most so many; the rest wait. */
const MAX_WRITES = 64;

export interface SharedSessionRecordsDeps {
  readonly state: SharedState;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Something of the session is another, at this node or another. */
  readonly changed: (record: SessionRecord) => void;
  /** The session was ended, at this node or another. */
  readonly gone: (id: string) => void;
}

interface Known {
  readonly record: SessionRecord;
  /** In which telling of everything it was last heard of. */
  telling: number;
}

/**
 * Client sessions as all nodes know them: any of them can serve any session. Every node follows them all, so that looking
 * one up costs nothing; writes are behind, and repeated while the store cannot be reached.
 */
export class SharedSessionRecords implements SessionRecords {
  readonly #deps: SharedSessionRecordsDeps;
  readonly #bucket: LazyBucket;
  readonly #known = new Map<string, Known>();
  /** To be written; null: to be deleted. The newest of each wins. */
  readonly #unwritten = new Map<string, SessionRecord | null>();
  /** Being written now. Of one session one thing after the other, so that the newest is the last. */
  readonly #writing = new Set<string>();
  #telling = 0;
  /** Until then others may not have written all that they know. */
  #settlesAt = Number.NEGATIVE_INFINITY;
  /** The making of the bucket that everything was told of; null before. */
  #incarnation: string | null = null;
  #watch: { close(): void } | null = null;
  #stopRetry: (() => void) | null = null;
  #stopWatch: (() => void) | null = null;
  #closed = false;

  constructor(deps: SharedSessionRecordsDeps) {
    this.#deps = deps;
    this.#bucket = new LazyBucket(deps.state, SESSIONS, { ttlMs: KEPT_MS, maxValueBytes: MAX_RECORD_BYTES });
    void this.#follow();
  }

  /**
   * Rejects with GatewayError NOT_SENT where nobody here knows it and the store cannot be asked, or could not be written to
   * until a moment ago: it may well be there.
   */
  async get(id: string): Promise<SessionRecord | null> {
    let away: unknown = null;
    const end = this.#deps.clock.now() + READS_MS;
    for (const waitMs of [0, ...LOOKS_MS]) {
      if (waitMs > 0) await new Promise<void>((resolve) => this.#deps.clock.after(waitMs, resolve));
      if (this.#closed) return null;
      const unwritten = this.#unwritten.get(id);
      if (unwritten !== undefined) return unwritten;
      const known = this.#known.get(id);
      if (known !== undefined) return known.record;
      try {
        const found = await this.#bucket.get(id);
        away = null;
        if (found !== null) return recordIn(found.value);
      } catch (error) {
        away = error;
        if (this.#deps.clock.now() >= end) break;
      }
    }
    if (away === null && this.#deps.clock.now() >= this.#settlesAt) return null;
    const text = 'the sessions of the cluster cannot be read at the moment';
    throw new GatewayError('NOT_SENT', text, { retryable: true, retryAfterMs: AGAIN_MS, cause: away });
  }

  put(record: SessionRecord): void {
    this.#unwritten.set(record.id, record);
    this.#write();
  }

  delete(id: string): void {
    this.#unwritten.set(id, null);
    this.#write();
  }

  async all(): Promise<readonly SessionRecord[]> {
    return [...this.#known.values()].map(({ record }) => record);
  }

  /** What is not written yet has a moment to be. */
  async close(): Promise<void> {
    for (const waitMs of LOOKS_MS) {
      if (this.#unwritten.size === 0 && this.#writing.size === 0) break;
      await new Promise<void>((resolve) => this.#deps.clock.after(waitMs, resolve));
    }
    this.#closed = true;
    this.#watch?.close();
    this.#stopRetry?.();
    this.#stopWatch?.();
  }

  #write(): void {
    for (const [id, record] of this.#unwritten) {
      if (this.#writing.size >= MAX_WRITES || this.#closed) return;
      if (this.#writing.has(id)) continue;
      this.#unwritten.delete(id);
      this.#writing.add(id);
      void this.#writeOne(id, record).then(
        () => this.#wrote(id),
        () => this.#failed(id, record),
      );
    }
  }

  async #writeOne(id: string, record: SessionRecord | null): Promise<void> {
    if (record === null) await this.#bucket.delete(id);
    else await this.#bucket.put(id, Buffer.from(JSON.stringify(record)));
  }

  #wrote(id: string): void {
    this.#writing.delete(id);
    this.#write();
  }

  #failed(id: string, record: SessionRecord | null): void {
    this.#writing.delete(id);
    if (!this.#unwritten.has(id)) this.#unwritten.set(id, record);
    if (this.#closed) return;
    this.#stopRetry ??= this.#deps.clock.after(AGAIN_MS, () => {
      this.#stopRetry = null;
      this.#write();
    });
  }

  async #follow(): Promise<void> {
    const { clock, logger } = this.#deps;
    try {
      const watch = await this.#bucket.watch('>', {
        put: ({ key, value }) => this.#heard(key, value),
        gone: (key) => this.#gone(key),
        onBegin: () => this.#telling++,
        onReady: (incarnation) => this.#told(incarnation),
      });
      if (this.#closed) watch.close();
      else this.#watch = watch;
    } catch (error) {
      if (this.#closed) return;
      logger.debug('sessions_not_followed', { error: String(error) });
      this.#stopWatch = clock.after(AGAIN_MS, () => void this.#follow());
    }
  }

  #heard(id: string, value: Buffer): void {
    const record = recordIn(value);
    if (record?.id !== id) return;
    this.#known.set(id, { record, telling: this.#telling });
    this.#deps.changed(record);
  }

  #gone(id: string): void {
    if (this.#known.delete(id)) this.#deps.gone(id);
  }

  /**
   * Everything was told, for the first time or again: what was not is not there any more. Where the store has lost
   * everything, it is told what it had: sessions end when somebody ends them.
   */
  #told(incarnation: string): void {
    const again = this.#incarnation !== null;
    const lost = again && this.#incarnation !== incarnation;
    this.#incarnation = incarnation;
    if (again) this.#settlesAt = this.#deps.clock.now() + SETTLES_MS;
    for (const [id, { telling, record }] of [...this.#known]) {
      if (telling >= this.#telling) continue;
      if (!lost) this.#gone(id);
      else if (!this.#unwritten.has(id)) this.#unwritten.set(id, record);
    }
    if (lost) this.#deps.logger.warn('sessions_written_anew', { sessions: this.#unwritten.size });
    this.#write();
  }
}

function recordIn(value: Buffer): SessionRecord | null {
  try {
    const record = JSON.parse(value.toString()) as SessionRecord;
    return typeof record.id === 'string' && typeof record.capabilities === 'string' ? record : null;
  } catch {
    return null;
  }
}
