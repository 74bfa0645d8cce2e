import { execFileSync } from 'node:child_process';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { holds, type Outcome, type Proof } from './proof.ts';

const FOLDER = resolve(import.meta.dirname, '../../docs/proof');

/** One proof as it came out, as it is kept. */
export interface Kept extends Outcome {
  readonly id: string;
  readonly claim: string;
  readonly holds: boolean;
  readonly date: string;
  readonly seed: number;
  readonly command: string;
  readonly seconds: number;
  readonly machine: string;
  /** Of the code that was tried; with `+` where files had been changed since. Null: not from a checkout. */
  readonly commit?: string | null;
  readonly leftOut: string | null;
}

export interface Circumstances {
  readonly seed: number;
  readonly short: boolean;
  readonly seconds: number;
  readonly command: string;
}

/** Keeps the outcome beside the others and writes the summary anew. */
export function report(proof: Proof, outcome: Outcome, { seed, short, seconds, command }: Circumstances): Kept {
  const kept: Kept = {
    id: proof.id,
    claim: proof.claim,
    holds: holds(outcome),
    date: new Date().toISOString(),
    seed,
    command,
    seconds: Math.round(seconds),
    machine: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.version}`,
    commit: commit(),
    leftOut: short ? proof.shortened : null,
    ...outcome,
  };
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, `${proof.id}.json`), `${JSON.stringify(kept, null, 2)}\n`);
  writeSummary();
  return kept;
}

function commit(): string | null {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: FOLDER, encoding: 'utf8', stdio: 'pipe' }).trim();
  try {
    const changed = git(
      'status',
      '--porcelain',
      '--untracked-files=no',
      '--',
      '../../src',
      '../../test',
      '../../scripts',
    );
    return `${git('rev-parse', '--short=9', 'HEAD')}${changed === '' ? '' : '+'}`;
  } catch {
    return null;
  }
}

/** From what is kept. */
export function writeSummary(): void {
  writeFileSync(join(FOLDER, 'README.md'), summary());
}

function summary(): string {
  const all = globSync('*.json', { cwd: FOLDER })
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    .map((name) => JSON.parse(readFileSync(join(FOLDER, name), 'utf8')) as Kept);
  const rows = all.map(
    ({ id, holds: good, claim, date, leftOut }) =>
      `| ${id} | ${good ? 'holds' : '**does not hold**'} | ${claim} | ${date.slice(0, 10)}${leftOut === null ? '' : `, without ${leftOut}`} |`,
  );
  const head = `# Proofs

Written by \`npm run prove -- faults|chaos|soak [--goal G7] [--rows F01,F03] [--seed N] [--resume] [--short]\`: the claims that need more time, or
more machine, than \`npm test\` has, tried at real constants. Each has its figures in a file of its own beside this one.

| claim | verdict | what is claimed | last run |
|---|---|---|---|
${rows.join('\n')}
`;
  return `${head}${all.map(details).join('')}`;
}

function details(kept: Kept): string {
  const rows = kept.figures.map(({ name, value, unit, atMost }) => {
    const verdict = atMost === null ? '' : value <= atMost ? 'holds' : '**does not hold**';
    return `| ${name} | ${value} ${unit} | ${atMost === null ? '' : `${atMost} ${unit}`} | ${verdict} |`;
  });
  const broken = kept.broken.map((text) => `- ${text}\n`).join('');
  return `
## ${kept.id}

${kept.claim}

\`${kept.command}\`, seed ${kept.seed}, ${kept.date.slice(0, 16).replace('T', ' ')} UTC, ${kept.seconds} s, on ${kept.machine}${kept.commit == null ? '' : `, commit ${kept.commit}`}.
${kept.leftOut === null ? '' : `Left out by \`--short\`: ${kept.leftOut}.\n`}
| figure | measured | at most | |
|---|---|---|---|
${rows.join('\n')}
${broken === '' ? '' : `\nBroken:\n\n${broken}`}`;
}
