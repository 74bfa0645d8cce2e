import { EventEmitter } from 'node:events';
import { isDeepStrictEqual } from 'node:util';
import type { ClientProfile } from '../../model/client-profile.ts';
import { type Clock, pause } from '../../model/clock.ts';
import { Counts } from '../../model/counts.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { joinedTask } from '../../model/joined-task.ts';
import type { TaskRecord, TaskRecords } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { isTerminal, type TaskStatus } from '../../model/task-status.ts';

/** Tasks kept of one principal, and of all. Beyond, the oldest that has ended goes; if none has, none may begin. */
const MAX_OF_PRINCIPAL = 1_000;
const MAX_TASKS = 10_000;
/** Bytes of kept answers of one principal, and of all. */
const MAX_BYTES_OF_PRINCIPAL = 16 * 1024 * 1024;
const MAX_BYTES = 64 * 1024 * 1024;
/** The longest that any task is kept after it was last heard of, whatever its server promises. */
export const MAX_TTL_MS = 7 * 24 * 60 * 60_000;
const SWEEP_MS = 60_000;
/** What another node learned moments ago may not be here yet. */
const LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400];

interface TaskTableDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly records: TaskRecords;
  readonly events: TaskEvents;
}

/** Hears what becomes of tasks. */
export interface TaskEvents {
  /** At this node or another. */
  begun(record: TaskRecord): void;
  /** Status or description are others. */
  changed(record: TaskRecord, before: TaskRecord): void;
  /** The task has ended at another node, which has notified its client, or is not kept any more. */
  over(record: TaskRecord): void;
}

/** By what a server's task is known: the server, and the server's own id. */
export type TaskRoute = Pick<TaskRecord, 'server' | 'taskId'>;

export type NewTask = Omit<TaskRecord, 'key' | 'startedAt' | 'expiresAt'>;
/** What may become of a task. */
export type TaskNews = Partial<Pick<TaskRecord, 'status' | 'description' | 'ttlMs' | 'pollIntervalMs' | 'answer'>>;

/**
 * The tasks of all callers, in memory and in the store: whose each is, where it runs and its last known state. An expired task
 * is unknown, and so is another principal's.
 */
export class TaskTable {
  readonly #deps: TaskTableDeps;
  /** In the order in which they began. */
  readonly #tasks = new Map<string, TaskRecord>();
  /** Keys by server and the server's own id. */
  readonly #ids = new Map<string, Set<string>>();
  /** By principal. */
  readonly #counts = new Counts();
  readonly #bytes = new Counts();
  /** By key, who waits for news of the task. */
  readonly #watchers = new EventEmitter<Record<string, [TaskRecord]>>().setMaxListeners(0);
  #disarm: (() => void) | null = null;

  constructor(deps: TaskTableDeps) {
    this.#deps = deps;
    const now = deps.clock.wall();
    const stored = [...deps.records.load()].sort((a, b) => a.startedAt - b.startedAt);
    for (const record of stored) {
      // A connection that its session had to itself went with the process that kept this record.
      if (record.expiresAt > now) this.#insert(record.passing === true ? { ...record, sessionId: null } : record);
      else deps.records.delete(record.key);
    }
    deps.records.follow?.({
      get: (key) => this.get(key),
      heard: (record) => this.#heard(record),
      gone: (key) => this.#remove(key),
    });
  }

  /** Other nodes have tasks too, and tell of them. */
  get shared(): boolean {
    return this.#deps.records.follow !== undefined;
  }

