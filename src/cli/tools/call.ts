import { setTimeout as pause } from 'node:timers/promises';
import { isMap, isNode, isScalar, parseDocument } from 'yaml';
import type { ToolView } from '../../app/plane.ts';
import { suggest } from '../../config/problem/problem.ts';
import { isObject } from '../../model/json-object.ts';
import { printable } from '../../model/printable.ts';
import { isSettled } from '../../model/server-state.ts';
import {
  accessGateway,
  type CallProgress,
  type GatewayAccess,
  mayMean,
  type ShellCallOptions,
} from '../access/gateway-access.ts';
import type { CommandInput, Terminal } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode, noSuch, usage } from '../exit-code.ts';
import { abortedBySignals } from '../interrupted.ts';
import { type ShownServer, unlisted } from '../server-line.ts';

const START_MS = 60_000;
const LOOK_MS = 100;
/** After this time the command says what it waits for. */
const SAY_MS = 2_000;

export interface CallInput extends CommandInput {
  /** `server.tool`, or an exposed name. */
  readonly tool: string;
  readonly words: readonly string[];
  /** All arguments as one JSON object, instead of words. */
  readonly argumentsJson: string | null;
  /** For the start of its server and the call; null: the server's own limits. */
  readonly timeoutMs: number | null;
}

interface CallAnswer {
  readonly outcome: string;
  readonly result?: {
    readonly content?: readonly ContentBlock[];
    readonly structuredContent?: unknown;
    readonly isError?: boolean;
  };
  readonly error?: CallError;
}

interface CallError {
  readonly name?: string;
  readonly code: number;
  readonly message: string;
}

interface ContentBlock {
  readonly type: string;
  readonly text?: string;
  readonly mimeType?: string;
  readonly uri?: string;
}

/** `trunkline call server.tool key=value …`: prints the text of the result, or with --json the complete answer. */
export async function call(input: CallInput): Promise<ExitCode> {
  const { terminal, flags, timeoutMs } = input;
  const { tool: wanted, words, argumentsJson } = withArguments(input);
  if (argumentsJson !== null) checkObject(argumentsJson);
  const gateway = await accessGateway(input, wanted);
  const endMs = performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY);
  try {
    const tool = await find(wanted, gateway, endMs, flags.json === true ? null : terminal);
    const json = argumentsJson ?? argumentsFromWords(words, parameterTypes(tool.definition));
    const text = await untilInterrupted(input, endMs, (options) => gateway.call(tool.server, tool.name, json, options));
    const answer = JSON.parse(text) as CallAnswer;
    // What the server sent stays byte for byte.
    if (flags.json === true)
      terminal.out(`${JSON.stringify({ server: tool.server, tool: tool.name }).slice(0, -1)},${text.slice(1)}\n`);
    else if (answer.error !== undefined) terminal.err(`${failureText(answer.outcome, answer.error, tool)}\n`);
    else terminal.out(`${readable(answer.result)}\n`);
    return exitCode(answer);
  } finally {
    await gateway.close();
  }
}

/** Ctrl-C also cancels the call at its server; a second one ends this process. A terminal shows progress in place. */
async function untilInterrupted(
  { timeoutMs, flags, terminal }: CallInput,
  endMs: number,
  call: (options: ShellCallOptions) => Promise<string>,
): Promise<string> {
  const shows = process.stderr.isTTY === true && flags.json !== true;
  let shown = false;
  const onProgress = (progress: CallProgress): void => {
    shown = true;
    terminal.err(`\r\x1b[2K${progressText(progress).slice(0, (process.stderr.columns ?? 80) - 1)}`);
  };
  const leftMs = Math.max(1, Math.ceil(endMs - performance.now()));
  const options = { ...(timeoutMs === null ? {} : { timeoutMs: leftMs }), ...(shows ? { onProgress } : {}) };
  return abortedBySignals(async ({ signal }) => {
    try {
      return await call({ signal, ...options });
    } catch (error) {
      if (!signal.aborted) throw error;
      throw new CommandError(EXIT.toolError, 'cancelled; what the tool has done by then stays done', { cause: error });
    } finally {
      if (shown) terminal.err('\r\x1b[2K');
    }
  });
}

/** `3 of 10  30 %  message`, with control characters of the server escaped. */
function progressText({ progress, total, message = '' }: CallProgress): string {
  const share = total === undefined || !(total > 0) ? '' : `  ${Math.round((100 * (progress ?? 0)) / total)} %`;
  const steps = total === undefined ? `${progress ?? ''}` : `${progress ?? 0} of ${total}`;
  return printable(`${steps}${share}  ${message}`).replaceAll('\n', ' ');
}

function failureText(outcome: string, { name, message }: CallError, { server }: CalledTool): string {
  const kind = name === undefined || name === outcome ? outcome : `${outcome} (${name})`;
  const remedy = name === 'QUARANTINED' ? `; trunkline drift ${server} shows it, and how to approve it` : '';
  return printable(`${kind}: ${message}${remedy}`);
}

