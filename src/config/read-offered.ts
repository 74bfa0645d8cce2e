import type { CommandWord } from '../model/command-line.ts';
import type { ListenSettings } from '../model/desired-state.ts';
import { SERVER_NAME_PATTERN } from '../model/names.ts';
import { RUN_TIME, type Server } from '../model/server.ts';
import { parseServerCommandLine, type ServerCommandLine } from '../model/server-command-line.ts';
import { type ClientFormat, clientOf } from './client.ts';
import type { StoredSecrets } from './document/expand.ts';
import { declaredInputs } from './document/inputs.ts';
import { maskSecrets, maskText } from './document/mask-secrets.ts';
import {
  isString,
  type Member,
  member,
  type Node,
  type ObjectNode,
  plain,
  scalar,
  withTexts,
} from './document/node.ts';
import { parseSource } from './document/parse.ts';
import { NamedFiles } from './document/read-source.ts';
import {
  findDefinitions,
  foldersWithServers,
  isSetting,
  looksLikeServer,
  type RawDefinition,
} from './files/containers.ts';
import { type ConfigProblem, Problems, Source } from './problem/problem.ts';
import { type Need, needsOf, readsOf } from './server/definition-needs.ts';
import { derivedName } from './server/derived-name.ts';
import { isSelfReference } from './server/is-self-reference.ts';
import { type OfferedInput, offeredInputs } from './server/offered-inputs.ts';
import { readServer, serverContext } from './server/read-server.ts';
import { nameServers, serverNameOf } from './server/server-names.ts';
import { targetOf } from './server/target.ts';
import { toOwnFormat } from './server/to-own-format.ts';
import { secretNameOf, withoutSecrets } from './server/without-secrets.ts';

/** Text from which the user adds servers. */
export type Offer =
  /** A URL, or a command with its arguments. `name`: null to derive it from the words. */
  | { readonly command: string; readonly name: string | null }
  /**
   * The text of any client's file, of one of ours, or of a part of it. `name`: for a server without one. `values`: those of its
   * inputs, by id.
   */
  | {
      readonly document: string;
      readonly name?: string | null;
      readonly values?: Readonly<Record<string, string>>;
    };

interface OfferSources {
  /** Base of relative paths. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stored?: StoredSecrets | undefined;
  /** Address of this gateway: an entry for the gateway itself is left out. */
  readonly listen: Pick<ListenSettings, 'host' | 'port'>;
  /** Called with the needs of a definition, before reading what it refers to and afterwards. Throws to end the reading. */
  readonly mayRead: (name: string, needs: readonly Need[]) => void;
  /** Moves secrets out of the definitions, which get references to them. */
  readonly keepsSecrets?: boolean;
}

export interface OfferedServer {
  /** A run-time definition without the name. References are unexpanded. */
  readonly definition: Readonly<Record<string, unknown>>;
  /** Secrets to store before the definition is added, by the names that it refers to. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly server: Server;
}

export type OfferResult =
  | {
      readonly ok: true;
      readonly servers: readonly OfferedServer[];
      /** Inputs without a value: the servers that need one are left out. */
      readonly lacking: readonly OfferedInput[];
      readonly warnings: readonly ConfigProblem[];
    }
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] };

interface FoundDefinitions {
  readonly definitions: readonly RawDefinition[];
  /** Keys and references are Trunkline's. */
  readonly ours: boolean;
  readonly client: ClientFormat;
  /** The object that contains `inputs`. */
  readonly inputsOf: ObjectNode | null;
}

/**
 * The definitions in a text, each checked as if it were added, or all problems of the text. Problems have their place in the
 * text.
 */
