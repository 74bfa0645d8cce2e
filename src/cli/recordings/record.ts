import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { printable } from '../../model/printable.ts';
import type { RecordingView } from '../../model/recordings.ts';
import type { ControlClient } from '../access/control-client.ts';
import { runningClient } from '../access/find-running.ts';
import { type CommandInput, print, reportSilentNodes } from '../command-input.ts';
import { EXIT, type ExitCode, usage } from '../exit-code.ts';
import { abortedBySignals } from '../interrupted.ts';

export interface RecordFlags {
  readonly session?: string;
  readonly client?: string;
  readonly principal?: string;
  readonly server?: string;
  readonly output?: string;
  readonly maxEntries?: number;
}

const LOOK_MS = 500;

/**
 * `trunkline record`: records until Ctrl-C, `record stop` or the end of the session, then writes the recording and deletes it
 * from the gateway.
 */
export async function record(input: CommandInput & { readonly record: RecordFlags }): Promise<ExitCode> {
  const { terminal } = input;
  const { session, client, principal, server, output, maxEntries } = input.record;
  if ((session ?? client ?? principal ?? server) === undefined) {
    throw usage('say what to record: --session, --client, --principal or --server');
  }
  const control = await runningClient(input);
  const wanted = { session, client, principal, server, maxEntries };
  const started = JSON.parse(await control.post('/api/v1/recordings', JSON.stringify(wanted))) as RecordingView;
  const path = `/api/v1/recordings/${started.id}`;
  terminal.err(`(recording ${started.id}; Ctrl-C ends it)\n`);
  const wasStopped = await abortedBySignals(async ({ signal }) => {
    while (!signal.aborted && (await viewOf(control, started.id)).state !== 'stopped') {
      await pause(LOOK_MS, undefined, { signal }).catch(() => {});
    }
    return signal.aborted;
  });
  await control.send('POST', `${path}/stop`, null).catch((error: Error) => {
    // The nodes that answered have stopped; their parts are written.
    if ((error.cause as { readonly code?: unknown } | undefined)?.code !== 'node_silent') throw error;
  });
  const view = await writeRecording(input, control, started.id, output);
  const lost = await terminal.written?.();
  if (lost != null)
    throw usage(
      `standard output cannot be written: ${lost.message}; the gateway keeps it: trunkline record get ${started.id}`,
    );
  if (view.isComplete) await control.send('DELETE', path, null);
  else terminal.err(`(the gateway keeps it: trunkline record get ${started.id})\n`);
  const words = view.reason === null || wasStopped ? '' : `: ${view.reason}`;
  terminal.err(`(${view.entries} messages of ${view.servers.join(', ') || 'no server'}${words})\n`);
  return EXIT.ok;
}

/** `trunkline record list` */
export async function recordings(input: CommandInput): Promise<ExitCode> {
  const control = await runningClient(input);
  const json = await control.get('/api/v1/recordings');
  const { recordings: all, ...rest } = JSON.parse(json) as { recordings: RecordingView[]; silent?: string[] };
  reportSilentNodes(input, rest);
  print(input, json, () => (all.length === 0 ? 'no recordings\n' : all.map(line).join('')));
  return EXIT.ok;
}

/** `trunkline record get` */
export async function getRecording(input: CommandInput, id: string, output?: string): Promise<ExitCode> {
  await writeRecording(input, await runningClient(input), id, output);
  return EXIT.ok;
}

/** `trunkline record stop` and `trunkline record delete` */
export async function changeRecording(input: CommandInput, change: 'stop' | 'delete', id: string): Promise<ExitCode> {
  const control = await runningClient(input);
  const path = `/api/v1/recordings/${encodeURIComponent(id)}`;
  const json = await (change === 'stop'
    ? control.send('POST', `${path}/stop`, null)
    : control.send('DELETE', path, null));
  print(input, json, () =>
    change === 'stop' ? line(JSON.parse(json) as RecordingView) : `removed ${printable(id)}\n`,
  );
  return EXIT.ok;
}

async function viewOf(control: ControlClient, id: string): Promise<RecordingView> {
  const { recordings: all } = JSON.parse(await control.get('/api/v1/recordings')) as { recordings: RecordingView[] };
  const found = all.find((one) => one.id === id);
  if (found === undefined) throw usage(`recording ${id} was deleted`);
  return found;
}

/** `isComplete`: all nodes that may have a part of the recording have answered. */
async function writeRecording(
  input: CommandInput,
  control: ControlClient,
  id: string,
  output: string | undefined,
): Promise<RecordingView & { readonly isComplete: boolean }> {
  const { terminal } = input;
  const answer = await control.get(`/api/v1/recordings/${encodeURIComponent(id)}`);
  const { recording, jsonl, ...rest } = JSON.parse(answer) as {
    recording: RecordingView;
    jsonl: string;
    silent?: string[];
  };
  if (output === undefined) terminal.out(jsonl);
  else {
    try {
      writeFileSync(resolve(terminal.cwd, output), jsonl, { mode: 0o600 });
    } catch (error) {
      throw usage(`${(error as Error).message}; the gateway keeps the recording ${id}`);
    }
  }
  return { ...recording, isComplete: !reportSilentNodes(input, rest) };
}

function line({ id, state, reason, entries, bytes, servers, session, client, principal }: RecordingView): string {
  const what = session ?? client ?? principal ?? 'all sessions';
  const why = reason === null ? '' : ` (${reason})`;
  return printable(
    `${id}  ${state}${why}  ${what}  ${servers.join(', ') || '-'}  ${entries} messages, ${bytes} bytes`,
  ).concat('\n');
}
