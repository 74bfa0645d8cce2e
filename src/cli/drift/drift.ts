import type { DriftReport, WaitingDefinition } from '../../model/drift.ts';
import type { ControlClient } from '../access/control-client.ts';
import { runningClient } from '../access/find-running.ts';
import { type CommandInput, print } from '../command-input.ts';
import { CommandError, EXIT, type ExitCode, noSuch } from '../exit-code.ts';
import { reportText, seenCode, visible, waitingText } from './drift-text.ts';

export interface DriftInput extends CommandInput {
  readonly server: string | undefined;
  /** Something that waits is an exit code of its own. */
  readonly check: boolean;
}

export interface DecisionInput extends CommandInput {
  readonly server: string;
  /** Names of tools, prompts or templates, `instructions`, or `list/name` where one name is in two lists. */
  readonly names: readonly string[];
  readonly all: boolean;
  /** The code of what was shown, to decide about that and nothing later. */
  readonly seen?: string | undefined;
  /** Whatever is there by then. */
  readonly unseen?: boolean;
}

/** `trunkline drift [server]`: what servers offer against what was approved of them. */
export async function drift(input: DriftInput): Promise<ExitCode> {
  const { server, check } = input;
  const reports = await reportsOf(await runningClient(input));
  const shown = server === undefined ? reports : [oneOf(reports, server)];
  print(input, { servers: shown }, () => shown.map(reportText).join(''));
  return check && shown.some(({ waiting }) => waiting.length > 0) ? EXIT.drift : EXIT.ok;
}

/**
 * `trunkline drift approve <server> [name…]`: what was seen before, by its code, or is shown now to a person who says yes;
 * nothing if the server changes it meanwhile.
 */
export async function approve(input: DecisionInput): Promise<ExitCode> {
  const { server, names, all, seen, unseen = false } = input;
  if (all === names.length > 0) throw new CommandError(EXIT.usage, 'say which: names of definitions, or --all');
  const client = await runningClient(input);
  const { waiting } = oneOf(await reportsOf(client), server);
  if (seen !== undefined && seen !== seenCode(waiting)) {
    const now = 'what waits is another than what was shown with this code, so nothing was approved';
    throw new CommandError(EXIT.usage, `${now}; look again: trunkline drift ${server}`);
  }
  const chosen = all ? waiting : names.flatMap((name) => namedIn(waiting, name));
  if (chosen.length === 0) throw new CommandError(EXIT.usage, `nothing of ${server} waits for approval`);
  if (seen === undefined && !unseen) await beSeen(input, chosen);
  const definitions = chosen.map(({ list, key, digest }) => ({ list, key, digest }));
  return decide(input, client, 'approve', definitions, chosen);
}

/** Approving what is there by then would approve what a server put there a moment ago. */
async function beSeen({ terminal, flags, server }: DecisionInput, chosen: readonly WaitingDefinition[]): Promise<void> {
  const how = `trunkline drift ${server} shows it, with the code for --seen; --unseen approves whatever is there`;
  if (terminal.ask === null || flags.json === true) {
    throw new CommandError(EXIT.usage, `nothing was approved, because it was never listed: ${how}`);
  }
  for (const one of chosen) terminal.err(`${waitingText(one).join('\n')}\n`);
  const description = `approve ${chosen.length === 1 ? 'this definition' : `these ${chosen.length} definitions`} of ${server}?`;
  const answer = await terminal.ask({ id: 'yes or no', description, password: false });
  if (!/^y(es)?$/i.test(answer?.trim() ?? '')) throw new CommandError(EXIT.usage, 'nothing was approved');
}

/** `trunkline drift block <server> <name…>`: also of unchanged definitions. */
export async function block(input: DecisionInput): Promise<ExitCode> {
  const client = await runningClient(input);
  const { waiting } = oneOf(await reportsOf(client), input.server);
  const definitions = input.names.map((name) => {
    const known = waiting.find((one) => isNamed(one, name));
    if (known !== undefined) return { list: known.list, key: known.key };
    const [, list = 'tools', key = name] = /^(tools|prompts|resourceTemplates)\/(.+)$/s.exec(name) ?? [];
    return name === 'instructions' ? { list: 'instructions', key: '' } : { list, key };
  });
  return decide(input, client, 'block', definitions, []);
}

/** `trunkline drift history <server>`: what was seen and decided, the newest first. */
export async function history(
  input: CommandInput & { readonly server: string; readonly lines: number },
): Promise<ExitCode> {
  const { server, lines } = input;
  const client = await runningClient(input);
  oneOf(await reportsOf(client), server);
  const answer = await client.get(`${path(server)}/history?limit=${Math.max(1, lines)}`);
  print(input, answer, () => (JSON.parse(answer) as { events: HistoryEvent[] }).events.map(historyLine).join(''));
  return EXIT.ok;
}

function historyLine({ at, kind, name, severity, by, text }: HistoryEvent): string {
  const what = name === null ? '' : ` ${name.list}${name.key === '' ? '' : `/${visible(name.key)}`}`;
  const who = by === null ? '' : ` by ${visible(by)}`;
  const how = [severity, visible(text)].filter((part) => part !== null && part !== '').join(': ');
  return `${at} ${kind}${what}${who}${how === '' ? '' : ` (${how})`}\n`;
}

interface HistoryEvent {
  readonly at: string;
  readonly kind: string;
  readonly name: { readonly list: string; readonly key: string } | null;
  readonly severity: string | null;
  readonly by: string | null;
  readonly text: string;
}

async function decide(
  input: DecisionInput,
  client: ControlClient,
  decision: 'approve' | 'block',
  definitions: readonly { readonly list: string; readonly key: string }[],
  chosen: readonly WaitingDefinition[],
): Promise<ExitCode> {
  const answer = await client.post(`${path(input.server)}/${decision}`, JSON.stringify({ definitions }));
  const text = (): string => {
    const approved = chosen.map(
      (one) => `${waitingText(one).join('\n')}\n    approved: ${one.digest ?? 'that it is gone'}\n`,
    );
    const left = (JSON.parse(answer) as DriftReport).waiting.length;
    const done = decision === 'approve' ? 'approved' : 'blocked';
    return `${approved.join('')}${definitions.length} ${done} of ${input.server}; ${left} waiting\n`;
  };
  print(input, answer, text);
  return EXIT.ok;
}

async function reportsOf(client: ControlClient): Promise<readonly DriftReport[]> {
  return (JSON.parse(await client.get('/api/v1/drift')) as { servers: DriftReport[] }).servers;
}

function oneOf(reports: readonly DriftReport[], server: string): DriftReport {
  const found = reports.find((report) => report.server === server);
  if (found !== undefined) return found;
  const names = reports.map((report) => report.server);
  throw noSuch(`server "${server}"`, server, names);
}

function namedIn(waiting: readonly WaitingDefinition[], name: string): readonly WaitingDefinition[] {
  const found = waiting.filter((one) => isNamed(one, name));
  if (found.length === 0) throw new CommandError(EXIT.usage, `nothing named ${visible(name)} waits for approval`);
  if (new Set(found.map(({ list }) => list)).size === 1) return found;
  const choices = found.map(({ list, key }) => `${list}/${visible(key)}`).join(' or ');
  throw new CommandError(EXIT.usage, `${visible(name)} is in several lists: use ${choices}`);
}

function isNamed({ list, key }: WaitingDefinition, name: string): boolean {
  return list === 'instructions' ? name === 'instructions' : key === name || `${list}/${key}` === name;
}

function path(server: string): string {
  return `/api/v1/servers/${encodeURIComponent(server)}/drift`;
}
