import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { type Figure, holds, type Outcome, type Proof } from './proof.ts';
import { PROOFS } from './proofs.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** One row for each claim. The repository keeps no other record of the results. */
export const TABLE = join(ROOT, 'docs/developers/proof.md');
const RAW = join(ROOT, 'build/proof');
/** A row has at most this many figures without a limit; they show how much was tested. */
const SIZES = 3;

/** The result of one claim, with all figures. */
export interface Result extends Outcome {
  readonly id: string;
  readonly claim: string;
  readonly holds: boolean;
  readonly date: string;
  readonly seed: number;
  readonly command: string;
  readonly seconds: number;
  readonly machine: string;
  /** Commit of the tested code, with `+` if files had been changed. Null: the code is no checkout. */
  readonly commit?: string | null;
  readonly leftOut: string | null;
}

export interface Circumstances {
  readonly seed: number;
  readonly short: boolean;
  readonly seconds: number;
  readonly command: string;
}

/** Writes the whole result to `build/proof/` and its row to the table. */
export function report(proof: Proof, outcome: Outcome, { seed, short, seconds, command }: Circumstances): Result {
  const result: Result = {
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
  mkdirSync(RAW, { recursive: true });
  writeFileSync(join(RAW, `${proof.id}.json`), `${JSON.stringify(result, null, 2)}\n`);
  record(result);
  return result;
}

/** Records a result file of another checkout. The claim is worded as in this code, the verdict is computed again. */
export function recordFile(path: string, table = TABLE): Result {
  const read = JSON.parse(readFileSync(path, 'utf8')) as Result | null;
  const proof = PROOFS.find(({ id }) => id === read?.id);
  if (proof === undefined || !Array.isArray(read?.figures) || !Array.isArray(read.broken)) {
    throw new Error(`${path} is not the result of a claim: it needs a known id, figures and broken`);
  }
  const result = { ...read, claim: proof.claim, holds: holds(read) };
  record(result, table);
  return result;
}

function commit(): string | null {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' }).trim();
  try {
    const changed = git('status', '--porcelain', '--untracked-files=no', '--', 'src', 'test', 'scripts');
    return `${git('rev-parse', '--short=9', 'HEAD')}${changed === '' ? '' : '+'}`;
  } catch {
    return null;
  }
}

/** Replaces the row of the claim, or adds it. */
function record(result: Result, table = TABLE): void {
  const lines = readFileSync(table, 'utf8').trimEnd().split('\n');
  const rows = lines.splice(lines.findIndex((line) => line.startsWith('|--')) + 1);
  const others = rows.filter((row) => !row.startsWith(`| ${result.id} |`));
  const sorted = [...others, rowOf(result)].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  writeFileSync(table, `${[...lines, ...sorted].join('\n')}\n`);
}

function rowOf(result: Result): string {
  const {
    id,
    claim,
    holds: good,
    figures,
    broken,
    seed,
    date,
    seconds,
    machine,
    commit: of,
    command,
    leftOut,
  } = result;
  const key = [...keyFigures(figures), ...broken.map((text) => `broken: ${text}`)].join('; ');
  const cells = [
    id,
    claim,
    `${good ? 'holds' : '**does not hold**'}${leftOut === null ? '' : `, without ${leftOut}`}`,
    key,
    seed,
    `${date.slice(0, 10)}, ${seconds} s on ${machine.replace(/\(R\)| Processor|, Node.*/g, '')}`,
    of ?? 'unknown',
    `\`${command.replace(/ --seed \d+$/, '')}\``,
  ];
  return `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|').replaceAll(/\s+/g, ' ')).join(' | ')} |`;
}

/** The first figures without a limit, and all with one; of those that differ only in what is before the colon, the worst. */
function keyFigures(figures: readonly Figure[]): string[] {
  const limited = figures.findIndex(({ atMost }) => atMost !== null);
  const sizes = figures.slice(0, limited === -1 ? SIZES : limited).filter(({ name }) => !name.includes(': '));
  const worst = new Map<string, Figure>();
  for (const figure of figures.filter(({ atMost }) => atMost !== null)) {
    const name = figure.name.split(': ').at(-1)!;
    const key = `${name} ${figure.atMost}`;
    if (figure.value > (worst.get(key)?.value ?? -Infinity)) worst.set(key, { ...figure, name });
  }
  return [...sizes.slice(0, SIZES), ...worst.values()].map(inWords);
}

function inWords({ name, value, unit, atMost }: Figure): string {
  return `${name}: ${value}${unit === '' ? '' : ` ${unit}`}${atMost === null ? '' : ` (≤ ${atMost})`}`;
}
