import type { Command, Option } from 'commander';
import { suggest } from '../config/problem/problem.ts';
import { CALL_FILTER_KEYS } from '../model/call-filter.ts';
import { launcherOf } from '../model/launchers.ts';
import { usage } from './exit-code.ts';
import { SERVER_OPTIONS } from './flags.ts';

interface CommandLine {
  /** For the parser of options. */
  readonly words: readonly string[];
  /** Words behind `--`, where they are a server's command line; they are never read as flags of ours. */
  readonly serverCommand: readonly string[];
}

const TAKE_SERVER_COMMAND: ReadonlySet<string> = new Set([
  'stdio',
  'check',
  'start',
  'add',
  'doctor',
  'tools',
  'call',
  '__complete',
]);

/** Whether what follows `--` is the command line of a server. For the other commands it is their plain arguments. */
export function takesServerCommand(command: Command): boolean {
  return command.parent === null || TAKE_SERVER_COMMAND.has(command.name());
}

export function commandLine(given: readonly string[], program: Command): CommandLine {
  const argv = remoteBehind(given, program);
  const { command, at } = commandOf(argv, program);
  if (command.registeredArguments[0]?.name() === 'filter') {
    return { words: [...argv.slice(0, at + 1), ...optionsFirst(argv.slice(at + 1), command)], serverCommand: [] };
  }
  if (!takesServerCommand(command)) return { words: argv, serverCommand: [] };
  const words = argv.includes('--') ? argv : withCut(argv, program);
  const cut = words.indexOf('--');
  if (cut < 0) return { words, serverCommand: [] };
  const serverCommand = words.slice(cut + 1);
  if (serverCommand.length === 0) throw usage('nothing follows "--"; for example: trunkline -- npx -y some-server');
  return { words: words.slice(0, cut), serverCommand };
}

/** The words with `--server` and its files behind the name of their command, where a user wrote them before it. */
function remoteBehind(argv: readonly string[], program: Command): readonly string[] {
  const own: string[] = [];
  const remote: string[] = [];
  for (let at = 0; at < argv.length && argv[at] !== '--'; at++) {
    const word = argv[at]!;
    if (!word.startsWith('-')) {
      const command = program.commands.find((one) => one.name() === word);
      const takesThem = command?.options.some((option) => SERVER_OPTIONS.includes(option)) === true;
      return takesThem ? [...own, word, ...remote, ...argv.slice(at + 1)] : argv;
    }
    const isRemote = optionOf({ options: SERVER_OPTIONS }, word) !== undefined;
    const words = isRemote ? remote : own;
    words.push(word);
    const hasValue = isRemote ? !word.includes('=') : takesNext(program, word);
    if (hasValue && at + 1 < argv.length) words.push(argv[++at]!);
  }
  return argv;
}

/** The command that the words name, and where they do; the program itself where they name none. */
function commandOf(argv: readonly string[], program: Command): { readonly command: Command; readonly at: number } {
  for (let at = 0; at < argv.length && argv[at] !== '--'; at++) {
    const word = argv[at]!;
    if (word.startsWith('-')) {
      if (takesNext(program, word)) at++;
      continue;
    }
    const command = program.commands.find((one) => one.name() === word);
    return { command: command ?? program, at };
  }
  return { command: program, at: -1 };
}

/** The options with their values, then `--` and the words of the filter in their order: `-client:codex` is one of them. */
function optionsFirst(given: readonly string[], command: Command): readonly string[] {
  const options: string[] = [];
  const filter: string[] = [];
  for (let i = 0; i < given.length; i++) {
    const word = given[i]!;
    if (word === '--') {
      filter.push(...given.slice(i + 1));
      break;
    }
    if (isFilterWord(word, command)) {
      filter.push(word);
      continue;
    }
    options.push(word);
    if (takesNext(command, word) && i + 1 < given.length) options.push(given[++i]!);
  }
  return filter.length === 0 ? options : [...options, '--', ...filter];
}

/** False for short options such as `-n20` and `-fn`. A word that resembles a long option, such as `-json`, is an error. */
function isFilterWord(word: string, command: Command): boolean {
  if (!word.startsWith('-') || word === '-') return true;
  if (word.startsWith('--') || word.length === 2) return false;
  const [, name = '', operator] = /^-([a-z-]*)([:<>=]?)/i.exec(word)!;
  if (operator !== '' && CALL_FILTER_KEYS.includes(name)) return true;
  if (shortOptions(command, word) !== null) return false;
  const names = command.createHelp().visibleOptions(command);
  const long = names.flatMap(({ long }) => long?.slice(2) ?? []);
  const close = long.includes(name)
    ? name
    : suggest(
        name,
        long.filter(({ length }) => length > SHORT_NAME),
      );
  if (close !== null) {
    command.error(
      `error: unknown option '${word}'\n(Did you mean --${close}? To leave out calls with this word: trunkline ${command.name()} -- ${word})`,
    );
  }
  return true;
}

/** Options up to this length resemble too many words. */
const SHORT_NAME = 3;

/** Whether the value of the option, or of the last of these short ones, is the next word. */
function takesNext(command: Command, word: string): boolean {
  if (word.startsWith('--')) return optionOf(command, word)?.required === true && !word.includes('=');
  return shortOptions(command, word) === 'next';
}

/** Where a word such as `-fn20` is short options: whether the last takes the next word. null: it is something else. */
function shortOptions(command: Command, word: string): 'next' | 'alone' | null {
  for (let i = 1; i < word.length; i++) {
    const option = command.options.find(({ short }) => short === `-${word[i]}`);
    if (option === undefined) return null;
    if (!option.required) continue;
    const value = word.slice(i + 1);
    return value === '' ? 'next' : /^[a-z]/i.test(value) ? null : 'alone';
  }
  return 'alone';
}

/**
 * The words of `add` with `--` before the server's command where the user has left it out: where an option follows the
 * command that `add` does not have, as in `add fs npx -y some-server`; and where a program that runs others stands for the
 * name, as in `add npx -y some-server`.
 */
function withCut(argv: readonly string[], program: Command): readonly string[] {
  const at = argv.indexOf('add');
  const add = program.commands.find((command) => command.name() === 'add');
  if (at < 0 || add === undefined) return argv;
  const operands: number[] = [];
  for (let i = at + 1; i < argv.length && operands.length < 2; i++) {
    const word = argv[i]!;
    if (!word.startsWith('-')) operands.push(i);
    else if (!word.includes('=') && optionOf(add, word)?.required === true) i++;
  }
  const [name, target] = operands;
  if (target === undefined || URL.canParse(argv[target]!)) return argv;
  if (launcherOf(argv[name!]!) !== null && launcherOf(argv[target]!) === null) return argv.toSpliced(name!, 0, '--');
  const foreign = argv.slice(target + 1).some((word) => word.startsWith('-') && optionOf(add, word) === undefined);
  return foreign ? argv.toSpliced(target, 0, '--') : argv;
}

function optionOf({ options }: Pick<Command, 'options'>, word: string): Option | undefined {
  const [flag] = word.split('=');
  return options.find(({ long, short }) => long === flag || short === flag);
}
