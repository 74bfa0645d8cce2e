import { EventEmitter } from 'node:events';
import { isDeepStrictEqual } from 'node:util';
import type { ClientProfile } from '../../model/client-profile.ts';
import { type Clock, MAX_SKEW_MS, pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { mergedTask } from '../../model/merged-task.ts';
import type { SharedTasks, TaskRecord, TaskRecords } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { newTaskKey, type TaskRoute } from '../../model/task-keys.ts';
import { BYTES_PER_TASK, bytesOfTask, MAX_TASKS, type TaskMeasure, TaskSizes } from '../../model/task-sizes.ts';
import { isTerminal, type TaskStatus } from '../../model/task-status.ts';

/**
 * Tasks of one principal in the cluster. Beyond this, and beyond the limit of all, the oldest ended task is deleted; if so many
 * have not ended, none may begin.
 */
const MAX_OF_PRINCIPAL = 1_000;
/** Bytes of stored descriptions and answers of one principal. */
const MAX_BYTES_OF_PRINCIPAL = 16 * 1024 * 1024;
const DAY_MS = 24 * 60 * 60_000;
/** The longest that a task is kept after its last update, whatever its server promises. */
export const MAX_TTL_MS = 7 * DAY_MS;
const SWEEP_MS = 60_000;
/** Pauses between look-ups: what another node has just learnt may not be here yet. */
const LOOKS_MS: readonly number[] = [25, 50, 100, 200, 400];

interface TaskTableDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly records: TaskRecords;
  readonly events: TaskEvents;
}

/** Receives the changes of tasks. */
export interface TaskEvents {
  /** A task began at this node or another. */
  started(record: TaskRecord): void;
  /** Status or description changed at this node. */
  changed(record: TaskRecord, before: TaskRecord): void;
  /** The task has ended at another node, which has notified its client, or this node no longer keeps it. */
  ended(record: TaskRecord): void;
}

export type NewTask = Omit<TaskRecord, 'key' | 'startedAt' | 'expiresAt'>;
/** The members of a task that may change. */
export type TaskUpdate = Partial<Pick<TaskRecord, 'status' | 'description' | 'ttlMs' | 'pollIntervalMs' | 'answer'>>;

/**
 * The tasks of all callers, in memory and in the store: owner, server and last known state. An expired task is unknown, and so
 * is another principal's. Of tasks that other nodes began, only those with the latest updates are in memory.
 */
export class TaskTable {
  readonly #deps: TaskTableDeps;
  /** In the order in which this node learnt of them. */
  readonly #tasks = new Map<string, TaskRecord>();
  /** Keys by server and the server's own id. */
  readonly #ids = new Map<string, Set<string>>();
  /** Keys of tasks that other nodes began; the last updated one is last. */
  readonly #others = new Set<string>();
  readonly #shared: SharedTasks | undefined;
  readonly #maxTasks: number;
  readonly #inMemory: TaskSizes;
  readonly #own: TaskSizes;
  /** Listeners for changes of a task, by key. */
  readonly #watchers = new EventEmitter<Record<string, [TaskRecord]>>().setMaxListeners(0);
  #disarm: (() => void) | null = null;

  constructor(deps: TaskTableDeps) {
    this.#deps = deps;
    const { shared } = deps.records;
    this.#shared = shared;
    this.#maxTasks = shared?.maxTasks ?? MAX_TASKS;
    this.#inMemory = shared?.inMemory ?? new TaskSizes();
    this.#own = shared?.own ?? new TaskSizes();
    const now = deps.clock.wall();
    const stored = [...deps.records.load()].sort((a, b) => a.startedAt - b.startedAt);
    for (const record of stored) {
      // The session of such a record ended with the process that stored it.
      if (record.expiresAt > now) this.#insert(record.passing === true ? { ...record, sessionId: null } : record);
      else if (shared === undefined || !isOpen(record)) deps.records.delete(record.key);
    }
    shared?.setObserver({
      get: (key) => this.get(key),
      received: (record) => this.#received(record),
      removed: (key) => this.#remove(key),
      mustKeep: (key) => this.#keeps(key),
    });
  }

  /** Whether other nodes have tasks too, and publish them. */
  get shared(): boolean {
    return this.#shared !== undefined;
  }

  /** Reads stored tasks of the route into memory. Rejects with GatewayError NOT_SENT. */
  async read(route: TaskRoute): Promise<void> {
    await this.#shared?.read(route);
  }