export async function readOffered(offer: Offer, sources: OfferSources): Promise<OfferResult> {
  const { folder, env, stored, listen, mayRead, keepsSecrets } = sources;
  const problems = new Problems();
  const text = 'command' in offer ? offer.command : documentText(offer.document);
  const source = new Source(RUN_TIME, text);
  const found =
    'command' in offer
      ? fromCommand(offer.name, folder, source, problems)
      : await fromDocument(offer.name ?? null, source, problems);
  if (found === null) return { ok: false, problems: problems.errors };
  const document = { source, problems, env, stored, fileFolder: folder, folder, secrets: new Set<string>() };
  const declared = found.inputsOf === null ? new Map() : declaredInputs(found.inputsOf);
  const inputs = await offeredInputs(declared, text, env, 'command' in offer ? {} : (offer.values ?? {}));
  const context = { ...document, inputs: inputs.known, files: new NamedFiles() };
  const reading = serverContext({ ...context, client: clientOf(RUN_TIME, []), strict: true });
  const theirs = serverContext({ ...context, client: found.client, strict: false });
  const servers: OfferedServer[] = [];
  const lacking = new Map<string, OfferedInput>();
  for (const [written, name] of nameServers(found.definitions, found.ours, source, problems, new Map())) {
    const completed = { ...written, node: withTexts(written.node, inputs.complete) };
    const definition = found.ours ? completed : toOwnFormat({ ...completed, name }, theirs);
    if (definition === null) continue;
    const { node, path, nameSpan } = definition;
    if (node.kind === 'object') mayRead(name, readsOf(node));
    const missing = inputs.missing(node);
    for (const input of missing) {
      lacking.set(input.id, input);
      const message = `${path} is left out: its input ${JSON.stringify(input.id)} has no value`;
      const secret = secretNameOf(name, input.id);
      const fix = `fill it in, or write \${secret:${secret}} and: trunkline secret set ${secret}`;
      problems.warn('TL1204', source, nameSpan, message, fix);
    }
    if (missing.length > 0) continue;
    const server = readServer({ ...definition, node: withTexts(node, inputs.filled) }, name, reading);
    if (server === null || node.kind !== 'object') continue;
    if (isSelfReference(server.transport, listen)) {
      problems.warn('TL1414', source, nameSpan, `${path} is this gateway, and is left out`);
      continue;
    }
    mayRead(name, needsOf(node, server));
    const secrets = new Map<string, string>();
    const referring = plain(withTexts(node, (part) => inputs.referring(part, name, secrets))) as object;
    const kept = keepsSecrets === true ? withoutSecrets(name, referring, secrets) : referring;
    servers.push({ definition: kept as OfferedServer['definition'], secrets, server });
  }
  if (problems.failed) return { ok: false, problems: problems.errors };
  return { ok: true, servers, lacking: [...lacking.values()], warnings: problems.warnings };
}

/** The document without a Markdown fence, and in braces if it is a part of a map; blanks in place of the fence keep the lines. */
function documentText(given: string): string {
  const fence = /^[ \t]*(?:```|~~~)[^\n]*$/gm;
  const plainText = given.replace(/^\ufeff/, '');
  const text = /^\s*(?:```|~~~)/.test(plainText)
    ? plainText.replace(fence, (line) => ' '.repeat(line.length))
    : plainText;
  const isPart = /^\s*"[^"\n]*"\s*:\s*\{/.test(text) && /[},]\s*$/.test(text);
  return isPart ? `{${text}}` : text;
}

function fromCommand(
  given: string | null,
  folder: string,
  source: Source,
  problems: Problems,
): FoundDefinitions | null {
  maskText(source);
  const line = parseServerCommandLine(source.text);
  if ('complaint' in line) {
    problems.error('TL1101', source, line.span, line.complaint, line.fix);
    return null;
  }
  const { words } = line;
  const [first, ...rest] = words;
  if (first === undefined) {
    problems.error('TL1409', source, null, 'there is neither an address nor a command', 'write one of the two');
    return null;
  }
  const remote = line.type === null ? null : line.type.text !== 'stdio';
  const target = targetOf([first.text, ...rest.map(({ text }) => text)], remote, folder);
  if ('complaint' in target) {
    const { span } = words[target.at]!;
    problems.error('TL1408', source, span, target.complaint, target.fix);
    return null;
  }
  const name = given ?? line.name?.text ?? derivedName(words.map(({ text }) => text));
  if (name === null) {
    const message = 'the name of the server is missing, and an address has none';
    problems.error('TL1304', source, first.span, message, 'fill in the name');
    return null;
  }
  const nameSpan = given === null && line.name !== null ? line.name.span : null;
  if (!SERVER_NAME_PATTERN.test(name)) {
    const message = `${JSON.stringify(name)} cannot be the name of a server`;
    problems.error('TL1402', source, nameSpan, message, `write ${JSON.stringify(serverNameOf(name))}`);
    return null;
  }
  const node = definitionOf(line, 'url' in target, source, problems);
  if (node === null) return null;
  maskSecrets(source, node);
  const definition = { name, nameSpan: nameSpan ?? first.span, node, path: name };
  return { definitions: [definition], ours: true, client: clientOf(RUN_TIME, []), inputsOf: null };
}

