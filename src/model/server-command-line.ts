import { type CommandLineError, type CommandWord, splitCommandLine } from './command-line.ts';

/** A server in a command line: the line that starts it, or one that adds it to Trunkline or to a client. */
export interface ServerCommandLine {
  readonly name: CommandWord | null;
  readonly type: CommandWord | null;
  readonly description: CommandWord | null;
  /** `NAME=value`, or `NAME` for a variable of the gateway. */
  readonly env: readonly CommandWord[];
  /** `Name: value`. */
  readonly headers: readonly CommandWord[];
  /** A URL, or a command with its arguments; empty if the line has neither. */
  readonly words: readonly CommandWord[];
}

const CLIENTS =
  'claude(?:-code)?|codex|gemini(?:-cli)?|qwen|copilot|droid|amp|opencode|auggie|iflow|codebuddy|cursor-agent|kimi|grok';
/** `trunkline add`, `claude mcp add` and the like, also through npx. */
const ADDS = new RegExp(
  `^(?:npx (?:(?:-y|--yes) )?)?(?:\\S*/)?(?:trunkline(?:@\\S+)? add|(?:${CLIENTS})(?:@\\S+)? mcp add)$`,
);
const ADDS_JSON = /\smcp add-json(?:\s|$)|\s--add-mcp(?:\s|$)/;
const ASSIGNMENT = /^[A-Za-z_]\w*=/;
const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i;

type Option = 'name' | 'type' | 'description' | 'env' | 'headers' | 'url' | 'scope';

const OPTIONS: Readonly<Record<string, Option>> = {
  '-e': 'env',
  '--env': 'env',
  '-H': 'headers',
  '--header': 'headers',
  '-t': 'type',
  '--transport': 'type',
  '-s': 'scope',
  '--scope': 'scope',
  '--description': 'description',
  '--as': 'name',
  '--url': 'url',
};
const FORMS: Partial<Record<Option, RegExp>> = { env: /^[A-Za-z_]\w*(?:=|$)/, headers: /^[^:\s]+:/ };
/** More values that clients accept after a value of these options. */
const MORE: Partial<Record<Option, RegExp>> = { env: ASSIGNMENT, headers: /^[\w-]+:\s/ };

/**
 * The words of `add` with the option before each of its values: `-e A=1 B=2` becomes `-e A=1 -e B=2`. The command of the server
 * stays: the words from `--` on, or without it the third word that is no option, unless it is an address.
 */
export function withRepeatedOptions(words: readonly string[]): readonly string[] {
  const repeated: string[] = [];
  const hasCut = words.includes('--');
  let others = 0;
  for (let at = 0; at < words.length; at++) {
    const word = words[at]!;
    if (!word.startsWith('-')) others++;
    if (word === '--' || (!hasCut && others === 3 && !ADDRESS.test(word))) return [...repeated, ...words.slice(at)];
    repeated.push(word);
    const more = Object.hasOwn(OPTIONS, word) ? MORE[OPTIONS[word]!] : undefined;
    if (more === undefined || at + 1 === words.length) continue;
    repeated.push(words[++at]!);
    while (more.test(words[at + 1] ?? '')) repeated.push(word, words[++at]!);
  }
  return repeated;
}

export function parseServerCommandLine(text: string): ServerCommandLine | CommandLineError {
  const all = splitCommandLine(text);
  if ('complaint' in all) return all;
  // As in a shell: variables for the program.
  const program = all.findIndex((word) => !ASSIGNMENT.test(word.text));
  const env = program < 0 ? all : all.slice(0, program);
  const line = all.slice(env.length);
  const begin = line.slice(0, 5).map((word) => word.text);
  const count = begin.findIndex((_, at) => ADDS.test(begin.slice(0, at + 1).join(' '))) + 1;
  if (count > 0) return parseAddCommand(env, line.slice(count));
  if (ADDS_JSON.test(` ${begin.slice(1).join(' ')}`)) {
    const fix = 'paste the JSON of it where the text of a file goes';
    return { complaint: 'this line adds a server to a client, from a JSON text', fix, span: line[0]!.span };
  }
  const words = line[0]?.text === '--' ? line.slice(1) : line;
  return { name: null, type: null, description: null, env, headers: [], words };
}

function parseAddCommand(
  env: readonly CommandWord[],
  line: readonly CommandWord[],
): ServerCommandLine | CommandLineError {
  const given: Record<Option, CommandWord[]> = {
    name: [],
    type: [],
    description: [],
    env: [...env],
    headers: [],
    url: [],
    scope: [],
  };
  const plain: CommandWord[] = [];
  let behind: readonly CommandWord[] | null = null;
  for (let at = 0; at < line.length && behind === null; at++) {
    const word = line[at]!;
    const { text, span } = word;
    if (text === '--') behind = line.slice(at + 1);
    // Everything after a command is its arguments.
    else if (!text.startsWith('-') || (plain.length > 1 && !ADDRESS.test(plain[1]!.text))) plain.push(word);
    else {
      const [, flag = text, attached] = /^(--[\w-]+)=(.*)$/s.exec(text) ?? [];
      const option = Object.hasOwn(OPTIONS, flag) ? OPTIONS[flag]! : null;
      if (option === null) {
        const fix = 'write only the address, or the command that is behind --';
        return { complaint: `${flag} of a line that adds a server is not read here`, fix, span };
      }
      const value = attached === undefined ? line[++at] : { text: attached, span };
      if (value === undefined) return { complaint: `${flag} lacks its value`, fix: 'write it behind', span };
      const form = FORMS[option];
      if (form?.test(value.text) === false) {
        const fix = option === 'env' ? 'write NAME=value' : 'write "Name: value"';
        return { complaint: `the value of ${flag} has no name before it`, fix, span: value.span };
      }
      given[option].push(value);
      const more = MORE[option];
      while (more?.test(line[at + 1]?.text ?? '') === true) given[option].push(line[++at]!);
    }
  }
  const { env: variables, headers, url } = given;
  const last = (option: Option): CommandWord | null => given[option].at(-1) ?? null;
  const isNamed = plain.length > 0 && !ADDRESS.test(plain[0]!.text);
  const name = isNamed ? plain[0]! : last('name');
  const words = [...url, ...(isNamed ? plain.slice(1) : plain), ...(behind ?? [])];
  return { name, type: last('type'), description: last('description'), env: variables, headers, words };
}
