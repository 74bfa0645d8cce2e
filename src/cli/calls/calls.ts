import { styleText } from 'node:util';
import {
  attemptCarrier,
  attemptEnding,
  callName,
  callSpans,
  duration,
  outcomeLabel,
  UNNAMED_CLIENT,
} from '../../model/call-labels.ts';
import type { CallAttempt, CallRecord } from '../../model/call-record.ts';
import { printable } from '../../model/printable.ts';
import { ControlClient } from '../access/control-client.ts';
import { needRunning, runningClient } from '../access/find-running.ts';
import { follow as streamed } from '../access/follow.ts';
import { type CommandInput, reportSilentNodes } from '../command-input.ts';
import { EXIT, type ExitCode, usage } from '../exit-code.ts';
import { bytes, callLine } from './call-line.ts';

interface CallsInput extends CommandInput {
  /** Words of the filter; a call must match all of them. */
  readonly filter: readonly string[];
  readonly follow: boolean;
  readonly lines: number;
}

/** `trunkline calls [filter…] [-f]`: prints one line per call of a client, with its result. */
export async function calls(input: CallsInput): Promise<ExitCode> {
  const { terminal, flags, filter, lines } = input;
  const running = await needRunning(input);
  const query = new URLSearchParams({ filter: filter.join(' ') });
  const printCall = (call: CallRecord): void =>
    terminal.out(`${flags.json === true ? JSON.stringify(call) : callLine(call)}\n`);
  const earlier = async (): Promise<readonly CallRecord[]> => {
    if (lines === 0) return [];
    const answer = await new ControlClient(running).get(`/api/v1/calls?${query}&limit=${lines}`);
    const listed = JSON.parse(answer) as { calls: CallRecord[]; silent?: string[] };
    reportSilentNodes(input, listed);
    return listed.calls;
  };
  if (!input.follow) {
    const found = await earlier();
    for (const call of found) printCall(call);
    if (found.length === 0 && lines > 0) terminal.err(filter.length === 0 ? '(no calls yet)\n' : '(no call matches)\n');
    return EXIT.ok;
  }
  // Reads earlier calls once the stream has begun, so that none is missed; `printed` drops a call that is in both.
  const printed = new Set<string>();
  let started = false;
  return streamed(running, `/api/v1/live?${query}`, async (json) => {
    const event = JSON.parse(json) as { topic: string; calls: CallRecord[]; lost: boolean };
    if (event.topic === 'hello' && !started) {
      started = true;
      for (const call of await earlier()) {
        printed.add(call.id);
        printCall(call);
      }
    }
    if (event.topic !== 'calls') return;
    if (event.lost) terminal.err(styleText('yellow', '… some calls are missing here: there were too many to follow\n'));
    for (const call of event.calls) if (!printed.delete(call.id)) printCall(call);
  });
}

/** `trunkline trace <call>`: the timeline of one call, with the nodes it crossed. */
export async function trace(input: CommandInput & { readonly call: string }): Promise<ExitCode> {
  const { terminal, flags } = input;
  if (!/^[\w.~-]+$/.test(input.call)) {
    throw usage(`"${printable(input.call)}" is no id of a call; trunkline calls has them at the end of its lines`);
  }
  const client = await runningClient(input);
  const answer = await client.get(`/api/v1/calls/${encodeURIComponent(input.call)}`);
  if (flags.json === true) terminal.out(`${answer}\n`);
  else terminal.out(`${traceText(JSON.parse(answer) as CallRecord)}\n`);
  return EXIT.ok;
}

const WIDTH = 40;

/** The spans of the call as bars on its timeline, with the facts below. */
function traceText(call: CallRecord): string {
  const { ms } = call;
  const spans = callSpans(call).map((span) => ({ ...span, shown: `${span.attempt ? '  ' : ''}${span.label}` }));
  const width = Math.max(...spans.map(({ shown }) => shown.length));
  const bar = ({ shown, from, to }: (typeof spans)[number]): string => {
    const start = ms === 0 ? 0 : Math.min(WIDTH - 1, Math.floor((from / ms) * WIDTH));
    const length = Math.max(1, Math.round(((to - from) / (ms || 1)) * WIDTH));
    const drawn = `${' '.repeat(start)}${'█'.repeat(Math.min(length, WIDTH - start))}`.padEnd(WIDTH);
    return `  ${shown.padEnd(width)}  ${styleText('cyan', drawn)}  ${duration(to - from)}`;
  };
  const facts = {
    id: call.id,
    ...(call.asked === undefined ? {} : { asked: `${call.asked} (unknown)` }),
    time: call.time,
    ended: `${outcomeLabel(call)}${call.reason === null ? '' : `: ${call.reason}`}`,
    method: `${call.method}, revision ${call.revision}, at ${call.endpoint}`,
    caller: `${call.client ?? UNNAMED_CLIENT}, principal ${call.principal}${call.session === null ? '' : `, session ${call.session}`}`,
    sizes: `${bytes(call.requestBytes)} in, ${bytes(call.answerBytes)} out`,
    request: `${call.request} in the log`,
    ...(call.trace === null ? {} : { trace: call.trace }),
  };
  return [
    styleText('bold', callName(call)),
    ...spans.map(bar),
    ...Object.entries(facts).map(([name, value]) => fact(name, value)),
    ...spans.flatMap(({ label, attempt }) => (attempt === undefined ? [] : fact(label, attemptText(attempt)))),
  ].join('\n');
}

function fact(name: string, value: string): string {
  return `  ${styleText('gray', name.padEnd(7))} ${value}`;
}

function attemptText(attempt: CallAttempt): string {
  const who = [`at ${duration(attempt.atMs)}`, attemptCarrier(attempt)].filter(Boolean).join(', ');
  return `${who}: ${attemptEnding(attempt)}`;
}
