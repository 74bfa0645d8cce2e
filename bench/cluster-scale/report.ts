import { markdown, number } from '../table.ts';
import type { BySubject } from './bus-meter.ts';
import type { Kind } from './client.ts';
import { costAt, fitOf } from './fit.ts';
import type { AtSize, ClusterScale, Memory, NewNode } from './measure.ts';
import { NODES_EACH_PROCESS, OWN_EACH, TOOLS_EACH } from './sizes.ts';

const MB = 1_000_000;
const MOST_RESTART_BYTES = MB;
const MOST_IDLE_BYTES = MB;
const MOST_READY_MS = 5_000;
/** Growth of a node's memory with ten times as many sessions of others in the store: garbage collections vary by as much. */
const MOST_GROWTH_MIB = 4;
const ON_PAPER = [100, 1_000];
const SUBJECTS = 6;

/** The figures with their limits; then the costs at other sizes, and estimates for 100 and 1,000 nodes. */
export function clusterScaleTable(found: ClusterScale): string {
  const { sizes, steps, memory, newNode } = found;
  const { nodes, servers, sessions } = sizes;
  const parts = [
    `### cluster-scale: ${nodes} nodes x ${many(servers)} servers, ${many(sessions)} sessions in the store`,
    `The nodes are gateways as programs embed them, ${NODES_EACH_PROCESS} a process, over one real nats-server; a new node is a process of its own. ${many(servers)} HTTP servers, played by four processes, are in the file of every node, ${OWN_EACH} more in that of one node each (${TOOLS_EACH} tools a server): together ${many(servers + nodes * OWN_EACH)}. Bytes are those that nats-server received and sent. While nodes were measured the store had ${many(found.sessionsBesideNodes)} sessions.`,
    markdown(
      ['figure', 'measured', 'limit', ''],
      [...atLastSize(steps.at(-1)), ...ofMemory(memory), ...ofNewNode(newNode)],
    ),
    ...(steps.length === 0 ? [] : [bySize(steps)]),
    ...(steps.length < 2 ? [] : [onPaper(steps)]),
    ...(found.subjects === null
      ? []
      : [
          subjectTable('while idle for 10 s', found.subjects.idle),
          subjectTable('of one restart', found.subjects.restart),
        ]),
    ...distressOf(found),
  ];
  return parts.join('\n\n');
}

function atLastSize(at: AtSize | undefined): string[][] {
  if (at === undefined) return [['nodes', 'not measured', '', '']];
  const { changes } = at;
  return [
    ['nodes', String(at.nodes), '', ''],
    ['bytes to start', bytes(at.startBytes), '', ''],
    limited('restart of a server of one node', at.ownRestartBytes, MOST_RESTART_BYTES, bytes),
    limited('restart of a server of all nodes', at.sharedRestartBytes, MOST_RESTART_BYTES, bytes),
    limited('idle traffic, a second', at.idleBytesPerSecond, MOST_IDLE_BYTES, bytes),
    notified('one more tool at a server of one node', changes.own),
    notified('one more tool at a server of all nodes', changes.shared),
  ];
}

function ofMemory(memory: readonly Memory[]): string[][] {
  const rows = memory.map(({ sessions, heldMiB, rssMiB }) => [
    `memory of a node, ${many(sessions)} sessions of others`,
    `${number(heldMiB)} MiB held, ${number(rssMiB)} MiB resident`,
    '',
    '',
  ]);
  const [tenth, all] = memory.slice(-2);
  if (tenth === undefined || all === undefined) return rows;
  const mib = (value: number): string => `${number(value)} MiB`;
  const what = `growth of that from ${many(tenth.sessions)} to ${many(all.sessions)} sessions`;
  return [...rows, limited(what, Math.max(0, all.heldMiB - tenth.heldMiB), MOST_GROWTH_MIB, mib)];
}

function ofNewNode(node: NewNode | null): string[][] {
  if (node === null) return [['a new node', 'not measured', '', '']];
  const ms = (value: number): string => (Number.isFinite(value) ? `${number(value / 1000)} s` : 'never');
  return [
    limited('a new node is ready', node.readyMs, MOST_READY_MS, ms),
    [
      'its first tools/list',
      `${node.firstListTools} of ${node.tools} tools, ${ms(node.firstListMs)} later`,
      'all',
      verdict(node.firstListTools >= node.tools),
    ],
    ['its first complete tools/list', `${ms(node.completeMs)} later`, '', ''],
    ['list_changed at its client meanwhile', kindsOf(node.changes), '', ''],
    ['bytes for its start and end', bytes(node.bytes), '', ''],
    ['CPU of it until then', `${number(node.cpuMs / 1000)} s`, '', ''],
    ['CPU of each other node until then', `${number(node.cpuMsOfEachOther / 1000)} s`, '', ''],
    ['memory it holds', `${number(node.heldMiB)} MiB`, '', ''],
    ['load of the machine meanwhile', number(node.load), '', ''],
  ];
}

