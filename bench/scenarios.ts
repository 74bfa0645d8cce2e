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
  /** Kinds of servers; the first one that a target supports is behind it. */
  readonly behind: readonly Behind[];
  readonly job: Partial<Job> & Pick<Job, 'kind' | 'connections'>;
  /** The server behind a comparison row for each target, measured in turn with it: one of the client's own era. */
  readonly sameEra?: Behind;
  /** Only these targets, by name; if absent, all that can serve it. */
  readonly only?: readonly string[];
  /** Every round on freshly started targets: for loads that change a process permanently. */
  readonly fresh?: boolean;
  /** Measured in many short turns: for comparisons of a few per cent on a shared machine. */
  readonly inTurns?: boolean;
  /** With `inTurns`: how many times the targets are started anew, since the JIT compiles each process differently. */
  readonly starts?: number;
  /** The run reports whether these limits hold. */
  readonly limits?: readonly Limit[];
}

const TRUNKLINE_ONLY = ['trunkline'];
const EACH_OF_TWO = ['node a of two', 'node b of two'];
const ACROSS = 'across nodes';
/** The cost limit of a call over the bus, both nodes together, relative to a call on a lone node. */
const MOST_ACROSS = 2;
/** The cost limit of a result of 1 MiB with any text, relative to nginx. */
const MOST_BIG = 1.5;
/** The cost limit of a renewed token, relative to a header from the definition. */
const MOST_SIGNED_IN = 1.03;
/** The cost limits of sending metrics, and of tracing one of a hundred calls. */
const MOST_LOGGED = 1.02;
const MOST_METRICS = 1.02;
const MOST_TRACED = 1.05;
/** The cost limit of being one of two nodes, relative to a lone node. */
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
 * at one and only the file of the other has the server. The CPU time of a crossing call is that of both nodes; that of a
 * call that stays is that of its node, including the work of being in a cluster.
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
 * As many sessions at each of two nodes as at the lone one. The memory of both grows by their own sessions and by their
 * records of the other node's sessions; it is divided by all sessions. Garbage is collected first: two nodes produce more
 * of it while sessions are opened, and uncollected garbage is not part of a session's size.
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
