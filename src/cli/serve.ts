import type { App } from '../app/app.ts';
import { keyReference, programCommand } from '../app/clients/connect.ts';
import { announceFolder } from '../app/gateway-folders.ts';
import { LOG_FILE, LogFile } from '../app/log-file.ts';
import { openApp } from '../app/open-app.ts';
import { processLogger, recordText } from '../app/process-logger.ts';
import { hasStoredServers } from '../app/running.ts';
import type { InputPrompt } from '../config/document/inputs.ts';
import { renderProblem } from '../config/problem/problem.ts';
import { isWildcardAddress } from '../http/address.ts';
import { unsafeExposure } from '../model/desired-state.ts';
import { isLoopbackHost } from '../model/host-address.ts';
import { keptPorts, withUsualPorts } from './access/own-ports.ts';
import { clientsByLink } from './clients/links.ts';
import type { CommandInput } from './command-input.ts';
import { cannotOpen, type ExitCode, usage } from './exit-code.ts';
import type { StartFacts } from './screen/start-header.ts';
import { StartScreen } from './screen/start-screen.ts';
import { untilStopped } from './signals.ts';
import { loadOptions, sourceLabel } from './sources.ts';
import { withheldNote } from './variables.ts';

/**
 * `trunkline [file]`: starts the gateway and runs until a signal stops it. `tries` limits the attempts to choose ports: if
 * several gateways start at once and choose the same ports, one binds them and the others choose again.
 */
export async function serve(given: CommandInput, tries = 20): Promise<ExitCode> {
  const port = given.flags.port ?? portOfPlatform(given.terminal.env);
  const input = port === undefined ? given : { ...given, flags: { ...given.flags, port } };
  const { terminal, flags } = input;
  const json = flags.json === true;
  const isTerminal = process.stdout.isTTY === true && process.stderr.isTTY === true;
  // The log is shown if it goes to a file or an option asks for it; on a terminal it would break up the rows.
  const { inBackground = false } = flags;
  const quiet = isTerminal && !json && flags.log !== true && flags.logLevel === undefined;
  // A background process logs to the bounded file in the data folder only.
  const { out, err } = inBackground ? { out: () => {}, err: () => {} } : terminal;
  const screen = new StartScreen({ out, err, quiet }, terminal.env);
  const ask: InputPrompt | null = terminal.ask && ((question) => screen.pauseWhile(() => terminal.ask!(question)));
  const asking = { ...input, terminal: { ...terminal, ask } };
  const load = await withUsualPorts(input, loadOptions(asking, hasStoredServers(flags.dataDir, terminal)));
  const write = quiet ? () => {} : isTerminal && !json ? (line: string) => screen.write(line) : err;
  const logger = processLogger({ level: flags.logLevel ?? 'warn', json, write });
  logger.subscribe((entry) => screen.onLogEntry(entry, (text) => logger.redact(text)));
  const restartArgs = inBackground ? (await import('./gateways/background.ts')).wordsOf(input, load.files?.[0]) : null;
  const opened = await openApp({ load, logger, state: 'data', follow: true, restartArgs });
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  const { app, notPersistedReason } = opened;
  logger.level = app.state.logLevel;
  const { folder } = app.components;
  const logFile = folder === null ? null : new LogFile(folder.file(LOG_FILE), logger);
  const unused = new AbortController();
  const stopped = untilStopped(app, unused.signal);
  const addresses = await app.listen().catch(async (error: Error) => {
    await app.close('shutdown');
    unused.abort();
    logFile?.close();
    const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
    if (isTaken && tries > 1 && load.overrides?.usual?.port === app.state.listen.port) return null;
    throw usage(error.message, { cause: error });
  });
  if (addresses === null) return serve(input, tries - 1);
  const otherPort = keptPorts(load, folder, addresses.mcpUrl);
  const forget = folder === null ? () => {} : announceFolder(folder.path, terminal.env);
  void stopped.finally(() => {
    forget();
    logFile?.close();
  });
  const facts: StartFacts = {
    version: terminal.version,
    program: programCommand(terminal.env),
    readyMs: Math.round(performance.now()),
    ...addresses,
    consoleUrl: app.components.console.link(app.addresses.controlUrl),
    source: sourceLabel(load),
    problems: app.components.loaded.misconfigured.map((problem) => renderProblem(problem, terminal.cwd)),
    warnings: [
      ...[notPersistedReason, otherPort, withheldNote(input)].filter((text) => text !== null),
      ...openness(app),
      ...app.components.loaded.warnings.map((warning) => renderProblem(warning, terminal.cwd)),
    ],
    clients: json ? { linked: [], others: [] } : clientsByLink(input, addresses.mcpUrl),
    key: keyReference(app.state, terminal.env),
    onAllAddresses: isWildcardAddress(app.state.listen.host) ? app.state.listen.host : null,
  };
  if (json) {
    const { clients: _, program: __, consoleUrl: ___, key, ...listening } = facts;
    const time = new Date().toISOString();
    terminal.out(`${recordText({ time, event: 'listening', ...listening, needsKey: key !== null })}\n`);
  } else screen.begin(app, facts);
  app.startServers();
  return stopped;
}

/**
 * `PORT`, by which platforms such as Cloud Run say where they expect a container to listen. On a machine of a person the variable
 * can belong to another program, so it counts only beside `TRUNKLINE_HOST`, which the image sets.
 */
function portOfPlatform({ PORT = '', TRUNKLINE_HOST = '' }: NodeJS.ProcessEnv): number | undefined {
  return /^\d{1,5}$/.test(PORT) && TRUNKLINE_HOST !== '' ? Number(PORT) : undefined;
}

/** Warnings about what `--insecure` and `listen.insecure` expose. */
function openness({ state }: App): readonly string[] {
  const { listen, control, agents, unknownCallers } = state;
  const { authenticated = true, encrypted = true } =
    unsafeExposure({ ...listen, insecure: false }, unknownCallers, agents.size > 0) ?? {};
  const key = authenticated ? '' : ' Every machine that reaches it may call every tool, without a key.';
  const plain = encrypted ? '' : ' What is sent can be read on the way.';
  const main = key + plain === '' ? [] : [`Listening on ${listen.host} without protection (--insecure).${key}${plain}`];
  if (isLoopbackHost(control.host) || control.tls !== null) return main;
  return [
    ...main,
    `The control API listens on ${control.host}, unencrypted (--insecure): its token can be read on the way.`,
  ];
}
