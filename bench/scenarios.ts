import type { Job } from './load/job.ts';
import { WHOLE_LIST } from './sizes.ts';
import { SIGNED_IN, STATIC_HEADER } from './targets/credentials.ts';
import type { Behind } from './targets/target.ts';
import { METRICS_SENT, NOTHING_SENT, OFF, TRACED } from './targets/telemetry.ts';
import type { BigTool } from './upstream/answers.ts';

/** How a row may compare with another one of the same scenario. */
export interface Limit {
  /** Targets by name. */
  readonly of: string;
  readonly to: string;
  readonly figure: 'cpuUs' | 'kibPerSession' | 'heldPerSession';
  readonly most: number;
}

/** One load by name: what is behind the targets, and what the generator does. */
export interface Scenario {
  readonly name: string;
  /** What the scenario measures, for the table's heading. */
  readonly title: string;
  /** The first that a target can serve is what stands behind it. */
  readonly behind: readonly Behind[];
  readonly job: Partial<Job> & Pick<Job, 'kind' | 'connections'>;
  /** What stands behind a row of comparison for each target, in turn with it: a server of the client's own era. */
  readonly sameEra?: Behind;
  /** Only these targets, by name; all that can, if absent. */
  readonly only?: readonly string[];
  /** Every round on freshly started targets: for what fills a process for good. */
  readonly fresh?: boolean;
  /** Measured in many short turns: for what is compared to a few per cent, on a machine that is not one's own. */
  readonly inTurns?: boolean;
  /** Of what is measured in turns: how often, each time on newly started targets. A compiler makes something else of each process. */
  readonly starts?: number;
  /** What the run is to say of: whether it holds. */
  readonly limits?: readonly Limit[];
}

const TRUNKLINE_ONLY = ['trunkline'];
const EACH_OF_TWO = ['node a of two', 'node b of two'];
const ACROSS = 'across nodes';
/** What a call over the bus may cost, both nodes together, of one that stays at a node alone. */
const MOST_ACROSS = 2;
/** What a result of 1 MiB may cost, of what it costs nginx, whatever its text is. */
const MOST_BIG = 1.5;
/** What a token that is renewed may cost, of a header that the definition has. */
const MOST_SIGNED_IN = 1.03;
/** What sending metrics, and tracing one of a hundred calls, may cost. */
const MOST_LOGGED = 1.02;
const MOST_METRICS = 1.02;
const MOST_TRACED = 1.05;
/** What being one of two nodes may add. */
const MOST_IN_CLUSTER = 1.1;

function calls(connections: number): Scenario {
  return {
    name: `calls-${connections}`,
    title: `small tools/call, same era, HTTP to HTTP, ${connections} connections (peers: stdio behind)`,
    behind: ['stateful', 'stdio'],
    job: { kind: 'calls', connections },
  };
}

function big(tool: BigTool, what: string): Scenario {
  return {
    name: tool,
    title: `tools/call with a result of 1 MiB${what}, 4 connections (peers: stdio behind)`,
    behind: ['stateful', 'stdio'],
    job: { kind: 'calls', connections: 4, tool },
    limits: [{ of: 'trunkline', to: 'nginx', figure: 'cpuUs', most: MOST_BIG }],
  };
}

function stdio(connections: number): Scenario {
  return {
    name: `stdio-${connections}`,
    title: `small tools/call, stdio behind, ${connections} connections`,
    behind: ['stdio'],
    job: { kind: 'calls', connections },
  };
}

function open(openSessions: number, streams: boolean): Scenario {
  const many = openSessions.toLocaleString('en');
  return {
    name: `open-${openSessions}${streams ? '-streams' : ''}`,
    title: `${many} open sessions ${streams ? 'with' : 'without'} streams, calls on 16 connections meanwhile`,
    behind: ['stateful'],
    job: { kind: 'open', connections: 16, openSessions, streams },
    only: TRUNKLINE_ONLY,
    fresh: true,
  };
}

/**
 * A lone node; each of two nodes with the server in its own file, where calls stay; and two nodes where the call arrives
 * at one and only the file of the other has the server. Of a call that crosses the time of both nodes counts, of one that
 * stays that of its node, with whatever it does to be one of two.
 */
function cluster(behind: 'stateful' | 'stdio', connections: number): Scenario {
  return {
    name: behind === 'stdio' ? `nodes-stdio-${connections}` : `nodes-${connections}`,
    title: `two nodes over NATS, small tools/call, ${behind === 'stdio' ? 'stdio behind' : 'HTTP to HTTP'}, ${connections} connections (crossing: time of both nodes)`,
    behind: [behind],
    job: { kind: 'calls', connections },
    only: [...TRUNKLINE_ONLY, ...EACH_OF_TWO, ACROSS],
    inTurns: true,
    limits: [
      ...EACH_OF_TWO.map((of): Limit => ({ of, to: 'trunkline', figure: 'cpuUs', most: MOST_IN_CLUSTER })),
      { of: ACROSS, to: 'trunkline', figure: 'cpuUs', most: MOST_ACROSS },
    ],
  };
}