  /** Looks until something is found, or another node has had the time to tell of it. */
  async lookUp<Found>(look: () => Found, isFound: (found: Found) => boolean): Promise<Found> {
    for (const waitMs of LOOKS_MS) {
      await pause(this.#deps.clock, waitMs);
      const found = look();
      if (isFound(found)) return found;
    }
    return look();
  }

  /** null when the caller may begin one more task. */
  refusal(principal: string): GatewayError | null {
    if (this.#room(principal)) return null;
    return new GatewayError('OVERLOADED', `No more than ${MAX_OF_PRINCIPAL} tasks may be unfinished at once`);
  }

  add(task: NewTask): TaskRecord {
    const startedAt = this.#deps.clock.wall();
    const expiresAt = this.#expiry(startedAt, task.ttlMs);
    const record = { ...task, key: this.#deps.random.hex(16), startedAt, expiresAt };
    this.#insert(record);
    this.#bound(record.principal);
    if (this.#tasks.has(record.key)) this.#deps.records.put(record);
    this.#deps.events.begun(record);
    return record;
  }

  /** The caller's task of this id, the one of its own session first where several have it; null for none. */
  find(server: string, taskId: string, client: ClientProfile): TaskRecord | null {
    let found: TaskRecord | null = null;
    for (const record of this.#named(server, taskId)) {
      if (record.principal !== client.principal.id) continue;
      if (found === null || record.sessionId === client.sessionId || found.sessionId !== client.sessionId)
        found = record;
    }
    return found;
  }

  /** What the principal's task of this id was called when it began; null where that is not known. */
  sealedId(principal: string, { server, taskId }: TaskRoute): string | null {
    for (const record of this.#named(server, taskId)) {
      if (record.principal === principal && record.sealedId !== undefined) return record.sealedId;
    }
    return null;
  }

  /** The same backwards. */
  routeOf(principal: string, sealedId: string): TaskRoute | null {
    for (const record of this.of(principal)) if (record.sealedId === sealedId) return record;
    return null;
  }

  /** Whether any caller has such a task. */
  knows(server: string, taskId: string): boolean {
    return this.#named(server, taskId).next().done !== true;
  }

  /** The tasks that a notification on this connection may mean. */
  heardOn(server: string, taskId: string, sessionId: string | null): readonly TaskRecord[] {
    return [...this.#named(server, taskId)].filter((record) => record.sessionId === sessionId);
  }

  get(key: string): TaskRecord | null {
    return this.#live(this.#tasks.get(key));
  }

  /** Those of all callers, in the order in which they began. */
  *all(): Generator<TaskRecord, void, undefined> {
    for (const task of this.#tasks.values()) {
      const record = this.#live(task);
      if (record !== null) yield record;
    }
  }

  /** All tasks of the principal, in the order in which they began. */
  *of(principal: string): Generator<TaskRecord, void, undefined> {
    for (const task of this.#tasks.values()) {
      const record = task.principal === principal ? this.#live(task) : null;
      if (record !== null) yield record;
    }
  }

  /** Takes over what was heard. A task that has ended stays as it ended; a record that is not kept is only changed. */
  update(stale: TaskRecord, news: TaskNews): TaskRecord {
    const before = this.#tasks.get(stale.key) ?? stale;
    const ended = isTerminal(before.status);
    const status: TaskStatus = ended ? before.status : (news.status ?? before.status);
    const record: TaskRecord = {
      ...before,
      ...news,
      status,
      answer: before.answer ?? news.answer ?? null,
      expiresAt: this.#expiry(before.startedAt, news.ttlMs === undefined ? before.ttlMs : news.ttlMs),
    };
    if (!this.#tasks.has(record.key)) return record;
    this.#replace(before, record);
    // Being asked after moves the end of tasks without one; that alone is not worth a write.
    const same = isDeepStrictEqual({ ...before, expiresAt: 0 }, { ...record, expiresAt: 0 });
    if (!same && this.#tasks.has(record.key)) this.#deps.records.put(record);
    if (status !== before.status || !record.description.equals(before.description)) {
      this.#watchers.emit(record.key, record);
      this.#deps.events.changed(record, before);
    }
    return record;
  }

  delete({ key }: Pick<TaskRecord, 'key'>): void {
    if (this.#remove(key)) this.#deps.records.delete(key);
  }

  /** What another node knows of a task. What has ended stays as it ended. */
  #heard(record: TaskRecord): void {
    if (record.expiresAt <= this.#deps.clock.wall()) return;
    const before = this.#tasks.get(record.key);
    if (before === undefined) {
      this.#insert(record);
      this.#bound(record.principal);
      this.#deps.events.begun(record);
      return;
    }
    const now = joinedTask(record, before);
    this.#replace(before, now);
    const heard = now.status !== before.status || !now.description.equals(before.description);
    if (!heard || !this.#tasks.has(record.key)) return;
    this.#watchers.emit(now.key, now);
    if (isTerminal(now.status)) this.#deps.events.over(now);
  }

  #remove(key: string): boolean {
    const record = this.#tasks.get(key);
    if (record === undefined) return false;
    this.#tasks.delete(key);
    this.#count(record, -1);
    const id = idOf(record.server, record.taskId);
    const keys = this.#ids.get(id)!;
    keys.delete(key);
    if (keys.size === 0) this.#ids.delete(id);
    this.#deps.events.over(record);
    return true;
  }

  /** Runs whenever something else is heard of the task; the returned function ends that. */
  watch(key: string, heard: (record: TaskRecord) => void): () => void {
    this.#watchers.on(key, heard);
    return () => void this.#watchers.off(key, heard);
  }

  /** The session is over, and its connections with it: what its tasks have left is asked for over the asker's own. */
  sessionEnded(sessionId: string): void {
    for (const [key, record] of this.#tasks) {
      if (record.sessionId !== sessionId) continue;
      const left = { ...record, sessionId: null };
      this.#tasks.set(key, left);
      this.#deps.records.put(left);
    }
  }

  close(): void {
    this.#disarm?.();
    this.#disarm = null;
  }

  *#named(server: string, taskId: string): Generator<TaskRecord, void, undefined> {
    for (const key of this.#ids.get(idOf(server, taskId)) ?? []) {
      const record = this.get(key);
      if (record !== null) yield record;
    }
  }

  #live(record: TaskRecord | undefined): TaskRecord | null {
    if (record === undefined) return null;
    if (record.expiresAt > this.#deps.clock.wall()) return record;
    this.delete(record);
    return null;
  }

  /** Long promises, and promises without end, hold for so long after the last word of the task. */
  #expiry(startedAt: number, ttlMs: number | null): number {
    if (ttlMs !== null && ttlMs <= MAX_TTL_MS) return startedAt + ttlMs;
    return this.#deps.clock.wall() + MAX_TTL_MS;
  }

  #replace(before: TaskRecord, record: TaskRecord): void {
    this.#count(before, -1);
    this.#tasks.set(record.key, record);
    this.#count(record, 1);
    this.#bound(record.principal);
  }

  #insert(record: TaskRecord): void {
    this.#tasks.set(record.key, record);
    this.#count(record, 1);
    const id = idOf(record.server, record.taskId);
    this.#ids.set(id, (this.#ids.get(id) ?? new Set()).add(record.key));
    this.#disarm ??= this.#deps.clock.after(SWEEP_MS, () => this.#sweep());
  }

  #sweep(): void {
    this.#disarm = null;
    for (const record of [...this.#tasks.values()]) this.#live(record);
    if (this.#tasks.size > 0) this.#disarm = this.#deps.clock.after(SWEEP_MS, () => this.#sweep());
  }

  #count({ principal, description, answer }: TaskRecord, by: 1 | -1): void {
    this.#counts.add(principal, by);
    this.#bytes.add(principal, by * (description.length + (answer?.body.length ?? 0)));
  }

  /** Whether one more fits, now or in the place of one that has ended. */
  #room(principal: string): boolean {
    const full = this.#counts.of(principal) >= MAX_OF_PRINCIPAL;
    if (!full && this.#tasks.size < MAX_TASKS) return true;
    return this.#oldestEnded(full ? principal : null) !== null;
  }

  #bound(principal: string): void {
    while (this.#counts.of(principal) > MAX_OF_PRINCIPAL || this.#bytes.of(principal) > MAX_BYTES_OF_PRINCIPAL) {
      if (!this.#dropOldest(principal)) break;
    }
    while (this.#tasks.size > MAX_TASKS || this.#bytes.total > MAX_BYTES) if (!this.#dropOldest(null)) break;
  }

  #dropOldest(principal: string | null): boolean {
    const oldest = this.#oldestEnded(principal);
    if (oldest !== null) this.delete(oldest);
    return oldest !== null;
  }

  #oldestEnded(principal: string | null): TaskRecord | null {
    for (const record of this.#tasks.values()) {
      if (isTerminal(record.status) && (principal === null || record.principal === principal)) return record;
    }
    return null;
  }
}

function idOf(server: string, taskId: string): string {
  return `${server}\0${taskId}`;
}
