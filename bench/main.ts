/** The benchmark: `npm run bench`. RESULTS.md and the scenarios list its measurements and budgets. */
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { accepted } from './accepted.ts';
import { type ClusterScale, measureClusterScale } from './cluster-scale/measure.ts';
import { clusterScaleTable } from './cluster-scale/report.ts';
import { type FirstCall, measureFirstCalls } from './first-call.ts';
import { readOptions, USAGE } from './options.ts';
import type { Row } from './row.ts';
import { runScenario } from './run-scenario.ts';
import { SCENARIOS } from './scenarios.ts';
import { Servers } from './scene.ts';
import { measureStartUp, type StartUp } from './start-up.ts';
import { firstCallTable, scenarioTable, startUpTable } from './table.ts';
import { Child } from './targets/child.ts';
import { credentials } from './targets/credentials.ts';
import { direct } from './targets/direct.ts';
import { nginx } from './targets/nginx.ts';
import { nodes } from './targets/nodes.ts';
import { npmGateways } from './targets/npm-gateways.ts';
import { peer } from './targets/peer.ts';
import { telemetry } from './targets/telemetry.ts';
import { trunkline } from './targets/trunkline.ts';

const ROOT = join(import.meta.dirname, '..');
const args = process.argv.slice(2);
if (args.includes('--help')) {
  console.log(USAGE);
  process.exit();
}
const options = readOptions(args);
if (options.build) await build();

const chosen = [
  direct,
  nginx,
  trunkline('aggregate'),
  trunkline('server'),
  ...nodes,
  ...credentials,
  ...telemetry,
  ...npmGateways,
].filter(({ name }) => options.targets.length === 0 || options.targets.includes(name));
const targets = [...chosen, ...options.peers.map(peer)];
const results: { scenario: string; rows: readonly Row[] }[] = [];
const tables: string[] = [];
let starts: readonly StartUp[] = [];
let firstCalls: readonly FirstCall[] = [];
let clusterScale: ClusterScale | null = null;

const servers = await Servers.start();
try {
  for (const scenario of SCENARIOS.filter(({ name }) => wanted(name))) {
    const rows = await runScenario(scenario, targets, servers.scene, options);
    results.push({ scenario: scenario.name, rows });
    show(scenarioTable(scenario, rows));
  }
  if (wanted('start')) {
    starts = await measureStartUp(servers.scene, options.rounds);
    show(startUpTable(starts));
  }
  if (wanted('first-call')) {
    firstCalls = await measureFirstCalls(options.rounds);
    show(firstCallTable(firstCalls));
  }
  if (wanted('cluster-scale')) {
    clusterScale = await measureClusterScale(options.scale, (text) => console.error(text));
    show(clusterScaleTable(clusterScale));
  }
} finally {
  await servers.stop();
}

const about = {
  date: new Date().toISOString(),
  command: ['npm run bench', ...(args.length > 0 ? ['--', ...args] : [])].join(' '),
  machine: `${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, Node ${process.version}`,
};
if (options.json !== '')
  writeFileSync(options.json, `${JSON.stringify({ ...about, results, starts, firstCalls, clusterScale }, null, 2)}\n`);
if (options.accept) accept();

function wanted(name: string): boolean {
  return options.scenarios.length === 0 || options.scenarios.some((start) => name.startsWith(start));
}

function show(table: string): void {
  tables.push(table);
  console.log(`\n${table}`);
}

/** Keeps the tables of the other scenarios, with the line that names their run. */
function accept(): void {
  const file = join(import.meta.dirname, 'RESULTS.md');
  const run = `${about.date}, \`${about.command}\`, ${about.machine}`;
  const order = [...SCENARIOS.map(({ name }) => name), 'start', 'first-call', 'cluster-scale'];
  writeFileSync(file, accepted(readFileSync(file, 'utf8'), tables, run, order));
}

async function build(): Promise<void> {
  const npm = new Child(['npm', 'run', 'build'], { cwd: ROOT });
  npm.process.stdout!.resume();
  const code = await new Promise((resolve) => npm.process.once('exit', resolve));
  if (code !== 0) throw new Error(`npm run build failed: ${npm.stderr}`);
}
