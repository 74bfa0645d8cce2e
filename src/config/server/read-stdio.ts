import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { ServerInput } from '../../../schema/config-input.d.ts';
import { Secret } from '../../model/secret.ts';
import type { RunAs, StdioSpec } from '../../model/server.ts';
import { isString, objectAt } from '../document/node.ts';
import { isReadFailure, type NamedFiles } from '../document/read-source.ts';
import type { WithDefaults } from '../document/shape.ts';
import { type Problems, Source, type TextSpan } from '../problem/problem.ts';
import { type FieldReader, isWord } from './field-reader.ts';
import { readSsh } from './read-ssh.ts';
import { warnOfPlaceholder } from './warn-of-placeholder.ts';

type RunAsInput = WithDefaults<NonNullable<ServerInput['runAs']>>;

const ENVIRONMENT_NAME = /^[^=\u0000]+$/;
/** Variable names that the shell of an SSH host accepts. */
const SHELL_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The process of a definition; null after a problem. */
export function readStdio(
  fields: FieldReader,
  { ssh: sshValues, runAs: runAsValues, inheritEnv }: Pick<WithDefaults<ServerInput>, 'ssh' | 'runAs' | 'inheritEnv'>,
): StdioSpec | null {
  fields.warnUseless(
    ['headers', 'http_headers', 'env_http_headers', 'bearer_token_env_var', 'tls', 'forwardHeaders', 'auth'],
    'on a stdio server',
  );
  const program = readProgram(fields);
  const args = fields.has('args') ? fields.words('args') : [];
  const env = readEnv(fields);
  const ssh = readSsh(fields, sshValues);
  const runAs = readRunAs(fields, runAsValues);
  const cwd = fields.has('cwd') ? fields.text('cwd') : ssh === null ? fields.context.folder : '';
  if (program === null || args === null || env === null || cwd === null || ssh === undefined) return null;
  const all = [...program.words.slice(1), ...args];
  const [named = ''] = program.words;
  for (const text of [named, ...all, cwd]) {
    if (!text.includes('\u0000')) continue;
    fields.error('TL1207', null, `${fields.path}: the command or an argument holds a NUL character`);
    return null;
  }
  warnOfShellWords(fields, named);
  // Paths of an SSH host are resolved there.
  const command = ssh === null ? fields.resolveCommand(named) : named;
  const [first = '', ...rest] = program.written;
  const written = { command: first === named ? command : first, args: [...rest, ...fields.writtenWords('args')] };
  return {
    type: 'stdio',
    command,
    args: all,
    ...(isDeepStrictEqual(written, { command, args: all }) ? {} : { written }),
    env,
    inheritEnv: inheritEnv ?? fields.names('env_vars', 'env_keys') ?? false,
    cwd: ssh === null ? fields.resolvePath(cwd) : cwd,
    ...(ssh === null ? {} : { ssh }),
    ...(runAs === null ? {} : { runAs }),
  };
}

/** Programs that expand their arguments. */
const SHELL = /^(?:(?:ba|z|da|fi|k)?sh|cmd|powershell|pwsh)(?:\.exe)?$/i;
const SHELL_WORD = /(?:^|[=:])~(?:\/|$)|\$[A-Z_]{2,}\b|%[A-Za-z_]{3,}%/;

/** Warns of arguments in shell syntax, which the server gets unexpanded. */
function warnOfShellWords(fields: FieldReader, program: string): void {
  const args = fields.first('args')?.node;
  if (args?.kind !== 'array' || SHELL.test(basename(program))) return;
  args.items.forEach((item, index) => {
    const [word] = (isString(item) && SHELL_WORD.exec(item.text)) || [];
    if (word === undefined) return;
    const shown = word.replace(/^[=:]/, '');
    const message = `${fields.path}.args[${index}] has ${JSON.stringify(shown)}, which only a shell would expand`;
    const home = fields.has('ssh') ? 'write the path of the folder on that host' : 'write ${userHome}';
    const fix = shown.startsWith('~') ? home : `write \${${shown.replaceAll(/[$%]/g, '')}}`;
    fields.warn('TL1310', item, message, fix);
  });
}

interface Program {
  /** The command and its arguments, from one text or list. */
  readonly words: readonly string[];
  /** The same words, with references to possible secrets unexpanded. */
  readonly written: readonly string[];
}

