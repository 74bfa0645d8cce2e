import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Argument, Command, CommanderError, Help, Option } from 'commander';
import { RegistryError } from '../mcp-registry/registry-error.ts';
import { LINKED_NAME } from '../model/names.ts';
import { printable } from '../model/printable.ts';
import { stackOf } from '../model/thrown.ts';
import { addClientCommands } from './clients/client-commands.ts';
import type { CommandInput, CommandParts, Terminal } from './command-input.ts';
import { commandLine } from './command-line.ts';
import { addCredentialCommands } from './credentials/credential-commands.ts';
import { addSecretCommands } from './credentials/secret-commands.ts';
import { addDriftCommands } from './drift/drift-commands.ts';
import { CommandError, EXIT, type ExitCode, noSuch, usage } from './exit-code.ts';
import {
  CONFIG_OPTION,
  duration,
  GATEWAY_OPTIONS,
  type GatewayFlags,
  JSON_OPTION,
  KEY_OPTION,
  LOG_OPTION,
  lines,
  SERVER_OPTIONS,
  VARIABLE_OPTION,
} from './flags.ts';
import { addGatewayCommands } from './gateways/gateway-commands.ts';
import { dropEmptyVariables, inheritFlags, isOn } from './inherit-flags.ts';
import { addOperatingCommands } from './operating/operating-commands.ts';
import { addRecordingCommands } from './recordings/recording-commands.ts';
import { addServerCommands } from './servers/server-commands.ts';

/**
 * Runs one command line and resolves with the exit code. Loads the modules of a command only when it runs, so that a start of
 * the gateway does not load the others.
 */
export async function runProgram(argv: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const serverCommand: string[] = [];
  const json = argv.includes('--json') || isOn(terminal.env['TRUNKLINE_JSON']);
  let exitCode: ExitCode = EXIT.ok;
  let parserError = '';
  const keepError = (text: string): void => {
    parserError += text;
  };
  const program = buildProgram(terminal, json ? keepError : terminal.err, serverCommand, (code) => {
    exitCode = code;
  });
  program.hook('postAction', async (_, command) => {
    // A gateway writes a screen there, or the messages of its client.
    if (exitCode !== EXIT.ok || command === program || GATEWAYS.has(command.name())) return;
    const lost = await terminal.written?.();
    // EPIPE: the reader, such as `head`, has enough.
    if (lost != null && lost.code !== 'EPIPE') throw usage(`standard output cannot be written: ${lost.message}`);
  });
  try {
    const { words, serverCommand: behind } = commandLine(argv, program);
    serverCommand.push(...behind);
    dropEmptyVariables(program);
    await program.parseAsync([...words], { from: 'user' });
    return exitCode;
  } catch (error) {
    const ofParser = error instanceof CommanderError;
    if (ofParser && (error.exitCode === 0 || !json)) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    const { exitCode: code, message } = ofParser
      ? usage(parserError.replace(/^error: /, '').trim())
      : await ending(error);
    terminal.err(
      json ? `${JSON.stringify({ error: message, exitCode: code })}\n` : `trunkline: ${printable(message)}\n`,
    );
    return code;
  }
}

async function ending(error: unknown): Promise<Pick<CommandError, 'exitCode' | 'message'>> {
  if (error instanceof CommandError) return error;
  if (error instanceof RegistryError)
    return { exitCode: error.fault === 'unreachable' ? EXIT.unreachable : EXIT.usage, message: error.message };
  const { RunTimeProblem } = await import('../app/stopped-gateway.ts');
  if (error instanceof RunTimeProblem) return { exitCode: EXIT.usage, message: error.message };
  return { exitCode: EXIT.internal, message: stack(error) };
}

interface CallFlags extends Omit<GatewayFlags, 'json'> {
  readonly json?: boolean | string;
  readonly timeout?: number;
}

