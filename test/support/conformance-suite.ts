import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

const PROGRAM = resolve(import.meta.dirname, '../../node_modules/@modelcontextprotocol/conformance/dist/index.js');

export interface SuiteResult {
  /** By scenario: whether all its checks passed. */
  readonly scenarios: ReadonlyMap<string, boolean>;
  /** Scenarios that the revision does not score. */
  readonly unscored: ReadonlySet<string>;
  readonly output: string;
}

type SuiteRevision = '2025-11-25' | '2026-07-28';

/** Runs the official conformance suite in server role against a URL, with exactly what a revision requires. */
export async function runConformance(url: string, revision: SuiteRevision): Promise<SuiteResult> {
  const { output } = await run(['server', '--url', url, '--requirements', revision]);
  const summary = output.slice(output.indexOf('=== SUMMARY ==='));
  const [scored = '', notScored = ''] = summary.split('Not scored for');
  const scenarios = new Map([...scored.matchAll(/^([✓✗]) ([\w-]+):/gm)].map(([, mark, name]) => [name!, mark === '✓']));
  const unscored = new Set([...notScored.matchAll(/^ +[✓✗] ([\w-]+) \(/gm)].map(([, name]) => name!));
  return { scenarios, unscored, output };
}

/** The ids of the checks of one scenario of the suite in server role, by how they ended. A scenario that does not run is an error. */
export async function checksOf(
  url: string,
  scenario: string,
  revision: SuiteRevision,
): Promise<{ readonly passed: string[]; readonly failed: string[]; readonly skipped: string[] }> {
  // Without force the suite skips scenarios of extensions, and says that nothing failed.
  const { output } = await run(['server', '--url', url, '--scenario', scenario, '--spec-version', revision, '--force']);
  if (!/^Passed: \d+\/\d+/m.test(output))
    throw new Error(`the scenario ${scenario} did not run: ${output.slice(-2000)}`);
  const ended = (status: string) =>
    [...output.matchAll(new RegExp(`\\[([\\w-]+) *\\] \\S*${status}`, 'g'))].map(([, id]) => id!);
  return { passed: ended('SUCCESS'), failed: ended('FAILURE'), skipped: ended('SKIPPED') };
}

/**
 * Runs one scenario of the suite in client role with this command, to which the suite adds the URL of its server. Scenarios
 * of extensions belong to no revision.
 */
export async function runClientScenario(
  scenario: string,
  revision: SuiteRevision | null,
  command: string,
): Promise<{ readonly passed: boolean; readonly output: string }> {
  const { output, code } = await run([
    'client',
    '--command',
    command,
    '--scenario',
    scenario,
    ...(revision === null ? [] : ['--spec-version', revision]),
  ]);
  return { passed: code === 0 && output.includes('OVERALL: PASSED'), output };
}

/** The names of the scenarios that a revision scores in client role. */
export async function clientScenarios(revision: SuiteRevision): Promise<string[]> {
  const { output } = await run(['list', '--client', '--requirements', revision]);
  const from = output.indexOf('Client scenarios');
  const listed = output.slice(from, output.indexOf('never scored', from));
  return [...listed.matchAll(/^ +- ([\w/-]+)/gm)].map(([, name]) => name!);
}

async function run(args: readonly string[]): Promise<{ readonly output: string; readonly code: number | null }> {
  const child = spawn(process.execPath, [PROGRAM, ...args]);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const code = await new Promise<number | null>((done) => child.once('exit', done));
  return { output, code };
}

export function failing(result: SuiteResult): string[] {
  return [...result.scenarios].filter(([name, passed]) => !passed && !result.unscored.has(name)).map(([name]) => name);
}

export function scored(result: SuiteResult): number {
  return [...result.scenarios.keys()].filter((name) => !result.unscored.has(name)).length;
}
