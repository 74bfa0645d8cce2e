import { createHash } from 'node:crypto';
import { styleText } from 'node:util';
import type { DriftReport, FieldDifference, Finding, WaitingDefinition } from '../../model/drift.ts';

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

/** What a server says is shown as text and can do nothing to the terminal; what is invisible is written out. */
export function visible(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}\u{115f}\u{1160}\u{3164}\u{ffa0}]/gu, (character) => {
    return character === '\n' || character === '\t' ? ' ' : `\\u{${character.codePointAt(0)!.toString(16)}}`;
  });
}

/** Hexadecimal digits. Of a shorter code a server could look for two offers that have the same one, and swap them. */
const CODE_DIGITS = 40;

/** Stands for what waits, to the last byte: whoever approves by it approves what they were shown. */
export function seenCode(waiting: readonly WaitingDefinition[]): string {
  const digests = waiting.map(({ list, key, digest }) => JSON.stringify([list, key, digest])).sort();
  return createHash('sha256').update(digests.join('\n')).digest('hex').slice(0, CODE_DIGITS);
}

/** How one server differs from what was approved, for people. */
export function reportText(report: DriftReport): string {
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

export function waitingText(one: WaitingDefinition): readonly string[] {
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
