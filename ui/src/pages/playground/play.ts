import { signal } from '@preact/signals';
import { answerPlay, type Play, type PlayEnd, type PlayQuestion, play } from '../../api/operations.ts';
import type { Json, JsonObject } from './exact-json.ts';

/** A message of the protocol. */
export interface Wire {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: JsonObject;
  readonly result?: JsonObject;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: JsonObject };
}

export interface PlayedStep {
  readonly ms: number;
  readonly run?: string;
  readonly sent?: Wire;
  readonly received?: Wire;
  readonly question?: PlayQuestion;
  readonly done?: PlayEnd;
}

/** Which client calls, and where it is connected. */
export interface Caller {
  readonly server: string | null;
  readonly principal: string | null;
  readonly revision: string;
  readonly node: string | null;
}

export interface PlayRequest extends Caller {
  readonly method: string;
  readonly params: JsonObject;
}

/** Messages that are kept of one call, so that a server that talks much does not fill the page. */
const KEPT_STEPS = 2_000;

/** One call of the playground, as it goes on. */
export class PlayedRun {
  readonly request: PlayRequest;
  /** What the page showed when it began. */
  readonly view: string;
  readonly steps = signal<readonly PlayedStep[]>([]);
  /** What waits for an answer of the person. */
  readonly questions = signal<readonly PlayQuestion[]>([]);
  readonly progress = signal<{ readonly progress?: number; readonly total?: number; readonly message?: string } | null>(
    null,
  );
  /** The answer, once it is there. */
  readonly answer = signal<Wire | null>(null);
  readonly end = signal<(PlayEnd & { readonly ms: number }) | null>(null);
  /** Why the gateway did not take the call, or did not go on with it. */
  readonly failure = signal<Error | null>(null);
  readonly #stream = new AbortController();
  #name = '';
  #callId: string | number | undefined;

  constructor(request: PlayRequest, view = '') {
    this.request = request;
    this.view = view;
  }

  get busy(): boolean {
    return this.end.value === null && this.failure.value === null;
  }

  /** Resolves when it has ended, however that was. */
  async run(): Promise<void> {
    const { node, method, params, server, principal, revision } = this.request;
    const body = { method, params, server, principal, revision } as Play;
    try {
      await play(
        { ...atNode(node), body },
        { signal: this.#stream.signal, onEvent: (step) => this.#take(step as PlayedStep) },
      );
      if (this.end.value === null)
        this.failure.value = new Error('The gateway ended the stream before the call had its answer');
    } catch (error) {
      if (this.end.value === null) this.failure.value = error as Error;
    }
  }

  async reply(
    question: PlayQuestion,
    answer: { readonly result: JsonObject } | { readonly error: JsonObject },
  ): Promise<void> {
    const body = { question: question.key, ...answer };
    const { taken } = await answerPlay({ name: this.#name, ...atNode(this.request.node), body });
    this.questions.value = this.questions.value.filter((one) => one !== question);
    if (!taken) throw new Error('The call does not wait for this answer any more');
  }

  /** Tells the server too. */
  async cancel(): Promise<void> {
    if (this.#name === '') this.#stream.abort();
    else
      await answerPlay({
        name: this.#name,
        ...atNode(this.request.node),
        body: { cancel: 'cancelled in the console' },
      });
  }

  /** The page does not want it any more: what is under way is cancelled. */
  leave(): void {
    if (this.busy) this.#stream.abort();
  }

  #take(step: PlayedStep): void {
    const { run, sent, received, question, done } = step;
    if (run !== undefined) this.#name = run;
    if (sent?.method === this.request.method) this.#callId = sent.id;
    if (question !== undefined) this.questions.value = [...this.questions.value, question];
    if (received?.method === 'notifications/progress') this.progress.value = received.params as { progress?: number };
    // An error that answers `initialize` ends the call before it is sent.
    const isAnswer =
      received?.method === undefined &&
      received?.id !== undefined &&
      (received.id === this.#callId || received.error !== undefined);
    if (isAnswer && received.result?.['resultType'] !== 'input_required') this.answer.value = received;
    if (done !== undefined) {
      this.questions.value = [];
      this.end.value = { ...done, ms: step.ms };
    } else if (run === undefined) this.steps.value = [...this.steps.value.slice(-KEPT_STEPS + 1), step];
  }
}

/**
 * A call whose answer the page needs for itself. Rejects where there is no result. No person sees its questions: the first
 * one cancels the call, as `gone` does.
 */
export async function askOnce(request: PlayRequest, gone?: AbortSignal): Promise<JsonObject> {
  const run = new PlayedRun(request);
  let asked: string | null = null;
  const leave = (): void => run.leave();
  const unsubscribe = run.questions.subscribe(([question]) => {
    if (question === undefined) return;
    asked = question.method;
    leave();
  });
  gone?.addEventListener('abort', leave);
  if (gone?.aborted === true) leave();
  try {
    await run.run();
  } finally {
    gone?.removeEventListener('abort', leave);
    unsubscribe();
  }
  const { value: answer } = run.answer;
  if (answer?.result !== undefined) return answer.result;
  if (asked !== null) throw new Error(`the server asks ${asked}, which this call cannot answer`);
  throw new Error(answer?.error?.message ?? run.end.value?.reason ?? run.failure.value?.message ?? 'no answer came');
}

/** All pages of a list, up to so many items. */
export async function listAll(
  caller: Caller,
  method: string,
  key: string,
  most = 2_000,
): Promise<readonly JsonObject[]> {
  const items: JsonObject[] = [];
  for (let cursor: Json; ; ) {
    const params: JsonObject = cursor === undefined ? {} : { cursor };
    const result = await askOnce({ ...caller, method, params });
    items.push(...((result[key] as readonly JsonObject[] | undefined) ?? []));
    cursor = result['nextCursor'];
    if (cursor === undefined || items.length >= most) return items;
  }
}

function atNode(node: string | null): { readonly node?: string } {
  return node === null ? {} : { node };
}