/** Also accepts one word that is a JSON object, and `server.tool(key: value, …)`, besides `--json` and words. */
export function withArguments({
  tool,
  words,
  argumentsJson,
}: Pick<CallInput, 'tool' | 'words' | 'argumentsJson'>): Pick<CallInput, 'tool' | 'words' | 'argumentsJson'> {
  const spelled = /^([^()]+)\(([\s\S]*)\)$/.exec(tool);
  const object = words.length === 1 && words[0]!.trimStart().startsWith('{') ? words[0]! : null;
  const ways = [argumentsJson !== null, spelled !== null, words.length > 0].filter(Boolean);
  if (ways.length > 1) throw usage('the arguments are given in two ways; use one of them');
  if (spelled === null && tool.includes('('))
    throw usage(`the bracket of ${tool} is not closed; put the whole in single quotes: 'server.tool(a: 1)'`);
  if (spelled !== null) return { tool: spelled[1]!.trim(), words: wordsIn(spelled[2]!), argumentsJson: null };
  return object === null ? { tool, words, argumentsJson } : { tool, words: [], argumentsJson: object };
}

/** `a: 1, b: text` as `key=value` words; numbers keep their digits. */
function wordsIn(text: string): string[] {
  const source = `{${text}}`;
  const { contents, errors } = parseDocument(source);
  if (errors.length > 0 || !isMap(contents)) {
    throw usage(`the arguments in brackets are not "key: value, …": ${text}`);
  }
  return contents.items.map(({ key, value }) => {
    const [start, end] = isNode(value) ? (value.range ?? [0, 0]) : [0, 0];
    const written = source.slice(start, end);
    if (isJson(written)) return `${key}:=${written}`;
    return isScalar(value)
      ? `${key}=${value.value}`
      : `${key}:=${JSON.stringify(isNode(value) ? value.toJSON() : value)}`;
  });
}

/**
 * Waits while a server starts that may have the tool: the named one, or any if only a tool is named. `endMs`: when the time of
 * --timeout is over. After two seconds it says so.
 */
async function startedTools(
  wanted: string,
  gateway: GatewayAccess,
  endMs: number,
  terminal: Terminal | null,
): Promise<readonly ToolView[]> {
  const startMs = performance.now();
  let said = terminal === null;
  for (const end = Math.min(startMs + START_MS, endMs); ; await pause(LOOK_MS)) {
    // In this order: the tools of a server that has started by now are listed.
    const statuses = await gateway.statuses();
    const tools = await gateway.tools(end);
    const starting = startingServers(wanted, statuses, tools);
    const meant = statuses.find(({ name }) => mayMean(wanted, name));
    if (performance.now() >= endMs) throw notInTime(wanted, meant ?? starting[0]);
    if (starting.length === 0 || performance.now() >= end) return tools;
    if (said || performance.now() < startMs + SAY_MS) continue;
    said = true;
    terminal?.err(`waiting for ${starting.map(({ name }) => name).join(', ')} to start\n`);
  }
}

/** Servers that may have the tool, and have listed none so far because they start. A word without a dot may be a tool of any. */
function startingServers(wanted: string, statuses: readonly ShownServer[], tools: readonly ToolView[]): ShownServer[] {
  if (tools.some(({ exposedName }) => exposedName === wanted)) return [];
  const meant = statuses.filter(({ name }) => mayMean(wanted, name));
  const possible = meant.length === 0 && !wanted.includes('.') ? statuses : meant;
  return possible.filter((status) => !isSettled(status) && !tools.some(({ server }) => server === status.name));
}

function notInTime(wanted: string, server: ShownServer | undefined): CommandError {
  const why = server === undefined ? '' : `: ${server.name} is ${server.state}`;
  const remedy = server === undefined ? '' : `, or try: trunkline doctor ${server.name}`;
  const text = `NOT_SENT: the time of --timeout was over before ${wanted} could be called${why}; allow more${remedy}`;
  return new CommandError(EXIT.unreachable, text);
}

/** The fields of a tool that a call needs. */
type CalledTool = Omit<ToolView, 'renamed' | 'bytes' | 'tokens' | 'lastUsed'>;

