import { deserialize, serialize } from 'node:v8';
import type { StateRecord } from '../../bus/shared-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { mergedTask } from '../../model/merged-task.ts';
import type { SharedTasks, TaskObserver, TaskRecord, TaskRecords } from '../../model/ports.ts';
import { resealOutdated } from '../../model/sealing.ts';
import { keyPrefix, type TaskRoute } from '../../model/task-keys.ts';
import { BYTES_PER_TASK, MAX_TASKS, type TaskMeasure, TaskSizes } from '../../model/task-sizes.ts';
import type { FirstNodeDeps } from '../at-first-node.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { Resealing } from '../resealing.ts';
import { SharedTable } from '../shared-table.ts';
import type { TableOwner } from '../table-owner.ts';
import { ClusterCounts } from './cluster-counts.ts';

const TASKS = 'trunkline_tasks';
const KEPT_MS = 8 * 24 * 3_600_000;
/** A longer answer stays at its node; other nodes ask the server. */
const MAX_ANSWER_BYTES = 256 * 1024;
const MAX_RECORD_BYTES = 640 * 1024;
const RETRY_MS = 1_000;
/** Raised when the shape of TaskRecord changes; older records are then ignored. */
const FORMAT = 1;

interface SharedTaskRecordsDeps extends FirstNodeDeps, Pick<ClusterDeps, 'state' | 'sealing'> {
  /** The local records of this node, which survive a restart. */
  readonly own: TaskRecords;
  readonly maxTasks?: number;
}

type Written = { readonly format: number; readonly record: TaskRecord };

/**
 * Tasks of all nodes; sealed, because they contain callers' answers. A node keeps in memory its own tasks and those of the others
 * that it received last (decision 091).
 */
export class SharedTaskRecords implements TaskRecords, SharedTasks, TableOwner {
  readonly maxTasks: number;
  readonly inMemory = new TaskSizes();
  readonly own = new TaskSizes();
  readonly #deps: SharedTaskRecordsDeps;
  readonly #table: SharedTable;
  readonly #resealing: Resealing;
  readonly #counts: Record<TaskMeasure, ClusterCounts>;
  #observer: TaskObserver | null = null;
  #loaded: readonly TaskRecord[];

  constructor(deps: SharedTaskRecordsDeps) {
    this.#deps = deps;
    const { maxTasks = MAX_TASKS } = deps;
    this.maxTasks = maxTasks;
    this.#loaded = [...deps.own.load()];
    const known = this.#loaded.map(({ key }) => key);
    const bounds = { maxValueBytes: MAX_RECORD_BYTES, newest: maxTasks, known };
    this.#table = new SharedTable(deps, { bucket: TASKS, ttlMs: KEPT_MS, ...bounds }, this);
    const counts = (of: TaskMeasure): ClusterCounts => {
      const subject = `trunkline.tasks.${of}`;
      const { tasks, bytes } = this.inMemory;
      const counting = () => !this.#table.complete || tasks.total > maxTasks || bytes.total > maxTasks * BYTES_PER_TASK;
      return new ClusterCounts({ ...deps, subject, own: this.own[of], counting });
    };
    this.#counts = { tasks: counts('tasks'), unfinished: counts('unfinished'), bytes: counts('bytes') };
    const reseal = ({ key, value }: StateRecord): string | null =>
      resealOutdated(deps.sealing, contextOf(key), value.toString());
    this.#resealing = new Resealing({ ...deps, bucket: this.#table.bucket, reseal });
  }

  get shared(): SharedTasks {
    return this;
  }

  get nodes(): number {
    return this.#counts.tasks.nodes;
  }

  publishedTotal(what: TaskMeasure, principal: string | null): number {
    return this.#table.complete ? 0 : this.#counts[what].count(principal);
  }

  load(): Iterable<TaskRecord> {
    const loaded = this.#loaded;
    this.#loaded = [];
    return loaded;
  }

  put(record: TaskRecord, own = true): void {
    if (own) this.#deps.own.put(record);
    this.#announce(record);
  }

