import type { Downstream } from '../../downstream/downstream.ts';
import { OPERATOR } from '../../model/client-profile.ts';
import { serverEndpoint } from '../../model/exchange.ts';
import type { Difference, Replay, ReplayOptions } from '../../model/recordings.ts';
import { PROTOCOL_VERSION_KEY } from '../../protocol/meta-keys.ts';
import { type LocalClient, localClient, MAX_INPUT_ROUNDS } from '../local-client.ts';
import {
  type Conversation,
  inputRequests,
  type RecordedAsk,
  readConversations,
  type ShownList,
  type Step,
} from './conversation.ts';
import { differences, VOLATILE } from './differences.ts';
import { type ExactJson, type ExactObject, memberOf, parseExact, textOf } from './exact-json.ts';

const LISTENS = 'subscriptions/listen';
const STOPPED: ExactObject = { error: { message: 'the replay has ended' } };
/** Limit of pages; an endless list is a fault of the server. */
const MAX_PAGES = 1_000;

/**
 * Sends the recorded requests of one server to a server of this gateway: each session over its own wire as the operator, one
 * request after the other. Compares the answers, and answers requests of the server as recorded. Resolves with a text if
 * nothing can be replayed. Sends nothing more after `gone`.
 */
export async function replay(
  jsonl: string,
  { server, of, ignore }: ReplayOptions,
  { downstream }: { readonly downstream: Downstream },
  gone: AbortSignal,
): Promise<Replay | string> {
  const read = readConversations(jsonl, of);
  if (typeof read === 'string') return read;
  const found: Difference[] = [];
  const skipped: string[] = [];
  let replayed = 0;
  for (const conversation of read.conversations) {
    if (gone.aborted) break;
    const wire = new ReplayWire(downstream, server, conversation);
    const stop = (): void => wire.close();
    gone.addEventListener('abort', stop, { once: true });
    try {
      const replaying = new Replaying(conversation, wire, [...VOLATILE, ...ignore]);
      await replaying.run();
      replayed += replaying.sent;
      found.push(...replaying.found);
      skipped.push(...replaying.skipped);
    } finally {
      gone.removeEventListener('abort', stop);
      wire.close();
    }
  }
  return { server, replayed, skipped, differences: found };
}

class Replaying {
  sent = 0;
  readonly found: Difference[] = [];
  readonly skipped: string[] = [];
  readonly #conversation: Conversation;
  readonly #wire: ReplayWire;
  readonly #ignored: readonly string[];
  /** Recorded ids of tasks and cursors of pages, with those of now. */
  readonly #renamed = new Map<string, string>();

  constructor(conversation: Conversation, wire: ReplayWire, ignored: readonly string[]) {
    this.#conversation = conversation;
    this.#wire = wire;
    this.#ignored = ignored;
  }

