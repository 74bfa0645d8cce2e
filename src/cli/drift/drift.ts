import { createHash } from 'node:crypto';
import { styleText } from 'node:util';
import type { DriftReport, FieldDifference, Finding, WaitingDefinition } from '../../model/drift.ts';
import { type ControlClient, serverPath } from '../access/control-client.ts';
import { runningClient } from '../access/find-running.ts';
import { type CommandInput, confirm, print } from '../command-input.ts';
import { EXIT, type ExitCode, noSuch, usage } from '../exit-code.ts';

interface DriftInput extends CommandInput {
  readonly server: string | undefined;
  /** Exit with code 6 if a definition waits for a decision. */
  readonly check: boolean;
}

interface DecisionInput extends CommandInput {
  readonly server: string;
  /** Names of tools, prompts or templates, `instructions`, or `list/name` if a name is in two lists. */
  readonly names: readonly string[];
  readonly all: boolean;
  /** The code of the definitions shown earlier: approve only if the same ones wait now. */
  readonly seen?: string | undefined;
  /** Approve without showing the definitions. */
  readonly unseen?: boolean;
}

/** `trunkline drift [server]`: differences between the definitions that servers offer and the approved ones. */
export async function drift(input: DriftInput): Promise<ExitCode> {
  const { server, check } = input;
  const reports = await reportsOf(await runningClient(input));
  const shown = server === undefined ? reports : [oneOf(reports, server)];
  print(input, { servers: shown }, () => shown.map(reportText).join(''));
  return check && shown.some(({ waiting }) => waiting.length > 0) ? EXIT.drift : EXIT.ok;
}

/**
 * `trunkline drift approve <server> [name…]`: approves the definitions that the code in `seen` stands for, or shows them and
 * asks. The request has their digests, so the gateway approves nothing that the server changes in between.
 */
export async function approve(input: DecisionInput): Promise<ExitCode> {
  const { server, names, all, seen, unseen = false } = input;
  if (all === names.length > 0) throw usage('say which: names of definitions, or --all');
  const client = await runningClient(input);
  const { waiting } = oneOf(await reportsOf(client), server);
  if (seen !== undefined && seen !== seenCode(waiting)) {
    const now = 'what waits is another than what was shown with this code, so nothing was approved';
    throw usage(`${now}; look again: trunkline drift ${server}`);
  }
  const chosen = all ? waiting : names.flatMap((name) => namedIn(waiting, name));
  if (chosen.length === 0) throw usage(`nothing of ${server} waits for approval`);
  if (seen === undefined && !unseen) await showAndConfirm(input, chosen);
  const definitions = chosen.map(({ list, key, digest }) => ({ list, key, digest }));
  return decide(input, client, 'approve', definitions, chosen);
}

/** Shows the definitions and asks: otherwise the user would approve a change that the server made a moment ago. */
async function showAndConfirm(
  { terminal, flags, server }: DecisionInput,
  chosen: readonly WaitingDefinition[],
): Promise<void> {
  const how = `trunkline drift ${server} shows it, with the code for --seen; --unseen approves whatever is there`;
  if (terminal.ask === null || flags.json === true) {
    throw usage(`nothing was approved, because it was never listed: ${how}`);
  }
  for (const one of chosen) terminal.err(`${waitingText(one).join('\n')}\n`);
  const description = `approve ${chosen.length === 1 ? 'this definition' : `these ${chosen.length} definitions`} of ${server}?`;
  if (!(await confirm(terminal.ask, description))) throw usage('nothing was approved');
}

/** `trunkline drift block <server> <name…>`: also blocks unchanged definitions. */
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

/** `trunkline drift history <server>`: observations and decisions, newest first. */
export async function history(
  input: CommandInput & { readonly server: string; readonly lines: number },
): Promise<ExitCode> {
  const { server, lines } = input;
  const client = await runningClient(input);
  oneOf(await reportsOf(client), server);
  const answer = await client.get(`${serverPath(server)}/drift/history?limit=${Math.max(1, lines)}`);
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
  const answer = await client.post(`${serverPath(input.server)}/drift/${decision}`, JSON.stringify({ definitions }));
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
  if (found.length === 0) throw usage(`nothing named ${visible(name)} waits for approval`);
  if (new Set(found.map(({ list }) => list)).size === 1) return found;
  const choices = found.map(({ list, key }) => `${list}/${visible(key)}`).join(' or ');
  throw usage(`${visible(name)} is in several lists: use ${choices}`);
}