  delete(key: string): void {
    this.#deps.own.delete(key);
    this.#table.put(key, null);
  }

  setObserver(observer: TaskObserver): void {
    this.#observer = observer;
  }

  forget(key: string): void {
    this.#deps.own.delete(key);
    this.#table.drop(key);
  }

  async read(route: TaskRoute): Promise<void> {
    if (this.#table.complete) return;
    const { bucket } = this.#table;
    try {
      for (const key of await bucket.keys(`${keyPrefix(route)}.*`)) {
        if (this.#observer?.get(key) !== null) continue;
        const waiting = this.#table.waiting(key);
        if (waiting === undefined) await this.#table.read(key, true);
        else if (waiting !== null) this.received({ key, value: waiting, revision: 0 }, false);
      }
    } catch (cause) {
      const text = 'the tasks of the cluster cannot be read at the moment';
      throw new GatewayError('NOT_SENT', text, { retryable: true, retryAfterMs: RETRY_MS, cause });
    }
  }

  close(): Promise<void> {
    this.#resealing.close();
    for (const counts of Object.values(this.#counts)) counts.close();
    return this.#table.close();
  }

  #announce(record: TaskRecord): void {
    const value = this.#bytesOf(record);
    if (value !== null) this.#table.put(record.key, value);
  }

  /** Returns null for a record that stays at this node. */
  #bytesOf(record: TaskRecord): Buffer | null {
    // The session of the task is a pipe or stream of this process.
    if (record.passing === true) return null;
    const value = this.#sealed(shortened(record));
    if (value.length <= MAX_RECORD_BYTES) return value;
    // The description by the server may be too long for the store.
    this.#deps.logger.warn('task_not_shared', { server: record.server, bytes: value.length });
    return null;
  }

  #sealed(record: TaskRecord): Buffer {
    const text = serialize({ format: FORMAT, record } satisfies Written).toString('base64');
    return Buffer.from(this.#deps.sealing.seal(contextOf(record.key), text));
  }

  received({ key, value }: StateRecord, again: boolean): void {
    const record = this.#read(key, value);
    if (record?.key !== key) return;
    this.#observer?.received(record);
    const known = again ? (this.#observer?.get(key) ?? null) : null;
    if (known !== null && mergedTask(record, shortened(known)) !== record) this.#announce(known);
  }

  gone(key: string): void {
    // Any node may delete the record; the node that began the task must not keep its copy.
    this.#deps.own.delete(key);
    this.#observer?.removed(key);
  }

  recall(key: string, lost: boolean): Buffer | null {
    const record = this.#observer?.get(key) ?? null;
    if (record !== null && (lost || this.#observer?.mustKeep(key))) return this.#bytesOf(record);
    if (record !== null) this.#observer?.removed(key);
    this.#deps.own.delete(key);
    return null;
  }

  /** Joins both versions: the other node may know the end or the answer of the task. */
  merged(key: string, value: Buffer, there: Buffer): Buffer {
    const [ours, theirs] = [this.#read(key, value), this.#read(key, there)];
    if (ours === null || theirs === null) return value;
    const joined = mergedTask(ours, theirs);
    if (joined === ours) return value;
    const whole = this.#sealed(joined);
    return whole.length <= MAX_RECORD_BYTES ? whole : there;
  }

  #read(key: string, value: Buffer): TaskRecord | null {
    const text = this.#deps.sealing.open(contextOf(key), value.toString());
    if (text === null) return null;
    try {
      const { format, record } = deserialize(Buffer.from(text, 'base64')) as Written;
      if (format !== FORMAT) return null;
      const answer = record.answer === null ? null : { ...record.answer, body: Buffer.from(record.answer.body) };
      return { ...record, description: Buffer.from(record.description), answer };
    } catch {
      return null;
    }
  }
}

function shortened(record: TaskRecord): TaskRecord {
  const { answer } = record;
  return answer === null || answer.body.length <= MAX_ANSWER_BYTES ? record : { ...record, answer: null };
}

function contextOf(key: string): string {
  return `task ${key}`;
}
