import type { Argument, Command, Option } from 'commander';
import { clientsHere } from '../app/clients/clients.ts';
import { ControlClient } from './access/control-client.ts';
import { findRunning } from './access/find-running.ts';
import type { CommandInput } from './command-input.ts';
import { takesServerCommand } from './command-line.ts';
import { EXIT, type ExitCode } from './exit-code.ts';

/** Time limit for the answer of a gateway. */
const ANSWER_MS = 700;
/** Tells the shell to complete file names itself. */
const FILES = ':files';
/** Words without shell syntax: a server chooses the names of its tools, and the user may run a completed word. */
const PLAIN = /^[\w@%+=:,./-]+$/;

/** A candidate for the word at the cursor, with its description. */
interface ShellWord {
  readonly word: string;
  readonly meaning: string;
}

/** `trunkline __complete -- <words up to the cursor>`, called by the scripts of `completion`. Prints no errors. */
export async function complete(input: CommandInput, program: Command): Promise<ExitCode> {
  const { serverCommand: words, terminal } = input;
  const { command, option, position, flags, cut } = placeOf(words.slice(0, -1), program);
  const current = words.at(-1) ?? '';
  const given = { ...input, serverCommand: [], flags: { ...input.flags, ...flags }, file: flags.config };
  const found = cut ? files() : await candidates(given, { command, option, position, current, program });
  const fitting = found.filter(({ word }) => word === FILES || (word.startsWith(current) && PLAIN.test(word)));
  for (const { word, meaning } of fitting) terminal.out(`${word}\t${meaning.replaceAll(/\s+/g, ' ')}\n`);
  return EXIT.ok;
}

interface CursorPlace {
  readonly command: Command;
  /** The option whose value comes next. */
  readonly option: Option | null;
  /** Number of arguments of the command before the cursor. */
  readonly position: number;
  readonly flags: { readonly config?: string; readonly dataDir?: string };
  /** The cursor is in a server's command line. */
  readonly cut: boolean;
}

function placeOf(words: readonly string[], program: Command): CursorPlace {
  let command = program;
  let option: Option | null = null;
  let position = 0;
  const flags: Record<string, string> = {};
  for (const word of words) {
    if (word === '--' && takesServerCommand(command)) return { command, option: null, position, flags, cut: true };
    if (option !== null) {
      flags[option.attributeName()] = word;
      option = null;
      continue;
    }
    const below: Command | undefined = position === 0 ? named(command, word) : undefined;
    if (word.startsWith('-')) option = optionOf(command, word);
    else if (below !== undefined) command = below;
    else position++;
  }
  return { command, option, position, flags, cut: false };
}

function named({ commands }: Command, word: string): Command | undefined {
  return commands.find((one) => one.name() === word);
}

/** The option, if it takes a value; otherwise null. */
function optionOf({ options }: Command, word: string): Option | null {
  const option = options.find(({ long, short }) => word === long || word === short);
  return option?.required === true ? option : null;
}

async function candidates(
  input: CommandInput,
  {
    command,
    option,
    position,
    current,
    program,
  }: Omit<CursorPlace, 'flags' | 'cut'> & { current: string; program: Command },
): Promise<readonly ShellWord[]> {
  if (option !== null) {
    if (option.argChoices !== undefined) return option.argChoices.map(plain);
    return /file|folder/.test(option.flags) ? files() : [];
  }
  const help = command.createHelp();
  if (current.startsWith('-')) {
    return help
      .visibleOptions(command)
      .flatMap(({ long, short, description }) =>
        [long, short].filter((flag) => flag != null).map((word) => ({ word, meaning: description })),
      );
  }
  const { registeredArguments: all } = command;
  const argument = all[position] ?? (all.at(-1)?.variadic === true ? all.at(-1) : undefined);
  const own = position > 0 ? [] : help.visibleCommands(command).map(asCandidate);
  return [...own, ...(argument === undefined ? [] : await ofArgument(argument, input, program))];
}

/** Candidates by the name of the argument. */
async function ofArgument(argument: Argument, input: CommandInput, program: Command): Promise<readonly ShellWord[]> {
  if (argument.argChoices !== undefined) return argument.argChoices.map(plain);
  switch (argument.name()) {
    case 'server':
      return servers(input);
    case 'server.tool':
      return tools(input);
    case 'clients':
      return clientsHere(input.terminal.env).map(({ id, title }) => ({ word: id, meaning: title }));
    case 'command':
      return program.createHelp().visibleCommands(program).map(asCandidate);
    case 'words':
      return [...(await servers(input)), ...files()];
    case 'file':
    case 'files':
      return files();
    default:
      return [];
  }
}

async function servers(input: CommandInput): Promise<readonly ShellWord[]> {
  const { servers: all = [] } = await getJson<{ servers?: { name: string; state: string }[] }>(
    input,
    '/api/v1/servers',
  );
  return all.map(({ name, state }) => ({ word: name, meaning: state }));
}

async function tools(input: CommandInput): Promise<readonly ShellWord[]> {
  type Tools = { tools?: { server: string; name: string; definition: { description?: string } }[] };
  const { tools: all = [] } = await getJson<Tools>(input, '/api/v1/tools');
  return all.map(({ server, name, definition }) => ({
    word: `${server}.${name}`,
    meaning: (definition.description ?? '').slice(0, 60),
  }));
}

/** The answer of the gateway of this folder; empty without a gateway or after the time limit. */
async function getJson<T extends object>(input: CommandInput, path: string): Promise<T> {
  try {
    const running = await findRunning(input);
    if (running === null) return {} as T;
    return JSON.parse(await new ControlClient(running).get(path, AbortSignal.timeout(ANSWER_MS))) as T;
  } catch {
    return {} as T;
  }
}

function files(): readonly ShellWord[] {
  return [plain(FILES)];
}

function plain(word: string): ShellWord {
  return { word, meaning: '' };
}

function asCandidate(command: Command): ShellWord {
  return { word: command.name(), meaning: command.description() };
}

/** The script that a shell loads. It calls the program at each Tab, so that it fits any installed version. */
export const SCRIPTS = {
  bash: `# Load it with: source <(trunkline completion bash)
_trunkline() {
  local word meaning
  COMPREPLY=()
  while IFS=$'\\t' read -r word meaning; do
    if [[ $word == ${FILES} ]]; then compopt -o default; else COMPREPLY+=("$word"); fi
  done < <("$1" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _trunkline trunkline tl
`,
  zsh: `#compdef trunkline tl
# Load it with: source <(trunkline completion zsh)
_trunkline() {
  local line
  local -a found
  for line in "\${(@f)$("\${(Q)words[1]}" __complete -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      ${FILES}*) _files ;;
      *) found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}") ;;
    esac
  done
  (( $#found )) && _describe -t words word found
}
if [[ $funcstack[1] == _trunkline ]]; then _trunkline "$@"; else compdef _trunkline trunkline tl; fi
`,
  fish: `# Load it with: trunkline completion fish | source
function __trunkline_complete
    set -l before (commandline -opc)
    set -l found ($before[1] __complete -- $before[2..-1] (commandline -ct) 2>/dev/null)
    for line in $found
        if string match -q '${FILES}*' -- $line
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
for name in trunkline tl
    complete -c $name -f -a '(__trunkline_complete)'
end
`,
} as const;