function readProgram(fields: FieldReader): Program | null {
  const found = fields.first('command', 'cmd');
  if (found === null) return null;
  const { key, node } = found;
  const words = fields.words(key, true);
  if (words === null) return null;
  const written = fields.writtenWords(key);
  const [command = ''] = words;
  if (command.trim() === '') {
    fields.error('TL1406', node, `${fields.path}.${key} is empty`);
    return null;
  }
  // Some clients pass the whole text to a shell. The gateway splits it, since no program on the PATH has a blank in its name.
  const whole =
    node.kind !== 'array' && !fields.has('args') && /^[\w@.-]+(?:\s+[^\s"'`$&|;<>(){}*?\\]+)+$/.test(command);
  if (!whole) return { words, written };
  const parts = command.trim().split(/\s+/);
  const message = `${fields.path}.${key} holds arguments: read as ${JSON.stringify(parts[0])} with ${parts.length - 1} of them`;
  fields.warn('TL1309', node, message);
  return { words: parts, written: written[0] === command ? parts : written };
}

/** The variables of a definition; null after a problem. */
export function readEnv(fields: FieldReader): Record<string, Secret> | null {
  const { source, problems, files } = fields.context;
  const env: Record<string, Secret> = Object.create(null);
  let good = true;
  const set = (name: string, value: string): void => {
    env[name] = new Secret(value);
  };
  const envFile = fields.first('envFile');
  if (envFile !== null) {
    const path = fields.text('envFile');
    const file = path === null ? null : fields.resolvePath(path);
    const named = { source, span: envFile.node.span, user: `${fields.path}.envFile` };
    const values = file === null ? null : readEnvFile(file, named, problems, files);
    for (const [name, value] of values ?? []) set(name, value);
    good = values !== null;
  }
  const found = fields.first('env', 'environment', 'envs');
  for (const { key, keySpan, value } of found?.node.kind === 'object' ? found.node.members : []) {
    if (!isWord(value)) continue;
    const text = fields.word(value, `${found!.key}.${key}`, true);
    warnOfPlaceholder(fields, value, `${fields.path}.${found!.key}.${key}`, text);
    const names = fields.has('ssh') ? SHELL_NAME : ENVIRONMENT_NAME;
    if (!names.test(key)) {
      const message = `${fields.path}.${found!.key}: this cannot name a variable`;
      problems.error('TL1303', source, keySpan, message, 'name it with letters, digits and "_"');
      good = false;
    } else if (text?.includes('\u0000')) {
      fields.error('TL1207', value, `${fields.path}.${found!.key}.${key} holds a NUL character`);
      good = false;
    } else if (text === null) good = false;
    else set(key, text);
  }
  return good ? env : null;
}

/** For a trimmed line. Each part can match in one way only, so that any line takes linear time. */
const LINE = /^(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=(.*)$/s;
const MAX_ENV_FILE_BYTES = 1024 * 1024;

/**
 * Reads NAME=value lines. Values may be in single or double quotes; double quotes support escapes such as `\n` and `\"`.
 * Expands nothing. Returns null if the file cannot be read, and reports that at the key that names it.
 */
export function readEnvFile(
  file: string,
  named: { readonly source: Source; readonly span: TextSpan; readonly user: string },
  problems: Problems,
  files: NamedFiles,
): Map<string, string> | null {
  const bytes = files.read(file, MAX_ENV_FILE_BYTES);
  if (isReadFailure(bytes)) {
    problems.error('TL1205', named.source, named.span, `${file}: ${bytes.message} (used by ${named.user})`);
    return null;
  }
  const text = bytes.toString('utf8').replace(/^\ufeff/, '');
  const source = new Source(file, text);
  const values = new Map<string, string>();
  let offset = 0;
  for (const line of text.split('\n')) {
    const span = { start: offset, end: offset + line.replace(/\r$/, '').length };
    offset += line.length + 1;
    if (/^(?:#|$)/.test(line.trim())) continue;
    const [, name, written] = LINE.exec(line.trim()) ?? [];
    if (name === undefined || written === undefined) {
      source.mask(span);
      problems.error('TL1206', source, span, `this line is not NAME=value (used by ${named.user})`);
    } else values.set(name, unquoted(written));
  }
  return values;
}

/** A correctly quoted value, optionally with a comment after it. */
const QUOTED = /^(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?$/s;
/** A value with unescaped quotes inside. */
const WRAPPED = /^(?:"(.*)"|'(.*)')$/s;

/** `behind`: the text after the equals sign. */
function unquoted(behind: string): string {
  const written = behind.trimStart();
  const [, double, single] = QUOTED.exec(written) ?? WRAPPED.exec(written) ?? [];
  if (single !== undefined) return single;
  if (double !== undefined) return double.replace(/\\(["\\nrt])/g, (_, letter: string) => ESCAPES[letter] ?? letter);
  // A comment begins with the first number sign after white space.
  const comment = /\s#/.exec(behind);
  return comment === null ? written : behind.slice(0, comment.index).trim();
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };

/** The user that runs a local server's process (F41). */
function readRunAs(fields: FieldReader, { user = '', processes }: Partial<RunAsInput>): RunAs | null {
  if (objectAt(fields.node, 'runAs') === undefined) return null;
  if (!fields.has('ssh')) return { user: String(user), processes: processes ?? null };
  fields.warnUseless(['runAs'], 'beside "ssh", which names the user');
  return null;
}
