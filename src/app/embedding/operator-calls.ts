import { answerMessage, notificationFor } from '../../downstream/session/answer-parts.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { LONGEST_TIMER_MS } from '../../model/clock.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { isObject } from '../../model/json-object.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { scanFailureText } from '../../protocol/classify.ts';
import { request } from '../../protocol/compose.ts';
import { field, text } from '../../protocol/fields.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';
import { outsideServers } from '../../upstream/error-boundary.ts';
import type { Operator } from '../operator.ts';
import type { Answer, Progress, ToolArguments } from './mcp-types.ts';
import { ServerError } from './server-error.ts';

export interface CallOptions {
  /** Cancels the request: it rejects with GatewayError CANCELLED, and the server gets a cancellation. */
  readonly signal?: AbortSignal;
  /** A timeout shorter than that of the server, which applies too. Rejects with GatewayError TIMEOUT. */
  readonly timeoutMs?: number;
  /** Called for every progress notification of this call. */
  readonly onProgress?: (progress: Progress) => void;
}

export interface Question {
  readonly endpoint: Endpoint;
  readonly method: string;
  /** JSON text. */
  readonly params: string;
  /** As in `Exchange`. */
  readonly fresh?: boolean;
}

/** Sends a request and resolves with the body of its result. Rejects with GatewayError or ServerError. */
export async function ask(operator: Operator, question: Question, options: CallOptions = {}): Promise<Buffer> {
  return resultOf(await send(operator, question, options), question);
}

/** Returns the body of a result. Throws GatewayError or ServerError for a failure. */
export function resultOf(outcome: Outcome, question: Question): Buffer {
  if (outcome.kind === 'failure') throw outcome.error;
  const message = toClientAnswer(question, outcome);
  if (message.kind === 'error') throw new ServerError(message.body.toString());
  return message.body;
}

/** As `ask`, but resolves with the answer that a client of the stateful revisions would get, failures included. */
export async function askAsClient(operator: Operator, question: Question, options: CallOptions = {}): Promise<Message> {
  return toClientAnswer(question, await send(operator, question, options));
}

/** Resolves with the outcome. Rejects only if it is cancelled before it begins. */
export async function send(
  operator: Operator,
  { endpoint, method, params, fresh }: Question,
  { signal, timeoutMs, onProgress }: CallOptions,
): Promise<Outcome> {
  signal?.throwIfAborted();
  const refused = refuseParams(method, params);
  if (refused !== null) return failure(refused);
  const emitted = onProgress === undefined ? undefined : progressTo(onProgress, operator.profile);
  const { exchange, outcome } = operator.send(endpoint, method, params, emitted, fresh);
  let expired = false;
  const expire = (): void => {
    expired = true;
    exchange.cancel('the deadline ran out');
  };
  const abort = (): void => exchange.cancel('the caller cancelled the call');
  const timer = timeoutMs === undefined ? undefined : setTimeout(expire, Math.min(timeoutMs, LONGEST_TIMER_MS));
  signal?.addEventListener('abort', abort, { once: true });
  try {
    const ended = await outcome;
    if (!expired || ended.kind !== 'failure' || ended.error.code !== 'CANCELLED') return ended;
    const reason = `${method} was not answered within ${timeoutMs} ms`;
    return failure(new GatewayError('TIMEOUT', reason, { ...ended.error.data, cause: ended.error }));
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}

/** Checks the parameters of a program by the same rules as those of a client: all parsers must read them alike. */
function refuseParams(method: string, params: string): GatewayError | null {
  const scanned = scanMessage(request(method, '1', params, 'stateful').bytes, 'stateful', 'strict');
  return isScanFailure(scanned) ? new GatewayError(scanned.code, scanFailureText(scanned)) : null;
}

function toClientAnswer({ endpoint, method, params }: Question, outcome: Outcome): Message {
  return answerMessage(request(method, '1', params, 'stateful'), endpoint, outcome);
}

function progressTo(onProgress: (progress: Progress) => void, profile: ClientProfile): (notification: Message) => void {
  return (notification) => {
    if (notification.method !== 'notifications/progress') return;
    const bytes = notificationFor('stateful', notification, profile);
    if (bytes === null) return;
    const { params } = JSON.parse(bytes.toString()) as { params: Progress };
    outsideServers(() => queueMicrotask(() => onProgress(params)));
  };
}

/** Limit of pages; an endless list is a fault of the server. */
const MAX_PAGES = 1_000;

export function parsed<T>(body: Buffer): Answer<T> {
  const raw = body.toString();
  return { ...(JSON.parse(raw) as T), raw };
}

/** Yields the bodies of all pages of a list. Throws GatewayError UPSTREAM_PROTOCOL if the pages do not end. */
export async function* pages(
  operator: Operator,
  question: Omit<Question, 'params'>,
  options?: CallOptions,
): AsyncGenerator<Buffer, void, undefined> {
  const seen = new Set<string>();
  for (let params = '{}'; ; ) {
    const body = await ask(operator, { ...question, params }, options);
    yield body;
    const cursor = field(body, 0, body.length, 'nextCursor');
    const next = cursor === null ? 'null' : text(body, cursor);
    if (next === 'null') return;
    if (seen.has(next) || seen.size === MAX_PAGES) {
      const { endpoint, method } = question;
      const data = endpoint.kind === 'server' ? { server: endpoint.server } : {};
      throw new GatewayError('UPSTREAM_PROTOCOL', `the pages of ${method} do not come to an end`, data);
    }
    seen.add(next);
    params = `{"cursor":${next}}`;
  }
}

export async function listAll<T>(
  operator: Operator,
  question: Omit<Question, 'params'>,
  key: string,
  options?: CallOptions,
): Promise<readonly T[]> {
  const items: T[] = [];
  for await (const body of pages(operator, question, options)) {
    const page = JSON.parse(body.toString()) as Record<string, readonly T[]>;
    items.push(...(page[key] ?? []));
  }
  return items;
}

/** Returns the arguments as JSON text; text stays unchanged. Throws GatewayError INVALID_PARAMS. */
function argumentsText(args: ToolArguments | undefined): string {
  if (args === undefined || args === null) return '{}';
  let value: unknown = args;
  try {
    if (typeof args === 'string') value = JSON.parse(args);
  } catch (cause) {
    throw new GatewayError('INVALID_PARAMS', 'the arguments are not JSON', { cause });
  }
  if (!isObject(value)) throw new GatewayError('INVALID_PARAMS', 'the arguments have to be one JSON object');
  return typeof args === 'string' ? args : JSON.stringify(args);
}

/** Returns the params of `tools/call`, with a progress token if the program wants progress. */
export function callParams(tool: string, args: ToolArguments | undefined, withProgress: boolean): string {
  const meta = withProgress ? ',"_meta":{"progressToken":1}' : '';
  return `{"name":${JSON.stringify(tool)},"arguments":${argumentsText(args)}${meta}}`;
}
