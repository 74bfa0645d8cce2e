import type { Command, Option } from 'commander';
import { suggest } from '../config/problem/problem.ts';
import { CALL_FILTER_KEYS } from '../model/call-filter.ts';
import { launcherOf } from '../model/launchers.ts';
import { withRepeatedOptions } from '../model/server-command-line.ts';
import { usage } from './exit-code.ts';
import { SERVER_OPTIONS } from './flags.ts';

interface CommandLine {
  /** Words for the option parser. */
  readonly words: readonly string[];
  /** Words after `--`, if they are a server's command line; the parser never reads them as Trunkline options. */
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

/** Whether the words after `--` are the command line of a server. For other commands they are plain arguments. */
export function takesServerCommand(command: Command): boolean {
  return command.parent === null || TAKE_SERVER_COMMAND.has(command.name());
}

export function commandLine(given: readonly string[], program: Command): CommandLine {
  if (given[0] === '-V') return { words: ['--version'], serverCommand: [] };
  const argv = remoteBehind(given, program);
  const { command, at } = commandOf(argv, program);
  if (command.registeredArguments[0]?.name() === 'filter') {
    return { words: [...argv.slice(0, at + 1), ...optionsFirst(argv.slice(at + 1), command)], serverCommand: [] };
  }
  if (!takesServerCommand(command)) return { words: argv, serverCommand: [] };
  const words = ofCommand(argv, command.name(), program);
  const cut = words.indexOf('--');
  if (cut < 0) return { words, serverCommand: [] };
  const serverCommand = words.slice(cut + 1);
  if (serverCommand.length === 0) throw usage('nothing follows "--"; for example: trunkline -- npx -y some-server');
  return { words: words.slice(0, cut), serverCommand };
}

/** The words with what users of other programs write differently. */
function ofCommand(argv: readonly string[], command: string, program: Command): readonly string[] {
  if (command === 'call') return jsonBehind(argv);
  const words = command === 'add' ? withRepeatedOptions(argv) : argv;
  return words.includes('--') ? words : withCut(words, program);
}

/** Moves a `--json` of `call` without a value behind the other words, so that it does not take one of them as the arguments. */
function jsonBehind(argv: readonly string[]): readonly string[] {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const at = argv.indexOf('--json');
  if (at < 0 || at + 1 >= end || /^\s*[{["']/.test(argv[at + 1]!)) return argv;
  return argv.toSpliced(end, 0, '--json').toSpliced(at, 1);
}

/** Moves `--server` and its file options behind the name of their command, if the user wrote them before it. */
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

/** The command that the words name, and the index of its name; the program itself and -1 if they name none. */
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

/** Puts the options with their values first, then `--` and the filter words in order; `-client:codex` is a filter word. */
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

/** Option names up to this length are not suggested: they resemble too many words. */
const SHORT_NAME = 3;

/** Whether the next word is the value of this option, or of the last one in a group of short options. */
function takesNext(command: Command, word: string): boolean {
  if (word.startsWith('--')) return optionOf(command, word)?.required === true && !word.includes('=');
  return shortOptions(command, word) === 'next';
}

/** Reads a word such as `-fn20` as short options and says whether the last one takes the next word. null if it is none. */
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
 * The words of `add` with `--` inserted before the server's command if the user omitted it: before the command if an option
 * follows that `add` does not have (`add fs npx -y some-server`), or before a launcher in the place of the name
 * (`add npx -y some-server`).
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