function isNamed({ list, key }: WaitingDefinition, name: string): boolean {
  return list === 'instructions' ? name === 'instructions' : key === name || `${list}/${key}` === name;
}

const LISTS: Readonly<Record<Finding['list'], string>> = {
  tools: 'tool',
  prompts: 'prompt',
  resourceTemplates: 'resource template',
  instructions: 'instructions',
  resources: 'resource',
};

const MEANWHILE: Readonly<Record<WaitingDefinition['offered'], string>> = {
  present: 'offered as it is',
  approved: 'the approved one is offered',
  nothing: 'not offered',
};

/** Escapes invisible and control characters in texts of servers, which could otherwise control the terminal. */
function visible(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}\u{115f}\u{1160}\u{3164}\u{ffa0}]/gu, (character) => {
    return character === '\n' || character === '\t' ? ' ' : `\\u{${character.codePointAt(0)!.toString(16)}}`;
  });
}

/** Hexadecimal digits. For a shorter code a server could search two offers with the same code, and swap them. */
const CODE_DIGITS = 40;

/** Digest of all waiting definitions: an operator who gives it approves exactly what the command showed. */
function seenCode(waiting: readonly WaitingDefinition[]): string {
  const digests = waiting.map(({ list, key, digest }) => JSON.stringify([list, key, digest])).sort();
  return createHash('sha256').update(digests.join('\n')).digest('hex').slice(0, CODE_DIGITS);
}

/** The differences of one server from its approved definitions, for people. */
function reportText(report: DriftReport): string {
  const { server, policy, pinned, trustedAt, waiting, findings, problem, listed } = report;
  const seen = trustedAt === null ? 'nothing seen yet' : `${pinned} pinned since ${new Date(trustedAt).toISOString()}`;
  const lines = [`${styleText('bold', server)} (${policy}): ${seen}, ${waiting.length} waiting`];
  if (problem !== null) lines.push(`  ${styleText('red', problem)}`);
  if (!listed && policy !== 'off') lines.push('  not listed yet: what it offers now is not known');
  for (const one of waiting) lines.push(...waitingText(one));
  if (waiting.length > 0) {
    lines.push(`  to approve what is shown here: trunkline drift approve ${server} --all --seen ${seenCode(waiting)}`);
  }
  if (findings.length > 0) lines.push('  found in its texts:');
  for (const { list, key, kind, grave, pointer, excerpt } of findings) {
    const mark = grave ? styleText('red', '!!') : ' !';
    lines.push(`  ${mark} ${kind} in ${LISTS[list]} ${visible(key)} ${visible(pointer)}: ${visible(excerpt)}`);
  }
  return `${lines.join('\n')}\n`;
}

function waitingText(one: WaitingDefinition): readonly string[] {
  const colour = one.severity === 'breaking' ? 'red' : one.severity === 'behaviour' ? 'yellow' : 'cyan';
  const what = `${LISTS[one.list]} ${visible(one.key)}`.trim();
  return [
    `  ${one.change} ${styleText('bold', what)}: ${styleText(colour, one.severity)}, ${MEANWHILE[one.offered]}`,
    ...one.reasons.map((reason) => `    - ${visible(reason)}`),
    ...one.fields.flatMap(fieldText),
  ];
}

function fieldText({ pointer, before, after, words }: FieldDifference): readonly string[] {
  const lines = [`    ${visible(pointer === '' ? 'all of it' : pointer)}`];
  if (words !== null) {
    const runs = words.map(({ kind, text }) =>
      kind === 'same'
        ? visible(text)
        : kind === 'removed'
          ? styleText('red', `[-${visible(text)}-]`)
          : styleText('green', `{+${visible(text)}+}`),
    );
    return [...lines, `      ${runs.join('')}`];
  }
  if (before !== null) lines.push(styleText('red', `      - ${visible(before)}`));
  if (after !== null) lines.push(styleText('green', `      + ${visible(after)}`));
  return lines;
}
