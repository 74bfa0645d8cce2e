import { isWrapped } from '../../catalog/exposed-uris.ts';
import { TOOL_NAME_DELIMITER } from '../../model/names.ts';
import { MAX_REPLAY_BYTES } from '../../model/recordings.ts';
import { PROTOCOL_VERSION_KEY } from '../../protocol/meta-keys.ts';
import { type ListMethod, listMethod } from '../../protocol/methods.ts';
import { type ExactJson, type ExactObject, isExactObject, memberOf, parseExact, textOf } from './exact-json.ts';

/** A request with its last answer: after rounds of input, that of the last round. */
export interface Step {
  readonly number: number;
  readonly method: string;
  /** For example `tools/call echo`. */
  readonly title: string;
  readonly request: ExactObject;
  answer: ExactObject | null;
}

/** A request of the server to its client, and the answer: `{ result }` or `{ error }`. */
export interface RecordedAsk {
  readonly method: string;
  readonly params: ExactJson;
  answer: ExactObject | null;
}

/** The messages between one session and one server. */
export interface Conversation {
  readonly session: string;
  readonly revision: string;
  readonly capabilities: ExactJson;
  readonly client: ExactJson;
  /** The answer to `initialize`; null if the recording began later, or there was none. */
  initialize: ExactObject | null;
  readonly steps: Step[];
  readonly asks: RecordedAsk[];
  /** Requests on the client's wire, for any server: answers for requests that the recording does not assign to a session. */
  readonly elsewhere: RecordedAsk[];
  /** The last lists that the client got at the endpoint of all servers, with the items of this server. */
  shown: readonly ShownList[];
}

export interface ShownList {
  readonly list: ListMethod;
  /** Under the server's own names. */
  readonly items: readonly ExactObject[];
  /** Resources that may belong to another server; their URIs do not show it. */
  readonly ambiguous: readonly ExactObject[];
  /** `_meta` of the client's request; undefined in the stateful era. */
  readonly meta: ExactJson | undefined;
}

interface RecordedMessage {
  readonly wire: string;
  readonly from: string;
  readonly session: string | null;
  readonly endpoint?: string;
  readonly server?: string;
  readonly connection?: string;
  readonly exchange: string | null;
  readonly message: ExactObject;
}

type SessionHeader = Pick<Conversation, 'session' | 'revision' | 'capabilities' | 'client'>;

/**
 * Returns the conversations with one server in a recording; a text if there are none, or if `of` has to choose between servers.
 * It reads sessions at the server's own endpoint from the client's wire, and others from the server's wire.
 */
export function readConversations(
  jsonl: string,
  of: string | null,
): { readonly server: string; readonly conversations: readonly Conversation[] } | string {
  const read = readLines(jsonl);
  if (typeof read === 'string') return read;
  const { entries, headers } = read;
  const servers = [...new Set(entries.flatMap(({ server, endpoint }) => server ?? serverAt(endpoint) ?? []))];
  const server = of ?? (servers.length === 1 ? servers[0]! : null);
  if (server === null) {
    if (servers.length === 0) return 'no server was called in this recording';
    return `the recording is of several servers: say which one is meant (${servers.sort().join(', ')})`;
  }
  const conversations: Conversation[] = [];
  for (const header of headers) {
    const own = entries.filter(({ session }) => session === header.session);
    const conversation = conversationOf(header, own, server);
    if (conversation.steps.length > 0 || conversation.initialize !== null || conversation.shown.length > 0) {
      conversations.push(conversation);
    }
  }
  return conversations.length === 0 ? `nothing was sent to ${server} in this recording` : { server, conversations };
}

function conversationOf(header: SessionHeader, entries: readonly RecordedMessage[], server: string): Conversation {
  const client = entries.filter(({ wire }) => wire === 'client');
  const alone = client.filter(({ endpoint }) => serverAt(endpoint) === server);
  if (alone.length > 0) return collected(header, alone, 'client');
  const theirs = entries.filter((entry) => entry.wire === 'server' && entry.server === server);
  const conversation = collected(header, theirs, 'gateway');
  conversation.elsewhere.push(...collected(header, client, 'client').asks);
  conversation.shown = shownTo(client, server);
  return conversation;
}