function bySize(steps: readonly AtSize[]): string {
  const head = [
    'nodes',
    'start',
    'started in',
    'restart, own',
    'restart, shared',
    'idle, a second',
    'messages',
    'bytes each',
    'CPU of a node',
    'of nats-server',
    'load',
  ];
  const rows = steps.map((at) => [
    String(at.nodes),
    bytes(at.startBytes),
    `${number(at.startMs / 1000)} s${at.quiet ? '' : ', not quiet then'}`,
    bytes(at.ownRestartBytes),
    bytes(at.sharedRestartBytes),
    bytes(at.idleBytesPerSecond),
    number(at.idleMessagesPerSecond),
    number(at.idleBytesPerSecond / at.idleMessagesPerSecond),
    percent(at.idleCpuEach),
    percent(at.idleCpuNats),
    number(at.load),
  ]);
  return `Each size on top of the one before; CPU of one core, idle; load of the machine in the last minute of each:\n\n${markdown(head, rows)}`;
}

function onPaper(steps: readonly AtSize[]): string {
  const of = (cost: (at: AtSize) => number) => fitOf(steps.map((at) => [at.nodes, cost(at)] as const));
  const costs = [
    ['start', of((at) => at.startBytes), bytes],
    ['restart of a server of one node', of((at) => at.ownRestartBytes), bytes],
    ['restart of a server of all nodes', of((at) => at.sharedRestartBytes), bytes],
    ['idle bytes, a second', of((at) => at.idleBytesPerSecond), bytes],
    ['idle messages, a second', of((at) => at.idleMessagesPerSecond), number],
    ['CPU of all nodes, idle', of((at) => at.idleCpuEach * at.nodes), percent],
    ['CPU of nats-server, idle', of((at) => at.idleCpuNats), percent],
  ] as const;
  const head = [
    'cost of N nodes',
    'each x N',
    'pairs x N²',
    'off by',
    ...ON_PAPER.map((nodes) => `${many(nodes)} nodes`),
  ];
  const rows = costs.map(([what, fit, as]) => [
    what,
    as(fit.each),
    as(fit.pairs),
    percent(fit.off),
    ...ON_PAPER.map((nodes) => as(costAt(fit, nodes))),
  ]);
  return `On paper, fitted to the sizes measured:\n\n${markdown(head, rows)}`;
}

function subjectTable(when: string, subjects: BySubject): string {
  const all = [...subjects];
  const rows = all
    .slice(0, SUBJECTS)
    .map(([subject, { messages, bytes: size }]) => [`\`${subject}\``, many(messages), bytes(size)]);
  return `Published ${when}, each message once:\n\n${markdown(['subject', 'messages', 'bytes'], rows)}`;
}

function distressOf({ distress, problem }: ClusterScale): string[] {
  const events = Object.entries(distress).map(([event, count]) => `${event} ${many(count)}`);
  return [
    `Warnings of the nodes: ${events.length === 0 ? 'none' : events.join(', ')}.`,
    ...(problem === '' ? [] : [`The run ended early: ${problem.replaceAll(/[|\r\n]+/g, ' ')}`]),
  ];
}

function limited(what: string, value: number, most: number, as: (value: number) => string): string[] {
  return [what, as(value), as(most), verdict(value <= most)];
}

function notified(what: string, changes: Record<Kind, number>): string[] {
  const holds = changes.tools === 1 && changes.prompts === 0 && changes.resources === 0;
  return [`list_changed at a client: ${what}`, kindsOf(changes), '1 tools', verdict(holds)];
}

function kindsOf(changes: Record<Kind, number>): string {
  const kinds = Object.entries(changes).filter(([, count]) => count > 0);
  return kinds.length === 0 ? 'none' : kinds.map(([kind, count]) => `${count} ${kind}`).join(', ');
}

function verdict(holds: boolean): string {
  return holds ? 'holds' : 'does not hold';
}

function bytes(value: number): string {
  if (value >= 1_000 * MB) return `${number(value / 1_000 / MB)} GB`;
  if (value >= MB) return `${number(value / MB)} MB`;
  return value >= 1_000 ? `${number(value / 1_000)} kB` : `${number(value)} B`;
}

function percent(share: number): string {
  return `${number(share * 100)} %`;
}

function many(value: number): string {
  return value.toLocaleString('en');
}