  async run(): Promise<void> {
    const { initialize, steps, asks, shown } = this.#conversation;
    // Client and server may have different eras; one wire serves both.
    if (!isStateless(this.#conversation) || shown.some(({ meta }) => meta === undefined)) {
      const answer = await this.#wire.introduce(this.#conversation);
      if (initialize !== null && shown.length === 0)
        this.#compare({ number: 0, title: 'initialize' }, initialize, answer);
    }
    for (const list of shown) await this.#compareList(list);
    for (const step of steps) {
      if (this.#wire.closed) return;
      await this.#step(step);
    }
    const unasked = asks.filter((ask) => ask.answer !== null && !this.#wire.asked.has(ask) && ask.method !== ROOTS);
    for (const { method } of unasked) {
      this.found.push({ step: 0, request: method, path: '$', before: '"asked"', after: null });
    }
    for (const { method, params } of this.#wire.unknown) {
      this.found.push({ step: 0, request: method, path: '$', before: null, after: JSON.stringify(params) });
    }
  }

  async #step(step: Step): Promise<void> {
    const why = skipReason(step);
    if (why !== null) {
      this.skipped.push(`${step.number} ${step.title}: ${why}`);
      return;
    }
    const params = this.#withNewNames(step.request['params']);
    this.#compare(step, step.answer!, await this.#wire.ask(step.method, params));
    for (const ask of this.#wire.takeChanged())
      this.#compare({ number: step.number, title: ask.method }, ask.before, ask.after);
  }

  #withNewNames(params: ExactJson | undefined): ExactJson | undefined {
    if (params === undefined || this.#renamed.size === 0) return params;
    let text = JSON.stringify(params);
    for (const [then, now] of this.#renamed) text = text.replaceAll(JSON.stringify(then), JSON.stringify(now));
    return parseExact(text);
  }

  #compare({ number, title }: Pick<Step, 'number' | 'title'>, before: ExactObject, after: ExactObject): void {
    this.sent++;
    for (const path of [
      ['result', 'task', 'taskId'],
      ['result', 'taskId'],
      ['result', 'nextCursor'],
    ]) {
      const [then, now] = [textOf(memberOf(before, ...path)), textOf(memberOf(after, ...path))];
      if (then !== null && now !== null) this.#renamed.set(then, now);
    }
    for (const place of differences(bodyOf(before), bodyOf(after), this.#ignored)) {
      this.found.push({ step: number, request: title, ...place });
    }
  }

  /** Compares all pages of a list with the recorded ones. */
  async #compareList({ list: { method, resultKey, itemKey }, items, ambiguous, meta }: ShownList): Promise<void> {
    const after: ExactJson[] = [];
    let cursor: string | null = null;
    for (let page = 0; page === 0 || cursor !== null; page++) {
      if (page === MAX_PAGES) {
        const endless = JSON.stringify(`there are more than ${MAX_PAGES} pages`);
        this.found.push({ step: 0, request: method, path: '$.result.nextCursor', before: null, after: endless });
        return;
      }
      const params = { ...(cursor === null ? {} : { cursor }), ...(meta === undefined ? {} : { _meta: meta }) };
      const answer: ExactObject = await this.#wire.ask(method, params);
      const listed = memberOf(answer, 'result', resultKey);
      if (Array.isArray(listed)) after.push(...(listed as ExactJson[]));
      cursor = textOf(memberOf(answer, 'result', 'nextCursor'));
    }
    const now = new Set(after.map((item) => memberOf(item, itemKey)));
    const before = [...items, ...ambiguous.filter((item) => now.has(item[itemKey]))];
    const title = { number: 0, title: method };
    this.#compare(title, { result: { [resultKey]: before } }, { result: { [resultKey]: after } });
  }
}

/** Servers request roots at any time, so that a missing request is no difference. */
const ROOTS = 'roots/list';

export function isStateless({ steps }: Conversation): boolean {
  return steps.some(({ request }) => memberOf(request, 'params', '_meta', PROTOCOL_VERSION_KEY) !== undefined);
}

/** Returns why the request is not replayed; null if it is. */
export function skipReason({ method, answer }: Step): string | null {
  if (method === LISTENS) return 'it listens until it is ended';
  if (method.startsWith('tasks/') && method !== 'tasks/result') return 'the state of a task depends on the time';
  if (answer === null) return 'it was not answered';
  return null;
}

export function bodyOf({ result, error }: ExactObject): ExactObject {
  return error === undefined ? { result } : { error };
}

/** Returns a text if the message is invalid. */
function readAnswer(line: string): ExactObject | string {
  try {
    return parseExact(line) as ExactObject;
  } catch (error) {
    return `the server's message is ${(error as Error).message}`;
  }
}

/** A client on a pair of pipes in this process that answers requests of the server as the recorded client did. */
class ReplayWire {
  /** Nothing is sent or answered any more. */
  closed = false;
  /** Recorded requests that the server has made again, and requests that are not in the recording. */
  readonly asked = new Set<RecordedAsk>();
  readonly unknown: { readonly method: string; readonly params: ExactJson }[] = [];
  readonly #client: LocalClient;
  readonly #open = new Map<number, (answer: ExactObject) => void>();
  readonly #asks: readonly RecordedAsk[];
  /** Requests that the recorded client got for any of its servers. */
  readonly #elsewhere: readonly RecordedAsk[];
  #changed: { readonly method: string; readonly before: ExactObject; readonly after: ExactObject }[] = [];
  #count = 0;

  constructor(downstream: Downstream, server: string, { asks, elsewhere }: Conversation) {
    this.#asks = asks;
    this.#elsewhere = elsewhere;
    const received = (line: string): void => this.#message(readAnswer(line));
    this.#client = localClient(downstream, OPERATOR, serverEndpoint(server), received);
    void this.#client.closed.then(() => {
      this.closed = true;
      for (const answered of this.#open.values()) answered(STOPPED);
    });
  }

  /** Begins a session, as the recorded client did. */
  async introduce({ revision, capabilities, client }: Conversation): Promise<ExactObject> {
    const clientInfo = client ?? { name: 'trunkline-replay', version: '1' };
    const answer = await this.ask('initialize', { protocolVersion: revision, capabilities, clientInfo });
    this.send({ method: 'notifications/initialized' });
    return answer;
  }

  send(message: ExactObject): void {
    this.#client.send(JSON.stringify({ jsonrpc: '2.0', ...message }));
  }

  /** Resolves with the answer after the rounds of input that the server requests; after too many, with its last request. */
  async ask(method: string, params: ExactJson | undefined, rounds = MAX_INPUT_ROUNDS): Promise<ExactObject> {
    if (this.closed) return STOPPED;
    const id = ++this.#count;
    const answered = new Promise<ExactObject>((resolve) => this.#open.set(id, resolve));
    this.send({ id: id as unknown as ExactJson, method, params });
    const answer = await answered;
    const wanted = inputRequests(answer);
    if (wanted.size === 0 || rounds === 0) return answer;
    const inputResponses: Record<string, ExactJson | undefined> = {};
    for (const [key, one] of wanted) inputResponses[key] = memberOf(this.#answerTo(one.method, one.params), 'result');
    // The call cannot continue without a recorded answer.
    if (Object.values(inputResponses).includes(undefined)) return answer;
    const state = memberOf(answer, 'result', 'requestState');
    return this.ask(method, { ...(params as ExactObject), inputResponses, requestState: state }, rounds - 1);
  }

  /** Returns the server's requests since the last call of this method, as recorded and as they are now. */
  takeChanged(): readonly { readonly method: string; readonly before: ExactObject; readonly after: ExactObject }[] {
    const changed = this.#changed;
    this.#changed = [];
    return changed;
  }

  close(): void {
    this.closed = true;
    this.#client.close();
  }

  #message(message: ExactObject | string): void {
    if (typeof message === 'string') {
      // One request at a time is open.
      for (const answered of this.#open.values()) answered({ error: { message } });
      this.#open.clear();
      return;
    }
    const { id, method } = message;
    if (id === undefined) return;
    if (typeof method !== 'string') {
      const number = Number(JSON.stringify(id));
      this.#open.get(number)?.(message);
      this.#open.delete(number);
    } else this.send({ id, ...this.#answerTo(method, message['params'] ?? null) });
  }

  /** Returns the recorded answer to the same request, else to the next one with this method. */
  #answerTo(method: string, params: ExactJson): ExactObject {
    const text = JSON.stringify(params);
    const left = this.#asks.filter((ask) => ask.method === method && !this.asked.has(ask));
    const ask = left.find((one) => JSON.stringify(one.params) === text) ?? left[0];
    if (ask === undefined || ask.answer === null) {
      const others = this.#asks.some((one) => one.method === method) ? [] : this.#elsewhere;
      const other = others.find((one) => one.method === method && one.answer !== null);
      if (other?.answer != null) return bodyOf(other.answer);
      if (method !== ROOTS) this.unknown.push({ method, params });
      return { error: { code: -32601 as unknown as ExactJson, message: 'this was not asked in the recording' } };
    }
    this.asked.add(ask);
    this.#changed.push({ method, before: { result: ask.params }, after: { result: params } });
    return bodyOf(ask.answer);
  }
}