/** `asker`: which side sent the requests on this wire. */
function collected(
  header: SessionHeader,
  entries: readonly RecordedMessage[],
  asker: 'client' | 'gateway',
): Conversation {
  const [steps, asks]: [Step[], RecordedAsk[]] = [[], []];
  const conversation: Conversation = { ...header, initialize: null, steps, asks, elsewhere: [], shown: [] };
  const open = new Map<string, Step | RecordedAsk>();
  for (const { from, message, connection = '', exchange } of entries) {
    const method = textOf(message['method']);
    const key = `${connection} ${JSON.stringify(message['id'])}`;
    if (message['id'] === undefined) continue;
    if (method === null) {
      const step = open.get(`${from === asker ? 'ask' : 'step'} ${key}`);
      if (step !== undefined) answered(conversation, step, message);
    } else if (from !== asker) {
      const ask = { method, params: message['params'] ?? null, answer: null };
      asks.push(ask);
      open.set(`ask ${key}`, ask);
    } else if (asker === 'client' || exchange !== null) {
      const before = continued(message, steps, asks);
      const step = before ?? stepOf(message, method, steps.length + 1);
      if (before === null) steps.push(step);
      open.set(`step ${key}`, step);
    }
  }
  return conversation;
}

function answered(conversation: Conversation, step: Step | RecordedAsk, message: ExactObject): void {
  if (!('request' in step)) {
    step.answer = message;
    return;
  }
  step.answer = message;
  const asked = inputRequests(message);
  for (const { method, params } of asked.values()) conversation.asks.push({ method, params, answer: null });
  if (step.method !== 'initialize') return;
  conversation.initialize = message;
  conversation.steps.splice(conversation.steps.indexOf(step), 1);
}

/** Returns the step that this request repeats with the input that the server requested (2026-07-28); null for a new one. */
function continued(message: ExactObject, steps: readonly Step[], asks: readonly RecordedAsk[]): Step | null {
  const [responses, state] = [
    memberOf(message, 'params', 'inputResponses'),
    memberOf(message, 'params', 'requestState'),
  ];
  if (responses === undefined && state === undefined) return null;
  const step = steps.findLast(
    ({ method, answer }) =>
      method === message['method'] &&
      memberOf(answer, 'result', 'resultType') === 'input_required' &&
      JSON.stringify(memberOf(answer, 'result', 'requestState')) === JSON.stringify(state),
  );
  if (step === undefined) return null;
  for (const [key, { method }] of inputRequests(step.answer)) {
    const ask = asks.find((one) => one.answer === null && one.method === method);
    const given = memberOf(responses, key);
    if (ask !== undefined && given !== undefined) ask.answer = { result: given };
  }
  return step;
}

/** Returns the requests in an `input_required` result, by key. */
export function inputRequests(answer: ExactObject | null): ReadonlyMap<string, { method: string; params: ExactJson }> {
  const asked = memberOf(answer, 'result', 'inputRequests');
  const found = new Map<string, { method: string; params: ExactJson }>();
  if (memberOf(answer, 'result', 'resultType') !== 'input_required' || !isExactObject(asked)) return found;
  for (const [key, one] of Object.entries(asked)) {
    found.set(key, { method: textOf(memberOf(one, 'method')) ?? '', params: memberOf(one, 'params') ?? null });
  }
  return found;
}

function stepOf(request: ExactObject, method: string, number: number): Step {
  const name = textOf(memberOf(request, 'params', 'name')) ?? textOf(memberOf(request, 'params', 'uri')) ?? '';
  return { number, method, title: `${method} ${name}`.trimEnd(), request, answer: null };
}

