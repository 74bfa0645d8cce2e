import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import { type Clock, withTimeout } from '../../model/clock.ts';
import { Counts } from '../../model/counts.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { isTerminal } from '../../model/task-status.ts';
import { bodyLexeme, withRelatedTask } from '../../protocol/body.ts';
import { declares } from '../../protocol/client-capabilities.ts';
import type { Range } from '../../protocol/fields.ts';
import { isInputRequest, MAX_INPUT_REQUESTS } from '../../protocol/stateless/input-required.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import { OpenQuestions } from '../open-questions.ts';
import { OwnExchange } from '../own-exchange.ts';
import { composed, starterOf } from './task-calls.ts';
import type { TaskTable } from './task-table.ts';
import { endedBy, isSettled } from './task-views.ts';

/** How long `tasks/get` waits for an input request or the answer before it reports the task as working. */
const PATIENCE_MS = 2_000;
/** Open streams for the tasks of one principal, and of all; beyond that, a task shows no input requests. */
const MAX_OF_PRINCIPAL = 250;
const MAX_STREAMS = 1_000;
/** Input requests that wait for the client of one stream. */
const MAX_QUESTION_BYTES = 16 * 1024 * 1024;

interface ResultStreamsDeps {
  readonly dispatch: Dispatch;
  readonly clock: Clock;
  readonly random: Random;
  readonly table: TaskTable;
}

/**
 * The gateway's `tasks/result` streams at stateful servers: one per task that waits for input or whose answer is needed, opened
 * when its client asks for the task (decision 017).
 */
export class ResultStreams {
  readonly #deps: ResultStreamsDeps;
  readonly #streams = new Map<string, ResultStream>();
  /** The number of streams by principal. */
  readonly #counts = new Counts();

  constructor(deps: ResultStreamsDeps) {
    this.#deps = deps;
  }

  of({ key }: TaskRecord): ResultStream | null {
    return this.#streams.get(key) ?? null;
  }

  /** The task's stream, opened if necessary; null if there are too many. */
  open(record: TaskRecord, principal: Principal): ResultStream | null {
    const open = this.#streams.get(record.key);
    if (open !== undefined) return open;
    if (this.#counts.of(record.principal) >= MAX_OF_PRINCIPAL || this.#streams.size >= MAX_STREAMS) return null;
    const starter = starterOf(record, principal);
    const asked = composed(record, starter, 'tasks/result');
    const { random, dispatch, table } = this.#deps;
    const stream = new ResultStream(`task:${record.key.slice(0, 8)}`, asked, starter, record.taskId, random.hex(4));
    this.#streams.set(record.key, stream);
    this.#counts.add(record.principal, 1);
    const release = table.keep(record.key);
    void dispatch
      .callServer(record.server, asked, stream)
      .then((outcome) => this.#ended(record, stream, outcome))
      .finally(release);
    return stream;
  }

  /** Waits a moment for an input request or the answer. Resolves with the current record. */
  async awaitUpdate(record: TaskRecord, principal: Principal): Promise<TaskRecord> {
    const stream = this.open(record, principal);
    if (stream !== null && stream.questions === null && stream.isOpen) {
      await withTimeout(this.#deps.clock, PATIENCE_MS, stream.nextChange, () => {});
    }
    return this.#deps.table.get(record.key) ?? record;
  }

  close(record: Pick<TaskRecord, 'key'>, reason: string): void {
    this.#streams.get(record.key)?.cancel(reason);
  }

  closeAll(): void {
    for (const stream of [...this.#streams.values()]) stream.cancel('the gateway stops');
  }

  #ended(record: TaskRecord, stream: ResultStream, outcome: Outcome): void {
    this.#streams.delete(record.key);
    this.#counts.add(record.principal, -1);
    const { table } = this.#deps;
    const now = table.get(record.key);
    if (now !== null && outcome.kind === 'answer' && !isSettled(now)) {
      const { message } = outcome;
      // An error may concern the request and not the task: it counts only if the task has ended.
      if (message.kind === 'result' || isTerminal(now.status)) table.update(now, endedBy(now, message));
    }
    stream.ended();
  }
}

/**
 * The gateway's own `tasks/result` at a stateful server for a stateless client: `tasks/get` shows the server's input requests,
 * and `tasks/update` answers them.
 */
class ResultStream extends OwnExchange {
  readonly #taskId: string;
  readonly #questions: OpenQuestions;
  #nextChange = Promise.withResolvers<void>();
  #open = true;

  /** `prefix`: makes keys that no earlier stream of the task has used. */
  constructor(id: string, request: Message, client: ClientProfile, taskId: string, prefix: string) {
    super(id, request, client);
    this.#taskId = taskId;
    this.#questions = new OpenQuestions(`${prefix}-`);
  }

  get isOpen(): boolean {
    return this.#open;
  }

  /** All open input requests as the object `inputRequests`; null without any. */
  get questions(): Buffer | null {
    return this.#questions.size === 0 ? null : this.#questions.asJson();
  }

  /** Only the cancellation of an input request matters; other notifications are dropped. */
  override emit(notification: Message): void {
    if (notification.method !== 'notifications/cancelled') return;
    this.#questions.cancel(bodyLexeme(notification, 'requestId') ?? '');
  }

  override ask(asked: Message): Promise<Message> {
    const { method } = asked;
    if (!isInputRequest(method) || !declares(this.client.capabilities, asked)) {
      return Promise.reject(new GatewayError('MISSING_CAPABILITY', `the client cannot be asked for ${method}`));
    }
    const bytes = this.#questions.bytes + asked.bytes.length;
    if (!this.#open || this.#questions.size >= MAX_INPUT_REQUESTS || bytes > MAX_QUESTION_BYTES) {
      return Promise.reject(new GatewayError('OVERLOADED', 'too many requests wait for an answer of the client'));
    }
    const answered = this.#questions.ask(withRelatedTask(asked, null));
    this.#wake();
    return answered.then((given) => withRelatedTask(given, this.#taskId));
  }

  /** Takes the client's answers, in an object by key; ignores those to requests that are not open. */
  answer(bytes: Buffer, responses: Range): void {
    this.#questions.take(bytes, responses);
  }

  /** Resolves when the server sends another input request, or when the stream has ended. */
  get nextChange(): Promise<void> {
    return this.#nextChange.promise;
  }

  /** The server has answered, or can no longer answer. */
  ended(): void {
    this.#open = false;
    this.#questions.end(new GatewayError('CANCELLED', 'no client waits for the task of this request'));
    this.#wake();
  }

  #wake(): void {
    this.#nextChange.resolve();
    this.#nextChange = Promise.withResolvers();
  }
}
