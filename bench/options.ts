import { parseArgs } from 'node:util';

export interface Options {
  /** Names of scenarios or the start of such names; empty for all. */
  readonly scenarios: readonly string[];
  readonly targets: readonly string[];
  readonly peers: readonly string[];
  readonly rounds: number;
  readonly measureMs: number;
  /** Number of turns of half a second, where a scenario is measured in turns; null for the time of the rounds. */
  readonly turns: number | null;
  /** Sizes of `cluster-scale`. */
  readonly scale: { readonly nodes: number; readonly servers: number; readonly sessions: number };
  /** File for the JSON; '' for none. */
  readonly json: string;
  /** Whether the tables become the accepted ones in RESULTS.md. */
  readonly accept: boolean;
  /** False to measure `dist/` as it is. */
  readonly build: boolean;
}

export const USAGE = `npm run bench -- [options]
  --scenarios a,b   only scenarios whose names begin so (calls big list sessions stdio stateless cross open credentials telemetry nodes start first-call cluster-scale)
  --targets a,b     only these (direct nginx trunkline trunkline/server mcp-proxy supergateway 'node a of two' 'across nodes' …)
  --peer n|cmd|url  one more gateway; {server} or {stdio} in the command stands for the measured server
  --rounds 5        rounds, interleaved; the table shows medians
  --seconds 2       measured time of each
  --turns N         of calls at nodes, which are measured in turns of half a second: the time of the rounds, unless said
  --nodes 50        of cluster-scale, with
  --servers 1000    servers in the file of each, and
  --sessions 1000000  sessions in the store
  --json FILE       results as JSON
  --no-build        measure dist/ as it stands
  --accept          keep the tables in bench/RESULTS.md, beside those of other scenarios`;

export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      scenarios: { type: 'string', default: '' },
      targets: { type: 'string', default: '' },
      peer: { type: 'string', multiple: true, default: [] },
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '2' },
      turns: { type: 'string' },
      nodes: { type: 'string', default: '50' },
      servers: { type: 'string', default: '1000' },
      sessions: { type: 'string', default: '1000000' },
      json: { type: 'string', default: '' },
      accept: { type: 'boolean', default: false },
      build: { type: 'boolean', default: true },
    },
    allowNegative: true,
  });
  return {
    scenarios: list(values.scenarios),
    targets: list(values.targets),
    peers: values.peer,
    rounds: Number(values.rounds),
    measureMs: Number(values.seconds) * 1000,
    turns: values.turns === undefined ? null : Number(values.turns),
    scale: { nodes: Number(values.nodes), servers: Number(values.servers), sessions: Number(values.sessions) },
    json: values.json,
    accept: values.accept,
    build: values.build,
  };
}

function list(text: string): string[] {
  return text.split(',').filter((part) => part !== '');
}