/** Leaves out lists in which a name was shortened or made unique. */
function shownTo(entries: readonly RecordedMessage[], server: string): readonly ShownList[] {
  const asked = new Map<string, Pick<ShownList, 'list' | 'meta'> & { readonly isFirst: boolean }>();
  const last = new Map<ListMethod, { readonly items: ExactObject[]; meta: ShownList['meta'] }>();
  for (const { from, message } of entries) {
    const id = JSON.stringify(message['id']);
    const list = listMethod(textOf(message['method']) ?? '');
    if (from === 'client' && list !== null) {
      const said = memberOf(message, 'params', '_meta');
      const meta = memberOf(said, PROTOCOL_VERSION_KEY) === undefined ? undefined : said;
      asked.set(id, { list, meta, isFirst: memberOf(message, 'params', 'cursor') === undefined });
    }
    const answered = from === 'gateway' && list === null ? asked.get(id) : undefined;
    const items = answered && memberOf(message, 'result', answered.list.resultKey);
    if (answered === undefined || !Array.isArray(items)) continue;
    asked.delete(id);
    const pages = answered.isFirst ? undefined : last.get(answered.list);
    last.set(answered.list, { items: [...(pages?.items ?? []), ...items.filter(isExactObject)], meta: answered.meta });
  }
  const prefix = server + TOOL_NAME_DELIMITER;
  const named = [...last].flatMap(([list, { items }]) =>
    list.itemKey === 'name' ? items.map(({ name }) => name) : [],
  );
  const isAlone = named.length > 0 && named.every((name) => textOf(name)?.startsWith(prefix));
  return [...last].flatMap(([list, { items, meta }]) => {
    const shown: ShownList & { items: ExactObject[]; ambiguous: ExactObject[] } = {
      list,
      meta,
      items: [],
      ambiguous: [],
    };
    for (const item of items) {
      const exposed = textOf(item[list.itemKey]) ?? '';
      const own = ownItem(item, server);
      if (list.itemKey === 'name') {
        if (!exposed.startsWith(prefix)) continue;
        if (/_[0-9a-f]{8}$/.test(exposed)) return [];
        shown.items.push({ ...own, name: exposed.slice(prefix.length) });
      } else if (own[list.itemKey] !== exposed) shown.items.push(own);
      else if (!isWrapped(exposed)) shown[isAlone ? 'items' : 'ambiguous'].push(own);
    }
    return shown.items.length + shown.ambiguous.length === 0 ? [] : [shown];
  });
}

/** Returns the item with the URIs that the server itself uses (decision 056). */
function ownItem(item: ExactObject, server: string): ExactObject {
  const text = JSON.stringify(item).replaceAll(`"trunkline://${server}/`, '"');
  return parseExact(text.replaceAll(`://trunkline/${server}/`, '://')) as ExactObject;
}

function serverAt(endpoint: string | null | undefined): string | null {
  return /^\/servers\/([^/]+)\/mcp$/.exec(endpoint ?? '')?.[1] ?? null;
}

function readLines(
  jsonl: string,
): { readonly entries: readonly RecordedMessage[]; readonly headers: readonly SessionHeader[] } | string {
  const entries: RecordedMessage[] = [];
  const headers = new Map<string, SessionHeader>();
  if (jsonl.length > MAX_REPLAY_BYTES) {
    return `the recording has ${jsonl.length} characters, more than ${MAX_REPLAY_BYTES}: record with lower limits`;
  }
  const [head = '', ...lines] = jsonl.split('\n');
  try {
    if (JSON.stringify(memberOf(parseExact(head), 'recording')) !== '1') return NO_RECORDING;
  } catch {
    return NO_RECORDING;
  }
  for (const [at, line] of lines.entries()) {
    if (line === '') continue;
    let read: ExactJson;
    try {
      read = parseExact(line);
    } catch (error) {
      // A process that was killed leaves a part of a line at the end.
      if (at === lines.length - 1) break;
      return `line ${at + 2} of the recording is no JSON: ${(error as Error).message}`;
    }
    const missing = memberOf(read, 'missing');
    if (Array.isArray(missing)) return `parts of the recording are missing: ${missing.join(', ')} did not answer`;
    const isEntry = memberOf(read, 'message') !== undefined;
    if (!isEntry && memberOf(read, 'capabilities') === undefined) continue;
    const fault = faultIn(read as ExactObject, isEntry ? TEXTS_OF_ENTRY : TEXTS_OF_INTRODUCTION);
    if (fault !== null) return `line ${at + 2} of the recording: ${fault}`;
    if (isEntry) entries.push(read as unknown as RecordedMessage);
    else headers.set((read as unknown as SessionHeader).session, read as unknown as SessionHeader);
  }
  return { entries, headers: [...headers.values()] };
}

/** Members that are texts; `?` marks those that may be null or missing. */
const TEXTS_OF_ENTRY = ['wire', 'from', 'session?', 'endpoint?', 'server?', 'connection?', 'exchange?'];
const TEXTS_OF_INTRODUCTION = ['session', 'revision'];

function faultIn(read: ExactObject, texts: readonly string[]): string | null {
  const { message } = read;
  if (message !== undefined && !isExactObject(message)) return 'message has to be a JSON object';
  for (const text of texts) {
    const name = text.replace('?', '');
    const isMissing = text !== name && (read[name] ?? null) === null;
    if (!isMissing && textOf(read[name]) === null) return `${name} has to be a text`;
  }
  return null;
}

const NO_RECORDING = 'this is no recording: its first line does not begin {"recording":1';
