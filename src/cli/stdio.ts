import { resolve } from 'node:path';
import { openApp } from '../app/open-app.ts';
import { processLogger } from '../app/process-logger.ts';
import { hasStoredServers } from '../app/running.ts';
import { bridgeStdio } from '../app/stdio-bridge.ts';
import { findRunning } from './access/find-running.ts';
import type { CommandInput } from './command-input.ts';
import { cannotOpen, EXIT, type ExitCode } from './exit-code.ts';
import { untilStopped } from './signals.ts';
import { loadOptions } from './sources.ts';

/**
 * `trunkline stdio`: MCP on standard input and output. If a gateway already runs for the same files, this is a bridge to it,
 * so that several clients share its servers; otherwise it starts a gateway of its own. Standard output carries MCP messages
 * only.
 */
export async function stdio(input: CommandInput): Promise<ExitCode> {
  const { terminal } = input;
  // Clients keep or show what a server logs, so `log.level` does not count here.
  const flags = { ...input.flags, logLevel: input.flags.logLevel ?? 'warn' };
  // The MCP client owns standard input, so the command cannot prompt.
  const allowEmpty = hasStoredServers(flags.dataDir, terminal) || (await findRunning(input)) !== null;
  const load = loadOptions({ ...input, flags, terminal: { ...terminal, ask: null } }, allowEmpty);
  const logger = processLogger({ level: flags.logLevel, json: flags.json === true, write: terminal.err });
  const streams = { input: process.stdin, output: process.stdout };
  const [wanted] = load.files ?? [];
  const file = wanted === undefined ? undefined : resolve(load.cwd, wanted);
  const running = await findRunning({ ...input, file });
  if (running !== null) {
    logger.info('bridging', { to: running.instance.mcpUrl, pid: running.instance.pid });
    const bridge = bridgeStdio(streams, { url: running.instance.mcpUrl, env: terminal.env, key: flags.key, logger });
    // `once`: a second SIGTERM ends the process.
    process.once('SIGTERM', () => bridge.drain());
    await bridge.closed;
    process.stdin.destroy();
    return EXIT.ok;
  }
  const opened = await openApp({ load, logger, state: 'instance', follow: true });
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  const { app } = opened;
  app.startServers();
  const handler = app.components.downstream.stdio(streams);
  const gone = handler.closed.then(async (): Promise<ExitCode> => {
    await app.close('shutdown');
    return EXIT.ok;
  });
  const code = await Promise.race([untilStopped(app), gone]);
  // The client may keep its end of the pipe open.
  process.stdin.destroy();
  return code;
}
