import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

const PROGRAM = resolve(import.meta.dirname, '../../node_modules/@modelcontextprotocol/conformance/dist/index.js');

export interface SuiteResult {
  /** Scenario to whether all its checks passed. */
  readonly scenarios: ReadonlyMap<string, boolean>;
  /** Those that the revision does not score. */
  readonly unscored: ReadonlySet<string>;
  readonly output: string;
}

/** Runs the official conformance suite in server role against a URL, with exactly what a revision requires. */
export async function runConformance(url: string, revision: '2025-11-25' | '2026-07-28'): Promise<SuiteResult> {
  const child = spawn(process.execPath, [PROGRAM, 'server', '--url', url, '--requirements', revision]);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  await new Promise((done) => child.once('exit', done));
  const summary = output.slice(output.indexOf('=== SUMMARY ==='));
  const [scored = '', notScored = ''] = summary.split('Not scored for');
  const scenarios = new Map([...scored.matchAll(/^([✓✗]) ([\w-]+):/gm)].map(([, mark, name]) => [name!, mark === '✓']));
  const unscored = new Set([...notScored.matchAll(/^ +[✓✗] ([\w-]+) \(/gm)].map(([, name]) => name!));
  return { scenarios, unscored, output };
}

export function failing(result: SuiteResult): string[] {
  return [...result.scenarios].filter(([name, passed]) => !passed && !result.unscored.has(name)).map(([name]) => name);
}

export function scored(result: SuiteResult): number {
  return [...result.scenarios.keys()].filter((name) => !result.unscored.has(name)).length;
}