/**
 * As many sessions at each of two nodes as at the lone one. What both hold grows by their own sessions and by what they
 * know of those of the other; it is divided by all sessions. Garbage is collected first: two nodes make more of it while
 * sessions are opened, and how much of that is still there when memory is read is not what a session takes.
 */
function openAtNodes(openSessions: number): Scenario {
  return {
    name: `nodes-open-${openSessions}`,
    title: `two nodes over NATS, ${openSessions.toLocaleString('en')} open sessions at each, calls on 16 connections to each`,
    behind: ['stateful'],
    job: { kind: 'open', connections: 16, openSessions, collects: true },
    only: [...TRUNKLINE_ONLY, 'both nodes'],
    fresh: true,
    limits: (['kibPerSession', 'heldPerSession'] as const).map(
      (figure): Limit => ({ of: 'both nodes', to: 'trunkline', figure, most: MOST_IN_CLUSTER }),
    ),
  };
}

export const SCENARIOS: readonly Scenario[] = [
  calls(1),
  calls(16),
  calls(64),
  big('big', ''),
  big('big-code', ' of source code, with escapes'),
  big('big-json', ' of JSON within JSON'),
  big('big-utf8', ' of text beyond Latin-1'),
  {
    name: 'list',
    title: 'whole tools/list over 50 servers x 20 tools, 4 connections (others: one server of 1,000)',
    behind: ['fleet'],
    job: { kind: 'list', connections: 4, tools: WHOLE_LIST },
  },
  {
    name: 'sessions',
    title: 'whole sessions (initialize, initialized, one call, DELETE), 16 connections',
    behind: ['stateful'],
    job: { kind: 'sessions', connections: 16 },
  },
  {
    name: 'sessions-first-second',
    title: 'the first second after the start: whole sessions without warm-up, 16 connections',
    behind: ['stateful'],
    job: { kind: 'sessions', connections: 16, warmUpMs: 0, measureMs: 1000 },
    fresh: true,
  },
  stdio(1),
  stdio(16),
  stdio(64),
  {
    name: 'stdio-big',
    title: 'result of 1 MiB, stdio behind, 4 connections',
    behind: ['stdio'],
    job: { kind: 'calls', connections: 4, tool: 'big' },
  },
  {
    name: 'stateless',
    title: 'small tools/call, 2026-07-28 on both sides, 16 connections',
    behind: ['stateless'],
    job: { kind: 'calls', connections: 16, era: 'stateless' },
  },
  {
    name: 'cross-old-new',
    title: 'cross-era: client of 2025-11-25, server of 2026-07-28, 16 connections',
    behind: ['stateless'],
    job: { kind: 'calls', connections: 16, era: 'stateful' },
    sameEra: 'stateful',
    only: ['trunkline', 'trunkline/server'],
  },
  {
    name: 'cross-new-old',
    title: 'cross-era: client of 2026-07-28, server of 2025-11-25, 16 connections',
    behind: ['stateful'],
    job: { kind: 'calls', connections: 16, era: 'stateless' },
    sameEra: 'stateless',
    only: ['trunkline', 'trunkline/server'],
  },
  open(10, false),
  open(1000, false),
  open(1000, true),
  open(5000, false),
  open(5000, true),
  {
    name: 'credentials-16',
    title: 'small tools/call with a credential for the server, HTTP to HTTP, 16 connections',
    behind: ['stateful'],
    job: { kind: 'calls', connections: 16 },
    only: [STATIC_HEADER, SIGNED_IN],
    inTurns: true,
    limits: [{ of: SIGNED_IN, to: STATIC_HEADER, figure: 'cpuUs', most: MOST_SIGNED_IN }],
  },
  {
    name: 'telemetry-16',
    title: 'small tools/call with OTLP metrics or traces sent, HTTP to HTTP, 16 connections',
    behind: ['stateful'],
    job: { kind: 'calls', connections: 16 },
    only: [OFF, NOTHING_SENT, METRICS_SENT, TRACED],
    inTurns: true,
    starts: 5,
    limits: [
      { of: NOTHING_SENT, to: OFF, figure: 'cpuUs', most: MOST_LOGGED },
      { of: METRICS_SENT, to: NOTHING_SENT, figure: 'cpuUs', most: MOST_METRICS },
      { of: TRACED, to: NOTHING_SENT, figure: 'cpuUs', most: MOST_TRACED },
    ],
  },
  cluster('stateful', 16),
  cluster('stateful', 64),
  cluster('stdio', 16),
  cluster('stdio', 64),
  openAtNodes(5000),
];
