import type { Principal } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { isTerminal } from '../../model/task-status.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import { ResultStream } from './result-stream.ts';
import { isSettled } from './task-answers.ts';
import { composed, starterOf } from './task-calls.ts';
import { endedBy } from './task-news.ts';
import type { TaskTable } from './task-table.ts';

/** How long `tasks/get` waits for the server's questions, or its answer, before it says that the task is at work. */
const PATIENCE_MS = 2_000;
/** Streams that may be open at once for the tasks of one principal, and of all; beyond, a task shows no questions. */
const MAX_OF_PRINCIPAL = 250;
const MAX_STREAMS = 1_000;

export interface ResultStreamsDeps {
  readonly dispatch: Dispatch;
  readonly clock: Clock;
  readonly random: Random;
  readonly table: TaskTable;
}

/**
 * The `tasks/result` streams of ours at stateful servers: one per task that waits for input or whose answer is to be
 * fetched, opened when its client asks after it (decision 017).
 */
export class ResultStreams {
  readonly #deps: ResultStreamsDeps;
  readonly #streams = new Map<string, ResultStream>();
  /** How many of them by principal. */
  readonly #counts = new Map<string, number>();

  constructor(deps: ResultStreamsDeps) {
    this.#deps = deps;
  }

  of({ key }: TaskRecord): ResultStream | null {
    return this.#streams.get(key) ?? null;
  }

  /** The task's stream, opened if need be; null when there are too many. */
  open(record: TaskRecord, principal: Principal): ResultStream | null {
    const open = this.#streams.get(record.key);
    if (open !== undefined) return open;
    const own = this.#counts.get(record.principal) ?? 0;
    if (own >= MAX_OF_PRINCIPAL || this.#streams.size >= MAX_STREAMS) return null;
    const starter = starterOf(record, principal);
    const asked = composed(record, starter, 'tasks/result', '');
    const { random, dispatch } = this.#deps;
    const stream = new ResultStream(`task:${record.key.slice(0, 8)}`, asked, starter, record.taskId, random.hex(4));
    this.#streams.set(record.key, stream);
    this.#counts.set(record.principal, own + 1);
    void dispatch.callServer(record.server, asked, stream).then((outcome) => this.#ended(record, stream, outcome));
    return stream;
  }

  /** Waits till there is a question or the answer, for a moment. Resolves with the record as it is then. */
  async heard(record: TaskRecord, principal: Principal): Promise<TaskRecord> {
    const stream = this.open(record, principal);
    if (stream !== null && stream.questions === null && stream.isOpen) {
      await new Promise<void>((resolve) => {
        const disarm = this.#deps.clock.after(PATIENCE_MS, () => {
          forget();
          resolve();
        });
        const forget = stream.whenHeard(() => {
          disarm();
          resolve();
        });
      });
    }
    return this.#deps.table.get(record.key) ?? record;
  }

  /** A request of the server's that came elsewhere than on the stream; null when the task is not one that is held so. */
  asked(record: TaskRecord, principal: Principal, message: Message): Promise<Message> | null {
    return this.open(record, principal)?.ask(message) ?? null;
  }

  close(record: Pick<TaskRecord, 'key'>, reason: string): void {
    this.#streams.get(record.key)?.cancel(reason);
  }

  closeAll(): void {
    for (const stream of [...this.#streams.values()]) stream.cancel('the gateway stops');
  }

  #ended(record: TaskRecord, stream: ResultStream, outcome: Outcome): void {
    this.#streams.delete(record.key);
    const left = this.#counts.get(record.principal)! - 1;
    if (left === 0) this.#counts.delete(record.principal);
    else this.#counts.set(record.principal, left);
    const { table } = this.#deps;
    const now = table.get(record.key);
    if (now !== null && outcome.kind === 'answer' && !isSettled(now)) {
      const { message } = outcome;
      // An error may be of the request and not of the task: only a task that has failed is known by it.
      if (message.kind === 'result' || isTerminal(now.status)) table.update(now, endedBy(now, message));
    }
    stream.ended();
  }
}
