import type { App } from '../app/app.ts';
import { announceFolder } from '../app/gateway-folders.ts';
import { openApp } from '../app/open-app.ts';
import { processLogger } from '../app/process-logger.ts';
import { hasStoredServers } from '../app/running.ts';
import { renderProblem } from '../config/problem/problem.ts';
import { unsafeExposure } from '../model/desired-state.ts';
import { isLoopbackHost } from '../model/host-address.ts';
import { keptPorts, withUsualPorts } from './access/own-ports.ts';
import { unlinked } from './clients/links.ts';
import type { CommandInput } from './command-input.ts';
import { CommandError, cannotOpen, EXIT, type ExitCode } from './exit-code.ts';
import { untilStopped } from './signals.ts';
import { loadOptions, sourceLabel } from './sources.ts';
import { isSettled, type StartFacts, serverLine, startHeader, startSummary } from './start-screen.ts';

const WATCH_MS = 50;

/** `trunkline [file]`: starts the gateway and runs until a signal stops it. */
export async function serve(input: CommandInput): Promise<ExitCode> {
  const { terminal, flags } = input;
  const load = await withUsualPorts(input, loadOptions(input, hasStoredServers(flags.dataDir, terminal)));
  const logger = processLogger({ level: flags.logLevel ?? 'warn', json: flags.json === true, write: terminal.err });
  const opened = await openApp({ load, logger, state: 'data', follow: true });
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  const { app, notKept } = opened;
  // On a terminal the start screen is what people read; the log tells only what needs attention.
  if (flags.logLevel === undefined && process.stderr.isTTY !== true) logger.level = app.state.logLevel;
  const stopped = untilStopped(app);
  const addresses = await app.listen().catch(async (error: Error) => {
    await app.close('shutdown');
    throw new CommandError(EXIT.usage, error.message, { cause: error });
  });
  const { folder } = app.rooms;
  const otherPort = keptPorts(load, folder, addresses.mcpUrl);
  const forget = folder === null ? () => {} : announceFolder(folder.path, terminal.env);
  void stopped.finally(forget);
  const facts: StartFacts = {
    version: terminal.version,
    readyMs: Math.round(performance.now()),
    ...addresses,
    source: sourceLabel(load),
    problems: app.rooms.loaded.misconfigured.map((problem) => renderProblem(problem, terminal.cwd)),
    warnings: [
      ...[notKept, otherPort].filter((text) => text !== null),
      ...openness(app),
      ...app.rooms.loaded.warnings.map((warning) => renderProblem(warning, terminal.cwd)),
    ],
    clients: flags.json === true ? [] : unlinked(input).map(({ title }) => title),
    needsKey: app.state.agents.size > 0 && app.state.unknownCallers === 'refuse',
    onAllAddresses: ANY_ADDRESS.has(app.state.listen.host) ? app.state.listen.host : null,
  };
  if (flags.json === true) {
    terminal.out(`${JSON.stringify({ event: 'listening', ...facts })}\n`);
    app.startServers();
  } else {
    terminal.out(startHeader(facts));
    app.startServers();
    tellServers(app, facts, terminal.out);
  }
  return stopped;
}

const ANY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/** What `--insecure` and `listen.insecure` let in. */
function openness({ state }: App): readonly string[] {
  const { listen, control, agents, unknownCallers } = state;
  const { authenticated = true, encrypted = true } =
    unsafeExposure({ ...listen, insecure: false }, unknownCallers, agents.size > 0) ?? {};
  const key = authenticated ? '' : ' Every machine that reaches it may call every tool, without a key.';
  const plain = encrypted ? '' : ' What is sent can be read on the way.';
  const main = key + plain === '' ? [] : [`Listening on ${listen.host} without protection (--insecure).${key}${plain}`];
  if (isLoopbackHost(control.host)) return main;
  return [
    ...main,
    `The control API listens on ${control.host}, unencrypted (--insecure): its token can be read on the way.`,
  ];
}

/** Prints a line per server as it comes up or fails, and the summary when the last has. */
function tellServers(app: App, facts: StartFacts, out: (text: string) => void): void {
  const reported = new Set<string>();
  const look = (): void => {
    const statuses = app.rooms.upstreams.statuses();
    const width = Math.max(0, ...statuses.map(({ name }) => name.length));
    for (const status of statuses) {
      const lazy = app.state.servers.get(status.name)?.start === 'lazy';
      if (reported.has(status.name) || !(lazy || isSettled(status))) continue;
      reported.add(status.name);
      out(`${serverLine(status, width, Date.now())}\n`);
    }
    if (statuses.every(({ name }) => reported.has(name))) out(startSummary(statuses, facts));
    else if (app.readiness().ready) setTimeout(look, WATCH_MS).unref();
  };
  look();
}