  /** Repeats `look` until it finds something, or other nodes have had time to publish it. */
  async lookUp<Found>(look: () => Found, isFound: (found: Found) => boolean): Promise<Found> {
    let found = look();
    for (const waitMs of LOOKS_MS) {
      if (isFound(found)) break;
      await pause(this.#deps.clock, waitMs);
      found = look();
    }
    return found;
  }

  /** Returns null if the caller may begin one more task: it fits now, or in the place of one that has ended. */
  refusal(principal: string): GatewayError | null {
    if (this.#known('unfinished', principal) < MAX_OF_PRINCIPAL && this.#known('unfinished', null) < this.#maxOfAll)
      return null;
    return new GatewayError('OVERLOADED', `No more than ${MAX_OF_PRINCIPAL} tasks may be unfinished at once`);
  }

  add(task: NewTask): TaskRecord {
    const startedAt = this.#deps.clock.wall();
    const expiresAt = this.#expiry(startedAt, task.ttlMs);
    const record = { ...task, key: newTaskKey(task, this.#deps.random), startedAt, expiresAt };
    this.#insert(record);
    this.#bound(record, 1, bytesOfTask(record));
    this.#put(record);
    this.#deps.events.started(record);
    return record;
  }

  /** The caller's task of this id, preferably of its own session; null for none. */
  find(server: string, taskId: string, client: ClientProfile): TaskRecord | null {
    let found: TaskRecord | null = null;
    for (const record of this.#named(server, taskId)) {
      if (record.principal !== client.principal.id) continue;
      if (found === null || record.sessionId === client.sessionId || found.sessionId !== client.sessionId)
        found = record;
    }
    return found;
  }

  /** The sealed id with which the principal's task of this route began; null if not known. */
  sealedId(principal: string, { server, taskId }: TaskRoute): string | null {
    for (const record of this.#named(server, taskId)) {
      if (record.principal === principal && record.sealedId !== undefined) return record.sealedId;
    }
    return null;
  }

  /** The route of a sealed id; null if not known. */
  routeOf(principal: string, sealedId: string): TaskRoute | null {
    for (const record of this.of(principal)) if (record.sealedId === sealedId) return record;
    return null;
  }

  /** Whether any caller has such a task. */
  knows(server: string, taskId: string): boolean {
    return this.#named(server, taskId).next().done !== true;
  }

  /** The tasks that a notification on a connection of this session (null: of no single session) may mean. */
  findOnSession(server: string, taskId: string, sessionId: string | null): readonly TaskRecord[] {
    return [...this.#named(server, taskId)].filter((record) => record.sessionId === sessionId);
  }

  get(key: string): TaskRecord | null {
    return this.#live(this.#tasks.get(key));
  }

  /** The tasks of all callers, in the order in which this node learnt of them. */
  *all(): Generator<TaskRecord, void, undefined> {
    for (const task of this.#tasks.values()) {
      const record = this.#live(task);
      if (record !== null) yield record;
    }
  }

  /** The tasks of the principal, in the same order. */
  *of(principal: string): Generator<TaskRecord, void, undefined> {
    for (const task of this.#tasks.values()) {
      const record = task.principal === principal ? this.#live(task) : null;
      if (record !== null) yield record;
    }
  }

  /** Merges an update. A task that has ended keeps its status; the record of a task that is not in memory is only returned. */
  update(stale: TaskRecord, update: TaskUpdate): TaskRecord {
    const before = this.#tasks.get(stale.key) ?? stale;
    const status: TaskStatus = isTerminal(before.status) ? before.status : (update.status ?? before.status);
    const record: TaskRecord = {
      ...before,
      ...update,
      status,
      answer: before.answer ?? update.answer ?? null,
      expiresAt: this.#expiry(before.startedAt, update.ttlMs === undefined ? before.ttlMs : update.ttlMs),
    };
    if (!this.#tasks.has(record.key)) return record;
    this.#replace(before, record);
    this.#bound(record, 0, bytesOfTask(record) - bytesOfTask(before));
    // A poll extends a task without an end; that alone is written once a day.
    const dayOf = ({ expiresAt }: TaskRecord) => Math.floor(expiresAt / DAY_MS);
    const same = isDeepStrictEqual({ ...before, expiresAt: dayOf(before) }, { ...record, expiresAt: dayOf(record) });
    if (!same) this.#put(record);
    if (status !== before.status || !record.description.equals(before.description)) {
      this.#watchers.emit(record.key, record);
      this.#deps.events.changed(record, before);
    }
    this.#forgetOthers();
    return record;
  }

  delete({ key }: Pick<TaskRecord, 'key'>): void {
    if (this.#remove(key)) this.#deps.records.delete(key);
  }

  #put(record: TaskRecord): void {
    this.#deps.records.put(record, !this.#others.has(record.key));
  }

  /** Merges a record of another node. A task that has ended keeps its status. */
  #received(record: TaskRecord): void {
    if (record.expiresAt + MAX_SKEW_MS <= this.#deps.clock.wall()) return;
    const before = this.#tasks.get(record.key);
    if (before === undefined) {
      this.#others.add(record.key);
      this.#insert(record);
      this.#deps.events.started(record);
      this.#forgetOthers();
      return;
    }
    const now = mergedTask(record, before);
    this.#replace(before, now);
    if (now.status !== before.status || !now.description.equals(before.description)) {
      this.#watchers.emit(now.key, now);
      if (isTerminal(now.status)) this.#deps.events.ended(now);
    }
    this.#forgetOthers();
  }

  /** Removes other nodes' tasks beyond the limit from memory; they stay in the store. */
  #forgetOthers(): void {
    for (const key of this.#others) {
      const bytes = this.#inMemory.bytes.total - this.#own.bytes.total;
      if (this.#others.size <= this.#maxTasks && bytes <= this.#maxTasks * BYTES_PER_TASK) return;
      if (this.#keeps(key)) continue;
      this.#remove(key);
      this.#shared?.forget(key);
    }
  }

  /** Whether it stays in memory: this node began it, or a request waits for it here. */
  #keeps(key: string): boolean {
    return !this.#others.has(key) || this.#watchers.listenerCount(key) > 0;
  }

  #remove(key: string): boolean {
    const record = this.#tasks.get(key);
    if (record === undefined) return false;
    this.#tasks.delete(key);
    this.#count(record, -1);
    this.#others.delete(key);
    const id = idOf(record.server, record.taskId);
    const keys = this.#ids.get(id)!;
    keys.delete(key);
    if (keys.size === 0) this.#ids.delete(id);
    this.#deps.events.ended(record);
    return true;
  }

  /** Calls `onChange` after every change of the task; the returned function ends that. */
  watch(key: string, onChange: (record: TaskRecord) => void): () => void {
    this.#watchers.on(key, onChange);
    return () => void this.#watchers.off(key, onChange);
  }

  /** Keeps the task in memory until the returned function is called. */
  keep(key: string): () => void {
    return this.watch(key, () => {});
  }

  /** The session and its connections have ended: later requests about its tasks use the caller's own connection. */
  sessionEnded(sessionId: string): void {
    for (const [key, record] of this.#tasks) {
      if (record.sessionId !== sessionId) continue;
      const left = { ...record, sessionId: null };
      this.#tasks.set(key, left);
      this.#put(left);
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
    // The clock of the node that began it may be behind.
    const lateMs = this.#others.has(record.key) ? MAX_SKEW_MS : 0;
    if (record.expiresAt + lateMs > this.#deps.clock.wall()) return record;
    // The node that began it may know a later expiry.
    if (isOpen(record) && this.#others.has(record.key)) this.#remove(record.key);
    else this.delete(record);
    return null;
  }

  /** Tasks without an end, or with a later one, expire `MAX_TTL_MS` after their last update. */
  #expiry(startedAt: number, ttlMs: number | null): number {
    return isOpen({ ttlMs }) ? this.#deps.clock.wall() + MAX_TTL_MS : startedAt + ttlMs!;
  }

  #replace(before: TaskRecord, record: TaskRecord): void {
    this.#count(before, -1);
    this.#tasks.set(record.key, record);
    this.#count(record, 1);
    if (this.#others.delete(record.key)) this.#others.add(record.key);
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

  #count(record: TaskRecord, by: 1 | -1): void {
    this.#inMemory.add(record, by);
    if (!this.#others.has(record.key)) this.#own.add(record, by);
  }

  /** The number in the cluster. `principal` null: of all callers. */
  #known(what: TaskMeasure, principal: string | null): number {
    return Math.max(this.#inMemoryCount(what, principal), this.#shared?.publishedTotal(what, principal) ?? 0);
  }

  #inMemoryCount(what: TaskMeasure, principal: string | null): number {
    return principal === null ? this.#inMemory[what].total : this.#inMemory[what].of(principal);
  }

  get #maxOfAll(): number {
    return this.#maxTasks * (this.#shared?.nodes ?? 1);
  }

  /**
   * Deletes the oldest other ended tasks, on all nodes, to make room for what was added here; at most twice as much, because
   * the numbers that other nodes published may be out of date.
   */
  #bound(added: TaskRecord, newTasks: number, newBytes: number): void {
    const evict = (of: string | null, maxTasks: number, maxBytes: number): void => {
      let tasks = 2 * newTasks;
      let bytes = 2 * newBytes;
      const tooMany = () => tasks > 0 && this.#known('tasks', of) > maxTasks;
      const tooLong = () => bytes > 0 && this.#known('bytes', of) > maxBytes;
      while (tooMany() || tooLong()) {
        const oldest = this.#oldestEnded(of, added.key);
        const size = oldest === null ? 0 : bytesOfTask(oldest);
        const certain = tooMany() || this.#inMemoryCount('bytes', of) > maxBytes;
        if (oldest === null || (size > bytes && !certain)) return;
        tasks--;
        bytes -= size;
        this.delete(oldest);
      }
    };
    evict(added.principal, MAX_OF_PRINCIPAL, MAX_BYTES_OF_PRINCIPAL);
    evict(null, this.#maxOfAll, this.#maxOfAll * BYTES_PER_TASK);
  }

  #oldestEnded(principal: string | null, except: string): TaskRecord | null {
    let oldest: TaskRecord | null = null;
    for (const record of this.#tasks.values()) {
      if (record.startedAt >= (oldest?.startedAt ?? Number.POSITIVE_INFINITY) || !isTerminal(record.status)) continue;
      if (record.key !== except && (principal ?? record.principal) === record.principal) oldest = record;
    }
    return oldest;
  }
}

/** Whether every update extends its expiry, so that another node may know a later one. */
function isOpen({ ttlMs }: Pick<TaskRecord, 'ttlMs'>): boolean {
  return ttlMs === null || ttlMs > MAX_TTL_MS;
}

function idOf(server: string, taskId: string): string {
  return `${server}\0${taskId}`;
}