function buildProgram(
  terminal: Terminal,
  writeErr: (text: string) => void,
  serverCommand: readonly string[],
  done: (code: ExitCode) => void,
): Command {
  const program: Command = new Command('trunkline')
    .description('One endpoint for all your MCP servers. Without a command: start the gateway.')
    .usage('[options] [file]   |   trunkline [options] -- command …   |   trunkline <command> …')
    .version(terminal.version, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .configureHelp({
      visibleOptions(command) {
        const all = Help.prototype.visibleOptions.call(this, command);
        return command === program ? all : [...all.filter((option) => !isCommon(option)), ...all.filter(isCommon)];
      },
    })
    .enablePositionalOptions()
    .allowExcessArguments()
    .exitOverride()
    .configureOutput({ writeOut: terminal.out, writeErr })
    .showHelpAfterError('(trunkline --help lists commands and options)');
  program.hook('preAction', (_, command) => {
    refuseUnknownWord(command);
    inheritFlags(command);
  });

  const onFile = (command: Command, load: () => Promise<(input: CommandInput) => Promise<ExitCode>>): Command =>
    command
      .argument('[file]', 'configuration file (default: the nearest one)')
      .action(async (file: string | undefined, flags: GatewayFlags) => {
        if (command === program) refuseUnknown(program, terminal.cwd);
        const run = await load();
        done(await run({ file, serverCommand, flags, terminal }));
      });
  onFile(
    addOptions(program).addOption(LOG_OPTION).addOption(VARIABLE_OPTION),
    async () => (await import('./serve.ts')).serve,
  );
  const stdio = program
    .command('stdio')
    .description('serve MCP on standard input and output, for clients that spawn commands');
  onFile(
    addOptions(stdio).addOption(KEY_OPTION).addOption(VARIABLE_OPTION),
    async () => (await import('./stdio.ts')).stdio,
  );
  const check = program.command('check').description('print all problems of a configuration; exit code 0 or 1');
  onFile(addOptions(check, false), async () => (await import('./check.ts')).check);

  addOptions(program.command('init').description('write a first configuration file; never overwrites one'), false)
    .argument('[file]', 'trunkline.json (default), .mcp.json, …')
    .action(async (file: string | undefined, flags: GatewayFlags) => {
      const { init } = await import('./init.ts');
      done(await init({ file, serverCommand, flags, terminal }));
    });

  const parts: CommandParts = {
    command(name, description, parent = program) {
      const command = addOptions(parent.command(name).description(description), false).addOption(CONFIG_OPTION);
      // `refuseUnknownWord` checks excess words before the action runs.
      if (parent !== program) parent.allowExcessArguments();
      return REMOTE.has((parent === program ? command : parent).name()) ? addServerOptions(command) : command;
    },
    input: (flags) => ({ file: flags.config, serverCommand, flags, terminal }),
    done,
  };
  addWatchingCommands(parts);

  parts
    .command('tools', 'list tools as TypeScript-like signatures')
    .argument('[server]', 'only the tools of this server')
    .option('--as <client>', 'their names and costs as this MCP client has them: claude-code, codex, cursor, …')
    .option('--name <name>', 'with --as: the name of the gateway in the file of the client', LINKED_NAME)
    .action(
      async (server: string | undefined, flags: GatewayFlags & { readonly as?: string; readonly name: string }) => {
        const input = { ...parts.input(flags), server };
        if (flags.as === undefined) done(await (await import('./tools/tools.ts')).tools(input));
        else {
          const { clientTools } = await import('./tools/client-tools.ts');
          done(await clientTools({ ...input, client: flags.as, name: flags.name }));
        }
      },
    );

  addCredentialCommands(parts);
  addSecretCommands(parts);
  addDriftCommands(parts);
  addOperatingCommands(parts);
  addRecordingCommands(parts);

  addServerOptions(addOptions(program.command('call').description('call a tool and print its result'), false, false))
    .addOption(CONFIG_OPTION)
    .addOption(new Option('--json [arguments]', 'arguments as one JSON object; the result is printed as JSON'))
    .addOption(
      new Option(
        '--timeout <time>',
        "cancel it after this time, such as 30s, the start of its server included; the server's own limit holds too",
      ).argParser(duration),
    )
    .argument('<server.tool>', 'for example memory.read_graph, or \'time.convert(hour: 5, zone: "UTC")\'')
    .argument('[key=value...]', 'arguments; key:=json takes JSON; or all of them as one JSON object')
    .action(async (tool: string, words: string[], flags: CallFlags) => {
      const { call } = await import('./tools/call.ts');
      const { json, timeout, ...others } = flags;
      const input = parts.input({ ...others, json: json !== undefined && json !== false });
      done(
        await call({
          ...input,
          tool,
          words,
          argumentsJson: typeof json === 'string' ? json : null,
          timeoutMs: timeout ?? null,
        }),
      );
    });

  addGatewayCommands(
    parts,
    addOptions(program.command('start')).addOption(LOG_OPTION).addOption(VARIABLE_OPTION),
    (file, flags) => ({
      ...parts.input(flags),
      file,
    }),
  );
  addServerCommands(parts);
  addClientCommands(parts);
  program
    .command('completion')
    .description('print a completion script; load it with: source <(trunkline completion bash)')
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh', 'fish']))
    .allowExcessArguments(false)
    .action(async (shell: 'bash' | 'zsh' | 'fish') => {
      const { SCRIPTS } = await import('./completion.ts');
      terminal.out(SCRIPTS[shell]);
    });
  program.command('__complete', { hidden: true }).action(async (flags: GatewayFlags) => {
    const { complete } = await import('./completion.ts');
    done(await complete(parts.input(flags), program));
  });
  program
    .command('help')
    .description('print the help of a command')
    .argument('[command]', 'name of the command')
    .action((name: string | undefined) => {
      const found = name === undefined ? program : program.commands.find((command) => command.name() === name);
      if (found === undefined) throw unknownWord(name!, program, `command "${name}"`);
      found.outputHelp();
    });
  return program;
}

/** Commands that show servers, logs, calls and nodes, and `drain`. */
function addWatchingCommands({ command, input, done }: CommandParts): void {
  command('status', 'show all servers and what needs action, or the details of one')
    .argument('[server]', 'name of a server, or a configuration file')
    .action(async (word: string | undefined, flags: GatewayFlags) => {
      const { status } = await import('./servers/status.ts');
      done(await status({ ...input(flags), word }));
    });

  command('logs', 'show standard error and state changes of servers, and the log of the gateway')
    .addOption(new Option('-f, --follow', 'follow new lines, over restarts of the server; Ctrl-C ends it'))
    .addOption(new Option('-n, --lines <number>', 'number of existing lines').default(100).argParser(lines))
    .argument('[server]', 'only of this server')
    .action(
      async (
        server: string | undefined,
        flags: GatewayFlags & { readonly follow?: boolean; readonly lines: number },
      ) => {
        const { logs } = await import('./logs.ts');
        const { follow = false, lines: count } = flags;
        done(await logs({ ...input(flags), server, follow, lines: count }));
      },
    );

  command('calls', 'show what clients asked for and how it ended: the last calls, or with -f as they come')
    .addOption(new Option('-f, --follow', 'follow new calls; Ctrl-C ends it'))
    .addOption(new Option('-n, --lines <number>', 'number of earlier calls').default(20).argParser(lines))
    .argument('[filter...]', "such as: server:github tool:create_* status:error 'ms>500' -client:codex timeout")
    .action(async (filter: string[], flags: GatewayFlags & { readonly follow?: boolean; readonly lines: number }) => {
      const { calls } = await import('./calls/calls.ts');
      const { follow = false, lines: count } = flags;
      done(await calls({ ...input(flags), filter, follow, lines: count }));
    });

  command('trace', 'show where the time of one call went; `calls` prints the ids')
    .argument('<call>', 'id of the call')
    .action(async (call: string, flags: GatewayFlags) => {
      const { trace } = await import('./calls/calls.ts');
      done(await trace({ ...input(flags), call }));
    });

  command('top', 'show what servers do at the moment: calls, errors, latency').action(async (flags: GatewayFlags) => {
    const { top } = await import('./calls/top.ts');
    done(await top(input(flags)));
  });

  command('doctor', 'look at the machine, and try each server step by step; says what to do')
    .argument('[words...]', 'a configuration file, and names of servers (default: the nearest file, all servers)')
    .action(async (words: string[], flags: GatewayFlags) => {
      const { doctor } = await import('./doctor/doctor.ts');
      done(await doctor({ ...input(flags), words }));
    });

  command('nodes', 'list the nodes of the cluster and conflicts between their files').action(
    async (flags: GatewayFlags) => {
      const { nodes } = await import('./nodes.ts');
      done(await nodes(input(flags)));
    },
  );

  command('drain', 'make a node finish its calls, hand over and exit')
    .argument('[node]', 'name of the node (default: the node of this gateway)')
    .action(async (node: string | undefined, flags: GatewayFlags) => {
      const { drain } = await import('./nodes.ts');
      done(await drain({ ...input(flags), node }));
    });
}

/** Commands that start no gateway accept the options of its listeners but hide them: scripts and aliases may pass them. */
function addOptions(command: Command, serves = true, withJson = true): Command {
  for (const option of GATEWAY_OPTIONS) {
    const shown = serves || option.attributeName() === 'dataDir';
    command.addOption(shown ? option : Object.assign(Object.create(option), { hidden: true }));
  }
  // The program accepts any words, so that `refuseUnknown` can suggest a command; other commands refuse excess words.
  if (command.parent !== null) command.allowExcessArguments(false);
  const parent = command.parent?.parent == null ? command : command.parent;
  if (command.parent !== null) command.showHelpAfterError(`(trunkline help ${parent.name()} shows what it takes)`);
  return withJson ? command.addOption(JSON_OPTION) : command;
}

/** Commands that run a gateway. */
const GATEWAYS: ReadonlySet<string> = new Set(['start', 'stdio']);

/** Commands that accept `--server`: of a running gateway they use its control API only. */
const REMOTE: ReadonlySet<string> = new Set([
  'status',
  'logs',
  'tools',
  'nodes',
  'drain',
  'calls',
  'trace',
  'top',
  'drift',
  'access',
  'plan',
  'reload',
  'sessions',
  'tasks',
  'restart',
  'suspend',
  'resume',
  'remove',
]);

function addServerOptions(command: Command): Command {
  for (const option of SERVER_OPTIONS) command.addOption(option);
  return command;
}

/** Refuses a first word that neither is a file nor looks like one as an unknown command. */
function refuseUnknown(program: Command, cwd: string): void {
  const [word, ...more] = program.args;
  if (word === undefined) return;
  if (/^[a-z][a-z-]*$/i.test(word) && !existsSync(resolve(cwd, word))) {
    throw unknownWord(word, program, `command or file "${word}"`);
  }
  if (more.length > 0)
    throw usage(`one file is taken, and more was given: ${more.join(' ')}; a server's command follows "--"`);
}

/** Refuses a word that is not a subcommand after a command that has subcommands. */
function refuseUnknownWord(command: Command): void {
  const word = command.args[command.registeredArguments.length];
  if (command.parent === null || command.commands.length === 0 || word === undefined) return;
  const name = `${command.name()} ${word}`;
  const names = command.commands.map((one) => `${command.name()} ${one.name()}`);
  throw noSuch(`command "${name}"`, name, names, `; trunkline help ${command.name()} lists them`);
}

/** Command names of other programs, with the command to use instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  ...Object.fromEntries(['serve', 'run', 'up'].map((word) => [word, 'trunkline start starts the gateway'])),
  ...Object.fromEntries(['down', 'kill', 'quit'].map((word) => [word, 'trunkline stop ends the gateway'])),
  ...Object.fromEntries(['list', 'ls', 'ps', 'get'].map((word) => [word, 'trunkline status lists the servers'])),
  ...Object.fromEntries(['validate', 'lint'].map((word) => [word, 'trunkline check does that'])),
  ...Object.fromEntries(['rm', 'delete', 'uninstall'].map((word) => [word, 'trunkline remove does that'])),
  version: 'trunkline --version prints it',
  mcp: 'trunkline add, status and remove stand alone',
};

function unknownWord(word: string, { commands }: Command, what: string): CommandError {
  const known = word.toLowerCase();
  if (Object.hasOwn(ELSEWHERE, known)) return usage(`there is no ${what}; ${ELSEWHERE[known]}`);
  const names = commands.map((command) => command.name());
  return noSuch(what, word, names, '; trunkline --help lists the commands');
}

const COMMON: ReadonlySet<string> = new Set(['--data-dir', '--config', '--json', '--help']);

function isCommon({ long }: Option): boolean {
  return COMMON.has(long ?? '');
}

function stack(error: unknown): string {
  return `internal error, please report it: ${stackOf(error)}`;
}