async function find(
  wanted: string,
  gateway: GatewayAccess,
  endMs: number,
  terminal: Terminal | null,
): Promise<CalledTool> {
  const tools = await startedTools(wanted, gateway, endMs, terminal);
  const exposed = tools.find((tool) => wanted === tool.exposedName);
  if (exposed !== undefined) return exposed;
  const found = tools.find((tool) => wanted === `${tool.server}.${tool.name}`);
  // Names of servers and tools may contain dots: `a.b.c` is a tool of `a` or of `a.b`.
  const statuses = await gateway.statuses();
  const spelled = statuses.filter(({ name }) => wanted.startsWith(`${name}.`));
  if (found !== undefined && spelled.length < 2) return found;
  if (found !== undefined) {
    const servers = spelled.map(({ name }) => name).join(' or ');
    const message = `"${wanted}" can mean a tool of ${servers}: call that of ${found.server} as ${found.exposedName}`;
    throw usage(message);
  }
  const server = spelled[0];
  const held = server === undefined ? null : await heldTool(wanted, server.name, gateway);
  if (held !== null) return held;
  if (server !== undefined && !tools.some((tool) => tool.server === server.name)) throw unlisted(server);
  const names = tools.map((tool) => `${tool.server}.${tool.name}`);
  const bare = suggest(
    wanted,
    tools.map(({ name }) => name),
  );
  const [own] = tools.filter((tool) => tool.name === bare || tool.server === wanted);
  if (own?.server === wanted)
    throw usage(`"${wanted}" is a server: name one of its tools, as in ${wanted}.${own.name}`);
  const [only, second] = tools.filter(({ name }) => name === wanted);
  const starting = startingServers(wanted, statuses, tools).map(({ name }) => name);
  // One of them may have a tool of that name as well.
  if (starting.length > 0) throw stillStarting(wanted, starting, only);
  if (only !== undefined && second === undefined) return only;
  if (own !== undefined && suggest(wanted, names) === null)
    throw usage(`there is no tool "${wanted}"; did you mean "${own.server}.${own.name}"?`);
  throw noSuch(`tool "${wanted}"`, wanted, names, '; trunkline tools lists them');
}

function stillStarting(wanted: string, servers: readonly string[], listed: ToolView | undefined): CommandError {
  const remedy =
    listed === undefined
      ? `try again, or: trunkline doctor ${servers[0]}`
      : `name the server too: trunkline call ${listed.server}.${listed.name}`;
  const text = `NOT_SENT: ${servers.join(', ')} may have the tool "${wanted}" and did not start in time`;
  return new CommandError(EXIT.unreachable, `${text}; ${remedy}`);
}

/** A tool that is withheld until it is approved; the answer to its call says so. */
async function heldTool(wanted: string, server: string, gateway: GatewayAccess): Promise<CalledTool | null> {
  const { waiting } = await gateway.drift(server);
  const name = wanted.slice(server.length + 1);
  const known = waiting.some(({ list, key }) => list === 'tools' && key === name);
  return known ? { server, name, exposedName: wanted, definition: '{}' } : null;
}

function parameterTypes(definition: string): ParameterTypes {
  return (JSON.parse(definition) as { inputSchema?: { properties?: ParameterTypes } }).inputSchema?.properties ?? {};
}

function checkObject(json: string): void {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    const words = `the arguments are not JSON: ${(error as Error).message}`;
    throw usage(`${words}; the shell takes them in single quotes: '{"key": "value"}', or write key=value`);
  }
  if (!isObject(value)) throw usage('the arguments have to be one JSON object, as {"key": "value"}');
}

function readable(result: CallAnswer['result']): string {
  const blocks = (result?.content ?? []).map(
    (block) => block.text ?? `[${block.type} ${block.mimeType ?? block.uri ?? ''}]`,
  );
  if (blocks.length > 0) return blocks.join('\n');
  return JSON.stringify(result?.structuredContent ?? result ?? {}, null, 2);
}

function exitCode({ outcome, result, error }: CallAnswer): ExitCode {
  if (outcome === 'NOT_SENT') return EXIT.unreachable;
  if (error?.name === 'AUTH_REQUIRED') return EXIT.authRequired;
  return error !== undefined || result?.isError === true || outcome !== 'RESULT' ? EXIT.toolError : EXIT.ok;
}

/** Parameter types in the schema of the tool. */
type ParameterTypes = Readonly<Record<string, { readonly type?: unknown }>>;

/**
 * The JSON text of a tool's arguments from `key=value` words. A value that is JSON stays as written, so
 * `id=12345678901234567890` keeps every digit; any other value, and each value whose schema says string, becomes a string.
 * `key:=json` requires JSON. Keys are not paths: `a.b=1` sets the key `a.b`.
 */
export function argumentsFromWords(words: readonly string[], types: ParameterTypes): string {
  const members = new Map<string, string>();
  for (const word of words) {
    const match = /^([^=:]+)(:?=)([\s\S]*)$/.exec(word);
    if (match === null) {
      throw usage(`argument "${word}" is not key=value; write for example: city=Berlin`);
    }
    const [, key = '', operator, value = ''] = match;
    if (members.has(key)) throw usage(`argument "${key}" is given twice; write it once, a list as ${key}:='[…]'`);
    const isText = types[key]?.type === 'string' || !isJson(value);
    members.set(key, operator === ':=' ? jsonOrFail(key, value) : isText ? JSON.stringify(value) : value);
  }
  return `{${[...members].map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`;
}

function jsonOrFail(key: string, value: string): string {
  if (!isJson(value)) throw usage(`the value of "${key}" is not JSON: ${value}; for text write ${key}=${value}`);
  return value;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