function definitionOf(line: ServerCommandLine, isUrl: boolean, source: Source, problems: Problems): ObjectNode | null {
  const { env, headers, words, type, description } = line;
  const [wrong] = isUrl ? env : headers;
  if (wrong !== undefined) {
    const message = isUrl ? 'a url takes no variables' : 'a command takes no headers';
    const fix = isUrl ? 'write -H "Name: value"' : 'write -e NAME=value';
    problems.error('TL1306', source, wrong.span, message, fix);
    return null;
  }
  const span = { start: 0, end: source.text.length };
  const entry = (key: string, value: Node): Member => ({ key, keySpan: value.span, value });
  const map = (all: readonly CommandWord[], separator: string): ObjectNode => ({
    kind: 'object',
    span,
    members: all.map(({ text, span: at }) => {
      const cut = text.indexOf(separator);
      const value = cut < 0 ? `\${${text}}` : text.slice(cut + 1);
      return entry(cut < 0 ? text : text.slice(0, cut), scalar(separator === ':' ? value.trim() : value, at, text));
    }),
  });
  const [first, ...rest] = words.map((word) => scalar(word.text, word.span, word.text));
  const members = isUrl
    ? [entry('url', first!)]
    : [entry('command', first!), entry('args', { kind: 'array', span, items: rest })];
  for (const [key, word] of Object.entries({ type, description })) {
    if (word !== null) members.push(entry(key, scalar(word.text, word.span, word.text)));
  }
  if (env.length > 0) members.push(entry('env', map(env, '=')));
  if (headers.length > 0) members.push(entry('headers', map(headers, ':')));
  return { kind: 'object', span, members };
}

async function fromDocument(
  given: string | null,
  source: Source,
  problems: Problems,
): Promise<FoundDefinitions | null> {
  const root = await parseSource(source, problems);
  if (root === null) return null;
  // Without a folder: Claude Code's file has servers for single folders.
  const { definitions, ours, client, inputsOf } = findDefinitions(root, source, problems, '');
  const span = { start: root.span.start, end: root.span.start + 1 };
  for (const folder of foldersWithServers(root)) {
    problems.warn('TL1414', source, span, `the servers of the folder ${folder} are left out`);
  }
  if (definitions.length === 0 && looksLikeServer(root)) {
    const named = member(root, 'name');
    if (named !== undefined && isString(named.value)) {
      const node = { ...root, members: root.members.filter(({ key }) => key !== 'name') };
      const definition = { name: named.value.text, nameSpan: named.value.span, node, path: named.value.text };
      return { definitions: [definition], ours, client, inputsOf };
    }
    if (given !== null) {
      const definition = { name: given, nameSpan: span, node: root, path: given };
      return { definitions: [definition], ours, client, inputsOf };
    }
    problems.error('TL1304', source, span, 'the server has no name', 'fill in the name, or add the key "name"');
    return null;
  }
  if (definitions.length === 0 && !problems.failed)
    problems.error('TL1401', source, span, 'no servers are defined here');
  for (const { key, keySpan } of ours ? root.members.filter(({ key }) => isSetting(key)) : []) {
    problems.warn('TL1307', source, keySpan, `${key} has no effect here: only the servers are taken`);
  }
  return { definitions, ours, client, inputsOf };
}
