import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { styleText } from 'node:util';
import { openApp } from '../../app/open-app.ts';
import { controlPlane } from '../../app/plane.ts';
import { type TestedServer, testFile } from '../../app/replay/test-file.ts';
import { hasStoredServers, type RunningGateway } from '../../app/running.ts';
import { counted, countedOrNo } from '../../model/counted.ts';
import { printable } from '../../model/printable.ts';
import {
  type Difference,
  MAX_REPLAY_BYTES,
  type Replay,
  type ReplayOptions,
  type ReplayTest,
} from '../../model/recordings.ts';
import { DOWN, type ServerStatus, UP } from '../../model/server-state.ts';
import { ControlClient } from '../access/control-client.ts';
import { findRunning } from '../access/find-running.ts';
import { type CommandInput, print } from '../command-input.ts';
import { commandLogger } from '../command-logger.ts';
import { CommandError, cannotOpen, EXIT, type ExitCode, noSuch, usage } from '../exit-code.ts';
import { loadOptions } from '../sources.ts';

export interface ReplayFlags {
  readonly server?: string;
  readonly command?: string;
  readonly url?: string;
  readonly of?: string;
  readonly ignore: readonly string[];
  readonly test?: string;
}

type ReplayInput = CommandInput & { readonly recording: string; readonly replay: ReplayFlags };

/** Name of the server if the command line defines it. */
const REPLAYED = 'replayed';
const START_MS = 60_000;
const POLL_MS = 25;

/** `trunkline replay`: exit code 0 if all answers are as recorded, 1 otherwise. */
export async function replay(input: ReplayInput): Promise<ExitCode> {
  const { terminal, recording } = input;
  const { server, command, url, of = null, ignore, test } = input.replay;
  const defined = definitionOf(command, url);
  if (server === undefined && defined === null) {
    throw usage('say which server to replay against: --server, --command or --url');
  }
  const jsonl = readRecording(resolve(terminal.cwd, recording));
  const options = { server: server ?? REPLAYED, of, ignore };
  const running = defined === null ? await findRunning(input) : null;
  if (test !== undefined) {
    const text = await testText(jsonl, options, defined, running);
    return writeTest(input, test, text);
  }
  const replayed =
    running === null
      ? await replayHere(input, jsonl, options, defined)
      : (JSON.parse(
          await new ControlClient(running).post('/api/v1/replays', JSON.stringify({ ...options, jsonl })),
        ) as Replay);
  print(input, replayed, () => replayText(replayed));
  return replayed.differences.length === 0 ? EXIT.ok : EXIT.difference;
}

/** The text of a test against the server of the command line, or against one at the endpoint of the running gateway. */
async function testText(
  jsonl: string,
  options: ReplayOptions,
  defined: TestedServer | null,
  running: RunningGateway | null,
): Promise<string> {
  if (defined !== null) {
    const written = testFile(jsonl, options, defined);
    if ('problem' in written) throw usage(written.problem);
    return written.text;
  }
  if (running === null) throw usage('a test needs --command, --url or a gateway that runs');
  const answer = await new ControlClient(running).post('/api/v1/replay-tests', JSON.stringify({ ...options, jsonl }));
  return (JSON.parse(answer) as ReplayTest).text;
}

function writeTest({ terminal }: CommandInput, file: string, text: string): ExitCode {
  try {
    writeFileSync(resolve(terminal.cwd, file), text);
  } catch (error) {
    throw usage(`the test ${file} cannot be written: ${(error as Error).message}`);
  }
  terminal.err(
    `(wrote ${file}; run it with: node --test ${file}; it needs npm install @modelcontextprotocol/client)\n`,
  );
  return EXIT.ok;
}

/** Replays in a gateway that exists for this command only and persists nothing. */
async function replayHere(
  input: ReplayInput,
  jsonl: string,
  options: ReplayOptions,
  defined: object | null,
): Promise<Replay> {
  const { flags, terminal } = input;
  const logger = commandLogger(input);
  const text = JSON.stringify({ servers: { [options.server]: { drift: 'off', ...defined } } });
  const alone = { cwd: terminal.cwd, env: terminal.env, inline: [{ label: 'the command line', text }] };
  const load = defined === null ? loadOptions(input, hasStoredServers(flags.dataDir, terminal)) : alone;
  const opened = await openApp({ load, logger, state: defined === null ? 'look' : 'none', follow: false });
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  const { app } = opened;
  try {
    const { servers } = app.state;
    if (!servers.has(options.server)) {
      throw noSuch(`server "${options.server}"`, options.server, [...servers.keys()]);
    }
    app.startServers();
    if (defined !== null) await waitUntilStarted(app.components.upstreams, options.server);
    const replayed = await controlPlane(app.components, app).replay(jsonl, options, new AbortController().signal);
    if (typeof replayed === 'string') throw usage(replayed);
    return replayed;
  } finally {
    await app.close('shutdown');
  }
}

/** Waits for the server of the command line. Rejects if it does not come up: every answer would differ. */
export async function waitUntilStarted(
  upstreams: { status(server: string): Pick<ServerStatus, 'state' | 'reason'> | null },
  server: string,
  withinMs = START_MS,
): Promise<void> {
  for (const end = performance.now() + withinMs; ; await pause(POLL_MS)) {
    const { state = 'unknown', reason = null } = upstreams.status(server) ?? {};
    if (UP.has(state)) return;
    const isDown = DOWN.has(state);
    if (!isDown && performance.now() < end) continue;
    const last = reason === null ? '' : ` (${reason})`;
    const late = `it is still ${state} after ${withinMs / 1000} s${last}; trunkline doctor tries a server step by step`;
    throw new CommandError(
      EXIT.unreachable,
      `the server cannot be replayed against: ${isDown ? (reason ?? state) : late}`,
    );
  }
}

function definitionOf(command: string | undefined, url: string | undefined) {
  if (url !== undefined) return { url };
  if (command === undefined) return null;
  if (/^(?:"[^"]*"|'[^']*'|[^"'])*$/.exec(command) === null) {
    throw usage(`--command has an open quotation mark: ${command}`);
  }
  // Splits words as a shell does, without expansions.
  const words = [...command.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) =>
    word.replaceAll(/"([^"]*)"|'([^']*)'/g, '$1$2'),
  );
  const [program, ...args] = words;
  if (program === undefined) throw usage('--command is empty');
  return { command: program, args };
}

function readRecording(file: string): string {
  try {
    const { size } = statSync(file);
    if (size > MAX_REPLAY_BYTES) throw new Error(`it has ${size} bytes, more than ${MAX_REPLAY_BYTES}`);
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw usage(`the recording ${file} cannot be read: ${(error as Error).message}`);
  }
}

function replayText({ server, replayed, skipped, differences }: Replay): string {
  const left = skipped.map((one) => `not replayed: ${printable(one)}\n`).join('');
  const words = countedOrNo(differences.length, 'difference');
  const of = counted(replayed, 'answer');
  return `${differences.map(place).join('')}${left}${of} of ${server} compared with the recording: ${words}\n`;
}

function place({ step, request, path, before, after }: Difference): string {
  const head = step === 0 ? request : `${step} ${request}`;
  const [was, is] = [printable(before ?? '(nothing)'), printable(after ?? '(nothing)')];
  return `${printable(head)}\n  ${printable(path)}\n${styleText('red', `  - ${was}`)}\n${styleText('green', `  + ${is}`)}\n`;
}
